"""Placements are delivered although everything dies or stands still, judged from the histories of both sides' etcd."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.dev_tree import DevTree, end_all
from tests.integration.members_in_memory import members_in_memory
from tests.patience import patient
from tests.placement.deliveries import DeliveryHistory, judge_hub, judge_member
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import PinRecord, ResultRecord, WorkRecord
from wharfinger.settings import EtcdSettings

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

REAL, IN_MEMORY = 3, 17
PLACEMENTS = ("a", "b", "c")
STAGED = "s"
DOWN, UP = 4, 2
WITHIN = 60.0
"""Seconds from the last blow until everything is delivered."""
BLOWS = (("hub", "member", "member-1"), ("temporal", "etcd"), ("stop hub", "stop member", "hub"))
"""What strikes during one rollout after the other."""
ROUNDS = int(os.environ.get("WHARFINGER_TEST_ROUNDS", "1"))
LOOK_EVERY = float(os.environ.get("WHARFINGER_TEST_LOOK_EVERY", "1"))
"""Seconds between two lists of all works and results."""
CONTENTS = 8
"""Objects of each placement."""
MANY, CONCURRENCY, WAIT = 47, 6, 20
"""Of a staged run: members of its second stage, how many at a time, and seconds that it waits then."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    folder = tmp_path_factory.mktemp("delivery")
    tree = DevTree(folder, workers=0)
    try:
        tree.start(f"--members={REAL}")
        yield tree
        assert tree.stop() == 0
    finally:
        tree.end()
        end_all(folder)


async def put(store: Store, key: str, obj: dict[str, Any]) -> None:
    await store.put(key, json.dumps(obj).encode())


async def write_contents(store: Store, version: int, names: tuple[str, ...] = PLACEMENTS) -> None:
    """What each placement selects: a namespace with maps."""
    for name in names:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await put(store, keys.stored("namespaces", "", name), namespace)
        for number in range(CONTENTS):
            obj = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"map-{number}", "namespace": name},
                "data": {"version": str(version)},
            }
            await put(store, keys.stored("configmaps", name, f"map-{number}"), obj)


def placement(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name, "generation": 1},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": name}],
            "policy": {"placementType": "PickAll"},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": DOWN, "maxSurge": UP}},
        },
    }


async def undelivered(store: Store, snapshot: int) -> list[str]:
    """Works that are not there, or not available with this snapshot."""
    found: dict[str, WorkRecord] = {}
    results: dict[str, ResultRecord] = {}
    async for page in store.list(placement_keys.work.prefix):
        found |= {
            kv.key.removeprefix(placement_keys.work.prefix): WorkRecord.model_validate_json(kv.value)
            for kv in page.items
        }
    async for page in store.list(placement_keys.result.prefix):
        results |= {
            kv.key.removeprefix(placement_keys.result.prefix): ResultRecord.model_validate_json(kv.value)
            for kv in page.items
        }
    open_ = [
        key
        for key, work in found.items()
        if work.snapshot != snapshot
        or key not in results
        or not (results[key].available and results[key].counter >= work.since)
    ]
    return [*open_, *["a work is missing"] * (len(PLACEMENTS) * (REAL + IN_MEMORY) - len(found))]


async def delivered(store: Store, snapshot: int, within: float) -> float:
    """Seconds until all have that snapshot."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    left: list[str] = []
    while loop.time() - began < patient(within):
        left = await undelivered(store, snapshot)
        if not left:
            return loop.time() - began
        await asyncio.sleep(LOOK_EVERY)
    raise AssertionError(f"not within {within} s: {len(left)} works, such as {left[:3]}")


async def stand_still(tree: DevTree, what: str, seconds: float) -> None:
    pid = tree.ready["pids"][what]
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


async def pin(store: Store, snapshot: int) -> None:
    for name in PLACEMENTS:
        await store.put(placement_keys.pin(f"cluster/{name}"), PinRecord(snapshot=snapshot).to_bytes())


async def test_everything_dies_while_rollouts_go_on(tree: DevTree) -> None:
    url = tree.ready["etcd"]
    store = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
    async with members_in_memory(url, IN_MEMORY) as stores:
        await write_contents(store, 1)
        for name in PLACEMENTS:
            await put(store, placement_keys.placement(f"cluster/{name}"), placement(name))
        await delivered(store, 1, 90)
        await write_contents(store, 2)
        await delivered(store, 2, 120)
        snapshot = 2
        for blows in BLOWS * ROUNDS:
            snapshot = 3 - snapshot
            await pin(store, snapshot)
            for blow in blows:
                await asyncio.sleep(0.3)
                if blow.startswith("stop "):
                    await stand_still(tree, blow.removeprefix("stop "), 6.0)
                else:
                    await asyncio.to_thread(tree.kill, blow)
            took = await delivered(store, snapshot, WITHIN)
            print(f"delivered {took:.1f} s after the last blow of {', '.join(blows)}")
        target = REAL + IN_MEMORY
        judged = DeliveryHistory({f"cluster/{name}": target for name in PLACEMENTS}, DOWN, UP)
        await judge_hub(store, judged)
        assert judged.broken == []
        assert judged.changes >= 4 * target * len(PLACEMENTS)
        for name, memory in stores.items():
            assert await judge_member(memory, name) == []
    for name, where in tree.ready["members"].items():
        member = await EtcdStore.connect(EtcdSettings(endpoints=(where,)))
        assert await judge_member(member, name) == []
        kv = (await member.get(keys.stored("configmaps", "a", "map-0"))).kv
        assert kv is not None
        assert json.loads(kv.value)["data"] == {"version": str(snapshot)}
        await member.close()
    for placed in PLACEMENTS:
        await asyncio.to_thread(tree.cli, "placement", "delete", placed)
    await store.close()


def staged(name: str) -> list[dict[str, Any]]:
    """A strategy in three stages, and a placement that only runs deliver."""
    group = "placement.kubernetes-fleet.io/v1beta1"
    canary = {"matchLabels": {"wave": "canary"}}
    many = {"matchLabels": {"wave": "many"}}
    stages = [
        {
            "name": "canary",
            "labelSelector": canary,
            "maxConcurrency": 1,
            "afterStageTasks": [{"type": "Approval"}],
        },
        {
            "name": "many",
            "labelSelector": many,
            "maxConcurrency": CONCURRENCY,
            "afterStageTasks": [{"type": "TimedWait", "waitTime": f"{WAIT}s"}],
        },
        {"name": "last", "labelSelector": {"matchLabels": {"wave": "last"}}, "maxConcurrency": 1},
    ]
    external = placement(name)
    external["spec"]["strategy"] = {"type": "External"}
    return [
        {
            "apiVersion": group,
            "kind": "ClusterStagedUpdateStrategy",
            "metadata": {"name": "waves"},
            "spec": {"stages": stages},
        },
        external,
    ]


class Concurrency:
    """How many members of a stage are unfinished at a time, by works and results as they were put."""

    def __init__(self, reference: str, stage: set[str]) -> None:
        self.reference, self.stage = reference, stage
        self.works: dict[str, WorkRecord] = {}
        self.results: dict[str, ResultRecord] = {}
        self.most = 0
        self.order: list[str] = []
        """Members in the order in which they got their works."""

    async def judge(self, store: Store) -> Concurrency:
        until = await store.put(f"{placement_keys.HUB}zz", b"")
        async with store.watch(placement_keys.HUB, 1) as batches:
            async for batch in batches:
                for event in batch.events:
                    self._take(event)
                self.most = max(self.most, len(self._unfinished()))
                if batch.revision >= until:
                    return self
        raise AssertionError("a watch does not end")

    def _take(self, event: Any) -> None:
        for prefix, kind, into in (
            (placement_keys.work.prefix, WorkRecord, self.works),
            (placement_keys.result.prefix, ResultRecord, self.results),
        ):
            start = f"{prefix}{self.reference}/"
            if event.kv.key.startswith(start) and not event.deleted:
                member = event.kv.key.removeprefix(start)
                into[member] = kind.model_validate_json(event.kv.value)  # type: ignore[assignment]
                if kind is WorkRecord and member not in self.order:
                    self.order.append(member)

    def _unfinished(self) -> set[str]:
        done = {name for name, one in self.results.items() if name in self.works and one.available}
        return (self.works.keys() & self.stage) - done


async def test_a_staged_run_goes_on_although_everything_dies_in_its_wait(tree: DevTree) -> None:
    url = tree.ready["etcd"]
    store = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
    loop = asyncio.get_running_loop()
    for number, name in enumerate(sorted(tree.ready["members"])):
        labels = {"wave": "canary" if number < 2 else "last"}
        kv = (await store.get(placement_keys.member_cluster(name))).kv
        assert kv is not None
        obj = json.loads(kv.value)
        obj["metadata"]["labels"] = labels
        await put(store, placement_keys.member_cluster(name), obj)

    async def status() -> dict[str, Any]:
        told = await asyncio.to_thread(tree.cli, "update-run", "status", "r1", "-o", "json", check=False)
        found: dict[str, Any] = json.loads(told.stdout) if told.stdout else {}
        return found

    async def until(true: Any, seconds: float) -> dict[str, Any]:
        began = loop.time()
        told: dict[str, Any] = {}
        while loop.time() - began < patient(seconds):
            told = await status()
            if told and true(told):
                return told
            await asyncio.sleep(0.5)
        raise AssertionError(f"not within {seconds} s: {told}")

    async with members_in_memory(url, MANY) as stores:
        await write_contents(store, 1, (STAGED,))
        for obj in staged(STAGED):
            about = "clusterstagedupdatestrategies" if "Strategy" in obj["kind"] else "clusterresourceplacements"
            await put(store, f"{placement_keys.PLACEMENT_OBJECTS}{about}/{obj['metadata']['name']}", obj)

        async def all_chosen() -> bool:
            told = await asyncio.to_thread(tree.cli, "placement", "status", STAGED, "-o", "json", check=False)
            return bool(told.stdout) and len(json.loads(told.stdout)["members"]) == MANY + REAL

        began = loop.time()
        while not await all_chosen():
            assert loop.time() - began < patient(60)
            await asyncio.sleep(0.5)
        await asyncio.to_thread(tree.cli, "update-run", "start", "r1", "--placement", STAGED, "--strategy", "waves")
        await until(lambda told: "canary.after" in json.dumps(told), 60)
        early = await asyncio.to_thread(tree.cli, "update-run", "approve", "r1", "many", "before", check=False)
        assert early.returncode != 0
        await asyncio.to_thread(tree.cli, "update-run", "approve", "r1", "canary", "after", "--why", "looks good")
        waits = await until(lambda told: "many.after" in json.dumps(told), 90)
        assert waits["phase"] == "waiting"
        waiting_since = loop.time()
        for victim in ("hub", "member", "temporal", "etcd", "hub"):
            await asyncio.to_thread(tree.kill, victim)
        ended = await until(lambda told: told["phase"] in ("succeeded", "failed", "aborted"), 120)
        assert ended["phase"] == "succeeded", ended
        took = loop.time() - waiting_since
        print(f"ended {took:.1f} s after the wait of {WAIT} s began")
        assert took >= WAIT - 1
        judged = await Concurrency(f"cluster/{STAGED}", set(stores)).judge(store)
        assert judged.most <= CONCURRENCY
        assert len(judged.order) == MANY + REAL
        assert set(judged.order[:2]) == {"member-1", "member-2"}
        assert judged.order[-1] == "member-3"
    await store.close()
