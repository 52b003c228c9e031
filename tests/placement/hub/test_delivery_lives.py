"""What becomes of what lies on members: restored stores, joins and leaves, deletions unseen, strangers' objects.

Hubs, agents and a real Temporal; the stores are in memory, so that they can be restored and taken away.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client

from tests import garbage
from tests.conftest import TemporalServer
from tests.fleet.agent.hosts import until
from tests.placement.deliveries import judge_member
from tests.placement.objects import member_object
from wharfinger.errors import RevisionWentBack, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete, Store
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord
from wharfinger.placement.member.folder import MemberConnection
from wharfinger.placement.member.member_agent import MemberReporter
from wharfinger.placement.member.works import Works
from wharfinger.process.connecting import data_converter
from wharfinger.process.installation import register_search_attributes
from wharfinger.process.parts import ProcessParts
from wharfinger.programs.hub import Hub
from wharfinger.programs.process_settings import HubSettings
from wharfinger.settings import EtcdSettings, LeaseSettings
from wharfinger.telemetry import Metrics
from wharfinger.testing.memory_store import MemoryStore

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

WEB = "cluster/web"
CHART = keys.stored("configmaps", "web", "chart")
NOW = "2026-01-01T00:00:00Z"


@pytest.fixture
async def client(temporal_server: TemporalServer) -> AsyncIterator[Client]:
    client = await Client.connect(temporal_server.address, data_converter=data_converter)
    await register_search_attributes(client)
    yield client
    garbage.collect()


class Fleet:
    """A hub and members, whose stores are in memory."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.cluster = f"lives-{uuid.uuid4().hex[:8]}"
        self.store = MemoryStore(clock=time.monotonic)
        self.members: dict[str, MemoryStore] = {}
        self.away: set[str] = set()
        """Members that do not answer."""

    @asynccontextmanager
    async def hub(self) -> AsyncIterator[Hub]:
        """A hub that is started again when its etcd was restored, as a supervisor would."""
        stop = asyncio.Event()
        running: list[Hub] = []

        async def serve() -> None:
            while not stop.is_set():
                client = await Client.connect(
                    self.client.service_client.config.target_host, data_converter=data_converter
                )
                parts = ProcessParts(self.store.client(), Metrics(), rng=random.Random(1))
                running.append(Hub(HubSettings(name="h1", cluster=self.cluster), parts, client))
                try:
                    await running[-1].run(stop)
                except RevisionWentBack:
                    continue

        serving = asyncio.create_task(serve())
        try:
            await until(lambda: bool(running) and set(running[-1].checks().values()) == {"ok"})
            yield running[-1]
        finally:
            stop.set()
            await serving

    @asynccontextmanager
    async def agents(self, *names: str, same: str = "") -> AsyncIterator[None]:
        """Agents of members, each with a store of its own; `same`: all on the store of that member."""
        for name in names:
            self.members.setdefault(name, MemoryStore(clock=time.monotonic))

        async def serve() -> None:
            while True:
                process = ProcessParts(self.store.client())
                works = Works(process.store, rng=process.rng)
                following = asyncio.create_task(works.run())
                tasks = [
                    following,
                    *(asyncio.create_task(self._agent(n, same or n, process, works).run()) for n in names),
                ]
                try:
                    await following
                except RevisionWentBack:  # the process ends, and is started again
                    continue
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

        serving = asyncio.create_task(serve())
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    def _agent(self, name: str, where: str, process: ProcessParts, works: Works) -> MemberReporter:
        async def connect() -> Store:
            if name in self.away:
                raise Unavailable("no route")
            return self.members[where].client()

        return MemberReporter(
            MemberConnection(name, EtcdSettings(), ClusterFormat.KUBERNETES),
            process,
            connect,
            lease=LeaseSettings(ttl=10.0),
            report_every=0.2,
            look_every=0.05,
            give_back_every=0.2,
            works=works,
        )

    def restore(self, revision: int) -> None:
        """The hub's etcd is as it was."""
        self.store.restore(revision)
        self.store = self.store.client()

    async def put(self, key: str, obj: dict[str, Any]) -> None:
        await self.store.put(key, json.dumps(obj).encode())

    async def join(self, *names: str) -> None:
        for name in names:
            await self.put(placement_keys.member_cluster(name), member_object(name))

    async def leave(self, name: str) -> None:
        await self.put(placement_keys.member_cluster(name), member_object(name, deletionTimestamp=NOW))
        await until(lambda: self.is_gone(placement_keys.member_cluster(name)), 30)

    async def is_gone(self, key: str) -> bool:
        return (await self.store.get(key)).kv is None

    async def contents(self, version: str, namespace: str = "web") -> None:
        await self.put(
            keys.stored("namespaces", "", namespace),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        )
        await self.put(
            keys.stored("configmaps", namespace, "chart"),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "chart", "namespace": namespace},
                "data": {"version": version},
            },
        )

    async def place(self, name: str = "web", namespace: str = "web", **strategy: Any) -> None:
        await self.put(
            placement_keys.placement(f"cluster/{name}"),
            {
                "apiVersion": "placement.kubernetes-fleet.io/v1",
                "kind": "ClusterResourcePlacement",
                "metadata": {"name": name, "generation": 1},
                "spec": {
                    "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": namespace}],
                    "policy": {"placementType": "PickAll"},
                    "strategy": {"type": "RollingUpdate", **strategy},
                },
            },
        )

    async def delete(self, name: str = "web") -> None:
        kv = (await self.store.get(placement_keys.placement(f"cluster/{name}"))).kv
        assert kv is not None
        obj = json.loads(kv.value)
        obj["metadata"]["deletionTimestamp"] = NOW
        await self.put(placement_keys.placement(f"cluster/{name}"), obj)

    async def result(self, member: str, placement: str = WEB) -> ResultRecord:
        kv = (await self.store.get(placement_keys.result(placement, member))).kv
        return ResultRecord.model_validate_json(kv.value) if kv is not None else ResultRecord()

    async def work(self, member: str, placement: str = WEB) -> WorkRecord:
        kv = (await self.store.get(placement_keys.work(placement, member))).kv
        return WorkRecord.model_validate_json(kv.value) if kv is not None else WorkRecord()

    async def version(self, member: str, key: str = CHART) -> str:
        kv = (await self.members[member].get(key)).kv
        return str(json.loads(kv.value).get("data", {}).get("version", "")) if kv is not None else ""

    async def until_version(self, member: str, version: str, seconds: float = 30) -> None:
        async def so() -> bool:
            return await self.version(member) == version

        await until(so, seconds)

    async def until_told(self, member: str, says: Callable[[ResultRecord], bool], placement: str = WEB) -> None:
        async def so() -> bool:
            return says(await self.result(member, placement))

        await until(so, 30)


@pytest.fixture
def fleet(client: Client) -> Fleet:
    return Fleet(client)


async def test_a_hub_restored_from_a_backup_goes_above_what_members_have(fleet: Fleet) -> None:
    async with fleet.hub(), fleet.agents("east"):
        await fleet.join("east")
        await fleet.contents("1")
        await fleet.place()
        await fleet.until_version("east", "1")
        await fleet.until_told("east", lambda one: one.available)
        saved = fleet.store.revision
        for number in range(3):  # more works: the apply strategy changes
            await fleet.place(applyStrategy={"whenToApply": "IfNotDrifted" if number % 2 == 0 else "Always"})
            await until(lambda number=number: _counter(fleet, number + 2), 30)
        assert (await fleet.work("east")).counter == 4
        fleet.restore(saved)

        async def above() -> bool:
            work, result = await fleet.work("east"), await fleet.result("east")
            return work.counter > 4 and result.counter == work.counter and result.available

        await until(above, 60)
        assert await judge_member(fleet.members["east"], "east") == []


async def _counter(fleet: Fleet, counter: int) -> bool:
    result = await fleet.result("east")
    return result.counter == counter and result.available


async def test_a_member_restored_from_a_backup_gets_what_is_wanted(fleet: Fleet) -> None:
    async with fleet.hub(), fleet.agents("east"):
        await fleet.join("east")
        await fleet.contents("1")
        saved = fleet.members["east"].revision
        await fleet.place()
        await fleet.until_version("east", "1")
        await fleet.until_told("east", lambda one: one.available)
        fleet.members["east"].restore(saved, bump=1_000)
        await fleet.until_version("east", "1", 60)
        await fleet.until_told("east", lambda one: one.available)


async def test_deleted_while_a_member_is_away_and_made_anew(fleet: Fleet) -> None:
    async with fleet.hub():
        async with fleet.agents("east", "west"):
            await fleet.join("east", "west")
            await fleet.contents("1")
            await fleet.place()
            await fleet.until_version("east", "1")
            await fleet.until_version("west", "1")
            await fleet.until_told("west", lambda one: one.available)
        async with fleet.agents("east"):  # west has no agent any more
            await fleet.delete()
            await fleet.until_version("east", "")
            await until(lambda: _wants(fleet, "west", "absent"), 30)
            assert await fleet.version("west") == "1"
            assert not await fleet.is_gone(placement_keys.placement(WEB))
            await fleet.store.delete(placement_keys.placement(WEB))
            await fleet.place()
            await fleet.until_version("east", "1", 60)
        async with fleet.agents("east", "west"):
            await until(lambda: _wants(fleet, "west", "present"), 30)
            await fleet.until_told("west", lambda one: one.available)
            assert await fleet.version("west") == "1"
        for name in ("east", "west"):
            assert await judge_member(fleet.members[name], name) == []


async def _wants(fleet: Fleet, member: str, want: str) -> bool:
    return (await fleet.work(member)).want == want and not await fleet.is_gone(placement_keys.work(WEB, member))


async def test_a_member_leaves_and_comes_back_thirty_times(fleet: Fleet) -> None:
    async with fleet.hub(), fleet.agents("east", "west"):
        await fleet.join("east", "west")
        await fleet.contents("1")
        await fleet.place()
        await fleet.until_version("east", "1")
        for _ in range(30):
            await fleet.store.txn([], [Delete(placement_keys.member_cluster("east"))])
            await fleet.join("east")
        identity = (await fleet.store.get(placement_keys.member_cluster("east"))).kv
        assert identity is not None
        await fleet.until_told("east", lambda one: one.available and one.identity == identity.create_revision)
        assert (await fleet.work("east")).identity == identity.create_revision
        assert await fleet.version("east") == "1"
        assert (await fleet.result("west")).available


async def test_one_object_is_one_placements(fleet: Fleet) -> None:
    async with fleet.hub(), fleet.agents("east"):
        await fleet.join("east")
        await fleet.contents("1")
        await fleet.place()
        await fleet.until_told("east", lambda one: one.available)
        await fleet.place("other")
        await fleet.until_told("east", lambda one: one.failed, "cluster/other")
        told = await fleet.result("east", "cluster/other")
        assert "it is placed by cluster/web already" in told.reason
        assert (await fleet.result("east")).available
        await fleet.delete()
        await fleet.until_told("east", lambda one: one.available, "cluster/other")
        assert await fleet.version("east") == "1"
        await until(lambda: fleet.is_gone(placement_keys.placement(WEB)), 30)


async def test_one_etcd_is_one_member(fleet: Fleet) -> None:
    async with fleet.hub(), fleet.agents("east", "twin", same="east"):
        await fleet.join("east")
        await fleet.contents("1")
        await fleet.place()
        await fleet.until_told("east", lambda one: one.available)
        await fleet.join("twin")

        async def conflicts() -> bool:
            kv = (await fleet.store.get(placement_keys.member_status("twin"))).kv
            return kv is not None and b"JoinConflict" in kv.value

        await until(conflicts, 30)
        assert (await fleet.result("twin")).counter == 0
        assert (await fleet.result("east")).available


async def test_strangers_change_what_lies_there_and_it_is_changed_back(fleet: Fleet) -> None:
    async with fleet.hub(), fleet.agents("east"):
        await fleet.join("east")
        await fleet.contents("1")
        await fleet.place()
        await fleet.until_told("east", lambda one: one.available)
        member = fleet.members["east"]
        for broken in (b"", b"{", b"[]", b"null", b'{"kind": 1}', b'{"data": {"version": 7}}', b"\xff\xfe"):
            await member.put(CHART, broken)
            await asyncio.sleep(0)
        await fleet.until_told("east", lambda one: not one.available)
        await member.delete(CHART)
        await fleet.until_version("east", "1")
        await fleet.until_told("east", lambda one: one.available)
        obj = json.loads((await _kv(member, CHART)).decode())
        obj["data"] = {"version": "theirs", "more": "stays"}
        await member.put(CHART, json.dumps(obj).encode())
        await fleet.until_version("east", "1")
        assert json.loads((await _kv(member, CHART)).decode())["data"] == {"version": "1", "more": "stays"}


async def _joined(fleet: Fleet, member: str) -> bool:
    return not await fleet.is_gone(placement_keys.member_status(member)) and (
        (await fleet.members[member].get(placement_keys.PLACED_MEMBER)).kv is not None
    )


async def _kv(store: MemoryStore, key: str) -> bytes:
    kv = (await store.get(key)).kv
    assert kv is not None
    return kv.value


HOSTILE: tuple[Callable[[int], bytes], ...] = (
    lambda number: b"{" * number,
    lambda number: json.dumps({"kind": "ClusterResourcePlacement", "spec": number}).encode(),
    lambda number: json.dumps({"kind": [], "metadata": "x" * number}).encode(),
    lambda number: b'{"a":' * 200 + b"1" + b"}" * 200,
    lambda number: bytes(range(256)),
)


async def test_hostile_objects_disturb_nothing_else(fleet: Fleet) -> None:
    async with fleet.hub() as hub, fleet.agents("east"):
        await fleet.join("east")
        await fleet.contents("1")
        folders = (
            placement_keys.CLUSTER_PLACEMENTS,
            placement_keys.member_cluster.prefix,
            *placement_keys.OVERRIDES,
            placement_keys.work.prefix,
            placement_keys.result.prefix,
            placement_keys.pin.prefix,
        )
        folders += (
            placement_keys.rollout.prefix,
            placement_keys.snapshot.prefix,
            placement_keys.decision.prefix,
            keys.stored_prefix("namespaces"),
        )
        for number in range(500):
            folder = folders[number % len(folders)]
            await fleet.store.put(f"{folder}hostile-{number}", HOSTILE[number % len(HOSTILE)](number))
        await fleet.place()
        await fleet.until_told("east", lambda one: one.available)
        await fleet.delete()
        await fleet.until_version("east", "")
        await until(lambda: fleet.is_gone(placement_keys.placement(WEB)), 30)
        assert set(hub.checks().values()) == {"ok"}


async def test_what_nobody_knows_is_shown_and_kept(fleet: Fleet) -> None:
    async with fleet.hub(), fleet.agents("east"):
        await fleet.join("east")
        await fleet.contents("1")
        await until(lambda: _joined(fleet, "east"), 30)
        before = fleet.store.revision
        await fleet.place()
        await fleet.until_told("east", lambda one: one.available)
        fleet.restore(before)  # the hub knows the member, and no placement

        async def shown() -> bool:
            kv = (await fleet.store.get(placement_keys.member_status("east"))).kv
            return kv is not None and json.loads(kv.value).get("orphans") == [WEB]

        await until(shown, 60)
        assert await fleet.version("east") == "1"
