"""A whole hub on real servers: decides what comes, shares with another one, removes what has gone."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client

from tests import garbage
from tests.conftest import EtcdServer, TemporalServer
from tests.fleet.agent.hosts import until
from tests.patience import patient
from tests.placement.hub.obedient import Obedient
from tests.placement.objects import (
    agent_record,
    budget_object,
    eviction_object,
    in_region,
    member_object,
    pick,
    placement_object,
    status_record,
)
from wharfinger.errors import NotFound, UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.objects.documents.kinds import reference
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord
from wharfinger.placement.contracts.placement_records import EvictionRecord
from wharfinger.placement.reading.placements import Placements
from wharfinger.placement.state.catching_up import MOST_WAITING
from wharfinger.process.connecting import data_converter
from wharfinger.process.installation import register_search_attributes
from wharfinger.process.parts import ProcessParts
from wharfinger.programs.hub import Hub
from wharfinger.programs.process_settings import HubSettings
from wharfinger.settings import EtcdSettings
from wharfinger.telemetry import Metrics

SECONDS = patient(30)
WEB = "cluster/web"
OWN = (
    placement_keys.HUB,
    placement_keys.contents.prefix,
    keys.NAMESPACES,
    placement_keys.member_cluster.prefix,
    placement_keys.PLACEMENT_OBJECTS,
    keys.INSTALLATION,
)


@pytest.fixture
async def store(etcd_server: EtcdServer) -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_server.url,)))
    await clean(store)
    yield store
    await clean(store)
    await store.close()


async def clean(store: EtcdStore) -> None:
    for prefix in OWN:
        for key in [kv.key async for page in store.list(prefix) for kv in page.items]:
            await store.delete(key)


@pytest.fixture
async def client(temporal_server: TemporalServer) -> AsyncIterator[Client]:
    client = await Client.connect(temporal_server.address, data_converter=data_converter)
    await register_search_attributes(client)
    yield client
    garbage.collect()


async def until_seen(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what each look reads from a server."""
    async with asyncio.timeout(SECONDS):
        while not await holds():
            await asyncio.sleep(0.05)


class World:
    """A cluster's store and hubs."""

    def __init__(self, store: EtcdStore, client: Client) -> None:
        self.store = store
        self.client = client
        self.cluster = f"hub-{uuid.uuid4().hex[:8]}"
        self.placements = Placements(client, store, cluster=self.cluster)

    @asynccontextmanager
    async def hub(self, name: str) -> AsyncIterator[Hub]:
        settings = HubSettings(name=name, cluster=self.cluster)
        # The SDK takes one worker a queue of each client.
        client = await Client.connect(self.client.service_client.config.target_host, data_converter=data_converter)
        hub = Hub(settings, ProcessParts(self.store, Metrics(), rng=random.Random(1)), client)
        stop = asyncio.Event()
        running = asyncio.create_task(hub.run(stop))
        try:
            await until(lambda: running.done() or set(hub.checks().values()) == {"ok"}, SECONDS)
            yield hub
        finally:
            stop.set()
            await running

    async def put(self, obj: dict[str, Any]) -> None:
        about = reference(obj, "default")
        key = keys.stored(about.kind.folder, about.namespace, about.name)
        await self.store.put(key, json.dumps(obj).encode())

    async def member(self, name: str, **of: Any) -> None:
        await self.put(member_object(name, **of))
        kv = (await self.store.get(placement_keys.member_cluster(name))).kv
        assert kv is not None
        await self.store.put(placement_keys.member(name), agent_record(kv.create_revision))
        await self.store.put(placement_keys.member_status(name), status_record(kv.create_revision))

    async def chosen(self, name: str) -> list[str]:
        try:
            return list((await self.placements.decision(name)).decision.names)
        except NotFound:
            return []

    async def until_chosen(self, name: str, members: list[str]) -> None:
        async def so() -> bool:
            return await self.chosen(name) == members

        await until_seen(so)


@pytest.fixture
async def world(store: EtcdStore, client: Client) -> World:
    world = World(store, client)
    for name, region in (("a", "east"), ("b", "east"), ("c", "west")):
        await world.member(name, labels={"region": region})
    return world


async def test_a_hub_decides_what_comes_and_what_changes(world: World) -> None:
    async with world.hub("h1") as hub:
        await world.put(placement_object(**pick(1, **in_region("east"))))
        await world.put(placement_object("all"))
        await world.until_chosen("web", ["b"])
        await world.until_chosen("all", ["a", "b", "c"])
        await world.put(placement_object(generation=2, **pick(2, **in_region("east"))))
        await world.until_chosen("web", ["a", "b"])
        await world.member("d", labels={"region": "east"})
        await world.until_chosen("all", ["a", "b", "c", "d"])
        await until(lambda: hub.placements.unsettled == 0, SECONDS)
        (polling,) = hub._pollings
        assert polling._worker is not None
        places = polling._worker.config()["max_concurrent_activities"]
        assert places is not None
        assert places >= MOST_WAITING + 100, "rollouts that wait take no places of decisions"
        hub.refresh_metrics()
        sample = hub.metrics.registry.get_sample_value
        assert sample("wharfinger_placements", {"state": "fulfilled"}) == 2
        assert sample("wharfinger_member_clusters", {"online": "true"}) == 4
        assert sample("wharfinger_ready") == 1


async def test_a_leaving_member_goes_and_a_deleted_placement_too(world: World) -> None:
    async with world.hub("h1"), Obedient().at_work(world.store):
        await world.put(placement_object(**pick(1)))
        await world.until_chosen("web", ["c"])
        await world.put(member_object("c", labels={"region": "west"}, deletionTimestamp="2026-01-01T00:00:00Z"))
        await world.until_chosen("web", ["b"])

        async def gone(key: str) -> bool:
            return (await world.store.get(key)).kv is None

        await until_seen(lambda: gone(placement_keys.member_cluster("c")))
        await world.put(placement_object(deleting=True, **pick(1)))
        await until_seen(lambda: gone(placement_keys.placement("cluster/web")))
        assert await gone(placement_keys.decision("cluster/web"))
        assert await gone(placement_keys.policy("cluster/web", 1))


async def test_evictions_and_deletions_wait_for_what_was_delivered(world: World) -> None:
    async def gone(key: str) -> bool:
        return (await world.store.get(key)).kv is None

    async def ended(name: str) -> bool:
        kv = (await world.store.get(placement_keys.evicted(name))).kv
        return kv is not None and EvictionRecord.model_validate_json(kv.value).executed

    async def available(name: str) -> bool:
        kv = (await world.store.get(placement_keys.result(WEB, name))).kv
        return kv is not None and ResultRecord.model_validate_json(kv.value).available

    async with world.hub("h1") as hub, Obedient({"b", "c"}).at_work(world.store) as agents:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
        await world.put(namespace)
        await world.put(placement_object(**pick(2)))
        await world.put(budget_object("web", minAvailable=1))
        await world.until_chosen("web", ["b", "c"])
        for name in "bc":
            await until_seen(lambda name=name: available(name))
        await world.put(eviction_object("e", "web", "c"))
        await until_seen(lambda: ended("e"))
        await world.until_chosen("web", ["a", "b"])
        await world.put(placement_object(generation=2, **pick(3)))
        await world.until_chosen("web", ["a", "b"])  # it lingers on the third
        agents.holding.discard("c")
        await world.until_chosen("web", ["a", "b", "c"])
        await until_seen(lambda: available("c"))

        await world.put(placement_object(generation=2, deleting=True, **pick(3)))
        await world.until_chosen("web", [])
        await until_seen(lambda: gone(placement_keys.work(WEB, "c")))
        assert not await gone(placement_keys.placement(WEB))
        await until(lambda: not hub.placements._later, SECONDS)  # only events make it reconcile again
        agents.holding.clear()
        await until_seen(lambda: gone(placement_keys.placement(WEB)))
        assert await gone(placement_keys.rollout(WEB))
        assert await gone(placement_keys.losses(WEB))


async def test_two_hubs_share_the_placements_and_one_goes_on_alone(world: World) -> None:
    async with world.hub("h1") as first:
        async with world.hub("h2") as second:
            await until(lambda: len(first.view.hubs) == len(second.view.hubs) == 2, SECONDS)
            for number in range(12):
                await world.put(placement_object(f"p{number}", **pick(1)))
            for number in range(12):
                await world.until_chosen(f"p{number}", ["c"])
            mine = [first.placements.mine(f"cluster/p{number}") for number in range(12)]
            assert mine == [not second.placements.mine(f"cluster/p{number}") for number in range(12)]
            assert 0 < sum(mine) < 12
        await until(lambda: first.view.hubs == {"h1"}, SECONDS)
        await world.put(placement_object("later", **pick(1)))
        await world.until_chosen("later", ["c"])


async def test_a_program_decides_explains_and_plans(world: World) -> None:
    await world.put(placement_object(**pick(1, **in_region("east"))))
    async with world.hub("h1"):
        result = await world.placements.decide("web", timeout=SECONDS)
        assert result.outcome in ("fulfilled", "unchanged")
        explained = await world.placements.explain("cluster/web")
        assert explained.again.same
        assert [one.name for one in explained.record.decision.verdicts] == ["a", "c"]
        (planned,) = await world.placements.plan(leave=["b"])
        assert (planned.added, planned.removed) == (["a"], ["b"])
        assert await world.placements.plan([placement_object(**pick(1, **in_region("east")))]) == []

        async def told() -> bool:
            return "fulfilled" in [one.outcome for one in await world.placements.attempts("web")]

        await until_seen(told)
        with pytest.raises(NotFound):
            await world.placements.decide("nothing")
        with pytest.raises(UsageError):
            await world.placements.decision("../web")


async def test_a_second_hub_of_the_same_name_does_not_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wharfinger.process.registration.SLACK", -9.0)
    async with world.hub("h1"):
        with pytest.raises(UsageError, match="hub h1 runs already"):
            async with world.hub("h1"):
                pass
