"""Placements are decided although everything dies: hub, Temporal and etcd in turn, judged from etcd's history."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.conftest import free_port
from tests.forked import Forked
from tests.integration.dev_tree import DevTree, end_all, wait_until
from tests.patience import patient
from tests.placement.history import history
from tests.placement.objects import agent_record, in_region, member_object, pick, placement_object, status_record
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Put, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.effects.questions import needs_attempt
from wharfinger.placement.reading.observe_placements import decided_again, read_all, record_of
from wharfinger.settings import EtcdSettings

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

MEMBERS, PLACEMENTS = 20, 120
CHANGED = 40
"""Placements that are decided once more before all are at rest."""
WITHIN = 60.0
"""Seconds from the last blow until everything is decided."""
T = TypeVar("T")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    """A tree with a hub and members. Every member that is written anew has all placements decided anew."""
    folder = tmp_path_factory.mktemp("hub")
    tree = DevTree(folder, workers=0)
    try:
        tree.start("--hub")
        on(tree, lambda store: put_members(store, random.Random(17)))
        yield tree
        assert tree.stop() == 0
    finally:
        tree.end()
        end_all(folder)


@pytest.fixture
def second_hub(tree: DevTree, tmp_path: Path) -> Iterator[None]:
    """One more hub shares the placements."""
    line = ("hub", "--name=second", f"--health-port={free_port()}", "--lease-ttl=4")
    process = Forked(line, tree.environment, tmp_path / "hub.log", tmp_path / "hub.log")
    yield
    process.terminate()
    assert process.wait(patient(30)) == 0


def on(tree: DevTree, work: Callable[[Store], Awaitable[T]]) -> T:
    """The outcome of something done on the tree's etcd."""

    async def connected() -> T:
        store = await EtcdStore.connect(EtcdSettings(endpoints=(tree.ready["etcd"],), max_txn_ops=1024))
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(connected())


async def put_members(store: Store, chance: random.Random) -> None:
    for number in range(MEMBERS):
        name, labels = f"m{number:02}", {"region": chance.choice("abc")}
        await store.put(placement_keys.member_cluster(name), json.dumps(member_object(name, labels=labels)).encode())
        kv = (await store.get(placement_keys.member_cluster(name))).kv
        assert kv is not None
        await store.put(placement_keys.member(name), agent_record(kv.create_revision))
        await store.put(placement_keys.member_status(name), status_record(kv.create_revision))


async def put_placements(store: Store, chance: random.Random, generation: int, numbers: range) -> None:
    """New ones, or other policies and numbers of members."""
    puts = []
    for number in numbers:
        policy = {"placementType": "PickAll"} if number % 2 else pick(chance.randrange(1, 8))
        affinity = in_region(*chance.sample("abc", 2)) if chance.random() < 0.5 else {}
        obj = placement_object(f"p{number:03}", generation=generation, **policy, **affinity)
        puts.append(Put(placement_keys.placement(f"cluster/p{number:03}"), json.dumps(obj).encode()))
    await store.txn([], puts)


async def change_members(store: Store, chance: random.Random) -> None:
    """Labels move, and a member goes or comes back."""
    for number in chance.sample(range(MEMBERS), 4):
        name, labels = f"m{number:02}", {"region": chance.choice("abc")}
        if chance.random() < 0.3:
            await store.delete(placement_keys.member_cluster(name))
        await store.put(placement_keys.member_cluster(name), json.dumps(member_object(name, labels=labels)).encode())
        kv = (await store.get(placement_keys.member_cluster(name))).kv
        assert kv is not None
        await store.put(placement_keys.member(name), agent_record(kv.create_revision))
        await store.put(placement_keys.member_status(name), status_record(kv.create_revision))


async def undecided(store: Store) -> list[str]:
    view = await read_all(store)
    return [reference for reference in view.references if needs_attempt(view, reference, time.monotonic())]


@pytest.mark.usefixtures("second_hub")
def test_everything_dies_and_every_placement_is_decided(tree: DevTree) -> None:
    chance = random.Random(18)
    share = PLACEMENTS // 4
    for step, victim in enumerate(("hub", "temporal", "etcd", "hub")):
        on(tree, lambda store, step=step: put_placements(store, chance, 1, range(step * share, (step + 1) * share)))
        if step:
            on(tree, lambda store, step=step: put_placements(store, chance, step + 1, range(share // 2)))
            on(tree, lambda store: change_members(store, chance))
        tree.kill(victim)
    took = wait_until(lambda: not on(tree, undecided), WITHIN, "everything is decided", every=1.0)
    print(f"decided {took:.1f} s after the last blow")

    async def judged(store: Store) -> None:
        until = await store.put(f"{placement_keys.HUB}zz", b"")
        await store.put(f"{placement_keys.member_cluster.prefix}zz", b"{}")
        found = await history(store, until)
        assert found.broken == []
        assert len(found.decisions) == PLACEMENTS
        assert found.versions >= PLACEMENTS
        for reference in list(found.decisions)[::10]:
            record = await record_of(store, reference)
            assert (await decided_again(store, reference, record)).same, reference
        await store.delete(f"{placement_keys.member_cluster.prefix}zz")

    on(tree, judged)


def test_at_rest_no_run_is_open_and_nothing_is_written(tree: DevTree) -> None:
    on(tree, lambda store: put_placements(store, random.Random(2), 9, range(CHANGED)))
    wait_until(lambda: not on(tree, undecided), WITHIN, "everything is decided", every=1.0)

    def outcomes() -> list[str]:
        told = json.loads(tree.cli("placement", "history", "p001", "--limit", "1", "-o", "json").stdout)
        return [one["outcome"] for one in told["attempts"]]

    wait_until(lambda: "running" not in outcomes(), 30, "the last attempt has ended")

    async def decisions(store: Store) -> int:
        found = [kv.mod_revision async for page in store.list(placement_keys.decision.prefix) for kv in page.items]
        return max(found)

    newest = on(tree, decisions)
    time.sleep(3)
    assert on(tree, decisions) == newest
