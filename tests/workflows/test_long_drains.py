"""A history that grows long while an instance leaves: real server, real control activities, hosts that pretend."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from temporalio.client import WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from tests import garbage
from tests.conftest import free_port, running
from tests.replay import fleet_scenes as scenes
from tests.workflows.conftest import sandbox
from tests.workflows.fleet_world import TENANT, FleetWorld, fleet_world
from wharfinger.dev import binaries, temporal
from wharfinger.workflows.acting import LONG
from wharfinger.workflows.fleet import Fleet
from wharfinger.workflows.rolling_update import RollingUpdate

pytestmark = pytest.mark.servers

ENDS = {"drainTimeoutSeconds": 3000.0, "progressDeadlineSeconds": 6000.0}
SUGGESTED = 400
"""Events after which Temporal suggests another run; 4,096 where nothing else is configured."""


@pytest.fixture
def suggesting_temporal(tmp_path: Path) -> Iterator[str]:
    """The address of a Temporal that soon suggests another run."""
    server = temporal.TemporalServer(binaries.locate(binaries.TEMPORAL), free_port())
    suggest = ("--dynamic-config-value", f"limit.historyCount.suggestContinueAsNew={SUGGESTED}")
    with running([*server.command(), *suggest], tmp_path / "log", lambda: asyncio.run(server.is_up()), 30):
        yield server.address


@pytest.fixture
async def suggesting_world(suggesting_temporal: str) -> AsyncIterator[FleetWorld]:
    async with fleet_world(suggesting_temporal) as world:
        yield world
    garbage.collect()


async def poke_until_long(world: FleetWorld, workflow_id: str, long: int = LONG) -> str:
    """Poke as often as happens within the hour that a drain may take; the run that got so many events."""
    description = await world.handle(workflow_id).describe()
    run = world.client.get_workflow_handle(workflow_id, run_id=description.run_id)
    try:
        for _ in range(long // 50):
            await asyncio.gather(*(run.signal("poke") for _ in range(50)))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # tasks add events of their own: it may be long and over before
            raise
    return str(description.run_id)


async def waited_a_moment(world: FleetWorld) -> bool:
    """Whether the actor has seen an instance leave and then waited: the time that its looks take counts for nothing."""
    await world.handle(world.fleet_id).signal("poke")  # ends the wait, and it looks again
    look = world.last_look
    return look is not None and any(look.memory.clock > entry.since for entry in look.memory.leaving)


async def drains(run: WorkflowHandle[object, object]) -> list[float]:
    """The seconds that each drain of a run may take."""
    events = (await run.fetch_history()).events
    asked = [event.activity_task_scheduled_event_attributes for event in events]
    asked = [one for one in asked if one.activity_type.name == "drain_instance"]
    return [json.loads(one.input.payloads[0].data)["timeout"] for one in asked]


async def test_fleet_fills_a_slot_though_a_drain_outlived_3000_events(world: FleetWorld) -> None:
    await scenes.first(world, 2, **ENDS)
    await world.until_settled("completed")
    world.hosts.stubborn = True
    await world.apply(1, "v1", **ENDS)
    await world.until(lambda: draining(world, 1))
    await world.until(lambda: waited_a_moment(world))
    long = await poke_until_long(world, world.fleet_id)

    (life,) = [life for life in await scenes.lives(world) if life[0] == 0]
    await world.hosts.end(TENANT, *life, how="code", detail="exit code 1")

    await world.until(lambda: scenes.ready_on(world, {0: 1}), 60)
    assert [slot for slot, _ in await scenes.lives(world)].count(1) == 1  # it still leaves
    description = await world.handle(world.fleet_id).describe()
    assert description.run_id != long
    (first, *_) = await drains(world.client.get_workflow_handle(world.fleet_id, run_id=long))
    again = await drains(world.client.get_workflow_handle(world.fleet_id, run_id=description.run_id))
    assert first == 3000.0
    assert len(again) == 1
    assert again[0] < first  # what was waited before counts

    await replay(world, world.fleet_id, long)


async def test_rollout_goes_on_in_the_run_that_temporal_suggests_during_a_drain(
    suggesting_world: FleetWorld,
) -> None:
    world = suggesting_world
    strategy = {"strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}}
    await scenes.first(world, 2, **ENDS, **strategy)
    world.hosts.stubborn = True
    generation = await world.apply(2, "v2", **ENDS, **strategy)
    await world.until(lambda: draining(world, 2))
    long = await poke_until_long(world, world.rollout_id(generation), SUGGESTED)

    await world.apply(3, "v2", **ENDS, **strategy)

    await world.until(lambda: third(world), 60)
    assert (await world.handle(world.rollout_id(generation)).describe()).run_id != long
    world.hosts.stubborn = False
    for slot, incarnation in await leaving(world):
        await world.hosts.end(TENANT, slot, incarnation, how="drained")
    await world.until_outcome(2, "completed", 60)
    await replay(world, world.rollout_id(generation), long)


async def replay(world: FleetWorld, workflow_id: str, run_id: str) -> None:
    """Such histories are too long to be kept in files."""
    history = await world.client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    assert any(event.HasField("marker_recorded_event_attributes") for event in history.events)
    await Replayer(
        workflows=[Fleet, RollingUpdate], data_converter=pydantic_data_converter, workflow_runner=sandbox()
    ).replay_workflow(history)


async def third(world: FleetWorld) -> bool:
    return (await world.ready()).get(2) == 2


async def leaving(world: FleetWorld) -> list[tuple[int, int]]:
    """Slot and incarnation of those that are asked to leave."""
    found = []
    for slot, incarnation in await scenes.lives(world):
        grant = await world.grant(slot, incarnation)
        if grant is not None and grant.want == "drain":
            found.append((slot, incarnation))
    return found


async def draining(world: FleetWorld, count: int) -> bool:
    return len(await leaving(world)) == count
