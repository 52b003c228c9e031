"""A fleet on real agents: it comes up, survives its agents, follows a change, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.conftest import start_etcd, start_temporal
from tests.integration.agent_process import Site
from tests.patience import PROCESSES
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.fleet.contracts.fleet_records import FleetStatusRecord
from wharfinger.fleet.model.rollout import RolloutStatus
from wharfinger.process.connecting import data_converter, temporal_configuration
from wharfinger.process.records import InstanceRecord
from wharfinger.settings import EtcdSettings, TemporalSettings

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

TENANT = "common"
HOST_LOST = 8.0 + 4.0 * PROCESSES
"""Seconds; a host's queue may be silent for half as long."""


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Of an etcd and a Temporal of the test's own."""
    with start_etcd(tmp_path) as etcd, start_temporal(tmp_path) as temporal:
        yield etcd.url, temporal.address


@pytest.fixture
async def site(addresses: tuple[str, str], tmp_path: Path) -> AsyncIterator[Site]:
    etcd, temporal = addresses
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd,)))
    configuration = temporal_configuration(TemporalSettings(address=temporal))
    client = await Client.connect(**configuration, data_converter=data_converter)
    options = (f"--etcd={etcd}", f"--temporal={temporal}", f"--host-lost={HOST_LOST:g}")
    site = Site(store, client, options, tmp_path, f"host-{uuid.uuid4().hex[:8]}", [], pause=0.25)
    try:
        yield site
    finally:
        site.end()
        await store.close()


def fleet(deleting: bool = False, **spec: Any) -> bytes:
    metadata = {"name": TENANT} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})
    rolling = {"soakSeconds": 0} | spec.pop("strategy", {}).get("rollingUpdate", {})
    written = {"replicas": 2, "minReadySeconds": 1, **spec, "strategy": {"rollingUpdate": rolling}}
    return json.dumps(
        {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": metadata, "spec": written}
    ).encode()


async def status(site: Site) -> RolloutStatus | None:
    kv = (await site.store.get(keys.fleet_status(TENANT))).kv
    return FleetStatusRecord.model_validate_json(kv.value).status if kv is not None else None


async def instances(site: Site) -> dict[str, InstanceRecord]:
    found = {}
    async for page in site.store.list(keys.instance.below(TENANT)):
        found |= {kv.key: InstanceRecord.model_validate_json(kv.value) for kv in page.items}
    return found


async def serves(site: Site, revision: int) -> bool:
    """Two ready instances of the revision, which are all that live, and the rollout over."""
    now, registered = await status(site), await instances(site)
    return (
        now is not None
        and (now.completed, now.ready, now.updated) == (revision, 2, 2)
        and [record.state for record in registered.values()] == ["ready", "ready"]
        and sorted(site.alive()) == sorted(record.pid for record in registered.values())
    )


async def test_a_fleet_survives_its_agents_and_follows_a_change(site: Site) -> None:
    agent = site.start()
    await site.until(agent.ready)
    await site.store.put(keys.fleet(TENANT), fleet())
    await site.until(lambda: serves(site, 1), 60)
    first = set(site.alive())

    os.kill(min(first), signal.SIGKILL)
    agent.kill()  # no agent sees the end
    agent = site.start()
    await site.until(agent.ready)
    await site.until(lambda: serves(site, 1), 90)
    second = set(site.alive())
    assert max(first) in second

    await site.store.put(keys.fleet(TENANT), fleet(template={"restartedAt": "2026-01-01T00:00:00Z"}))
    await site.until(lambda: {*site.alive()} - second, 60)  # the first newcomer
    agent.kill()
    agent = site.start()
    await site.until(agent.ready)
    await site.until(lambda: serves(site, 2), 120)
    assert not set(site.alive()) & (first | second)

    await site.store.put(keys.fleet(TENANT), fleet(deleting=True))
    await site.until(lambda: not site.alive(), 60)
    await site.until(lambda: _forgotten(site), 60)
    assert agent.stop() == 0


async def test_instances_without_an_agent_serve_on_when_their_host_is_given_up(site: Site) -> None:
    """What ends there is repaired elsewhere, at the moment at which once all of it was ended."""
    for agent in (site.start(), site.start("--host=other", "--no-control", data="other")):
        await site.until(agent.ready)
    await site.store.put(keys.fleet(TENANT), fleet(replicas=4))
    await site.until(lambda: ready(site, 4), 90)
    there = {key: one.pid for key, one in (await instances(site)).items() if one.host == "other"}
    assert len(there) == 2
    (ends, killed), (stays, serves_on) = sorted(there.items())

    agent.kill()
    os.kill(killed, signal.SIGKILL)

    await site.until(lambda: moved(site, ends), 180)
    await site.until(lambda: ready(site, 4), 60)
    after = await instances(site)
    assert (after[stays].pid, after[stays].state) == (serves_on, "ready")
    now = await status(site)
    assert now is not None
    assert now.ready == 4

    agent = site.start("--host=other", "--no-control", data="other")
    await site.until(agent.ready)
    await site.until(lambda: ready(site, 4), 60)
    assert (await instances(site))[stays].pid == serves_on


async def test_a_rollout_ends_though_the_agent_of_what_it_replaces_is_away(site: Site) -> None:
    """Workers watch their grants themselves; no agent reports their ends, so each takes its deadline, and no longer."""
    for agent in (site.start(), site.start("--host=other", "--no-control", data="other")):
        await site.until(agent.ready)
    quick = {"drainTimeoutSeconds": 3, "killTimeoutSeconds": 1}
    await site.store.put(keys.fleet(TENANT), fleet(**quick))
    await site.until(lambda: serves(site, 1), 90)
    assert {one.host for one in (await instances(site)).values()} == {site.host, "other"}

    agent.kill()
    await site.until(lambda: away(site, "other"), 60)
    await site.store.put(keys.fleet(TENANT), fleet(template={"restartedAt": "2026-01-01T00:00:00Z"}, **quick))

    await site.until(lambda: serves(site, 2), 240)
    assert {one.host for one in (await instances(site)).values()} == {site.host}


async def ready(site: Site, number: int) -> bool:
    """Whether so many are, all of them counted, and nothing else is registered."""
    now, registered = await status(site), await instances(site)
    states = [record.state for record in registered.values()]
    return now is not None and now.ready == number and states == ["ready"] * number


async def moved(site: Site, key: str) -> bool:
    """Whether the grant that belongs to a registration is gone."""
    return (await site.store.get(key.replace(keys.INSTANCES, keys.GRANTS))).kv is None


async def away(site: Site, host: str) -> bool:
    """Whether it has no agent."""
    return (await site.store.get(keys.host(host))).kv is None


async def _forgotten(site: Site) -> bool:
    if list(site.data.glob("instances/*/*/*.lock")):
        return False
    for prefix in (keys.FLEETS, keys.GRANTS, keys.EXITS, keys.SLOTS, keys.FLEET_STATUS):
        async for page in site.store.list(prefix):
            if page.items:
                return False
    return True
