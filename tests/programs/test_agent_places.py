"""How many activities an agent holds at a time: those of tenants in trouble wait, and the others' go on beside them."""

from __future__ import annotations

from pathlib import Path

from temporalio.client import Client

from tests.conftest import TemporalServer
from wharfinger.fleet.spec.agent_settings import AgentSettings
from wharfinger.fleet.spec.fleet_fields import MOST_REPLICAS
from wharfinger.process.parts import ProcessParts
from wharfinger.programs.agent import Agent
from wharfinger.testing.fake_runtime import FakeRuntime
from wharfinger.testing.memory_store import MemoryStore


async def well(_: str) -> str:
    return ""


async def test_a_dozen_tenants_that_never_get_ready_leave_places_for_others(
    temporal_server: TemporalServer, tmp_path: Path
) -> None:
    client = await Client.connect(temporal_server.address)
    settings = AgentSettings(host="here", data_dir=tmp_path)
    agent = Agent(settings, ProcessParts(MemoryStore()), client, runtime=FakeRuntime(tmp_path), ask=well)

    for polling in agent._pollings:
        places = polling._factory().config()["max_concurrent_activities"]
        assert places is not None
        assert places > 12 * MOST_REPLICAS
