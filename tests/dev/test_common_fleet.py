"""The common fleet of a dev tree: written once, then its user's; and what the tree sees of its workers."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from tests.patience import patient
from wharfinger.dev import common_fleet
from wharfinger.dev.common_fleet import InstanceFollower
from wharfinger.etcd import keys
from wharfinger.fleet.spec.fleet import read_fleet
from wharfinger.framework.plugins import builtin
from wharfinger.process.records import InstanceRecord
from wharfinger.testing.memory_store import MemoryStore

KEY = keys.fleet("common")


async def written(store: MemoryStore) -> dict[str, Any]:
    kv = (await store.get(KEY)).kv
    assert kv is not None
    found: dict[str, Any] = json.loads(kv.value)
    return found


async def test_it_is_a_valid_fleet_of_one_instance_unless_a_number_was_named() -> None:
    for named, replicas in ((None, 1), (0, 0), (3, 3)):
        store = MemoryStore()
        await common_fleet.want(store, named)

        assert read_fleet(await written(store), builtin.catalog(), name="common").spec.replicas == replicas


async def test_a_fleet_that_is_there_stays_as_its_user_made_it() -> None:
    store = MemoryStore()
    await common_fleet.want(store, 2)
    changed = await written(store)
    changed["spec"]["paused"] = True
    await store.put(KEY, json.dumps(changed).encode())

    await common_fleet.want(store, None)
    assert await written(store) == changed


async def test_fleet_that_is_being_deleted_is_left_alone_and_reported() -> None:
    store = MemoryStore()
    assert await common_fleet.want(store, 2)
    leaving = await written(store)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await store.put(KEY, json.dumps(leaving).encode())

    assert [await common_fleet.want(store, number) for number in (None, 5)] == [False, False]
    assert await written(store) == leaving


async def test_a_named_number_changes_the_replicas_and_nothing_else() -> None:
    store = MemoryStore()
    await common_fleet.want(store, 2)
    before = await written(store)

    await common_fleet.want(store, 5)

    after = await written(store)
    assert after["spec"].pop("replicas") == 5
    assert before["spec"].pop("replicas") == 2
    assert after == before


def record(state: str, pid: int = 1) -> bytes:
    return InstanceRecord(state=state, host="dev", pid=pid, health=f"http://127.0.0.1:{pid}").to_bytes()  # type: ignore[arg-type]


class Watched:
    """Instances that follow a store, and a way to wait for what they see."""

    def __init__(self, store: MemoryStore) -> None:
        self.news = asyncio.Event()
        self.seen = InstanceFollower(self.news.set)
        self.task = asyncio.create_task(self.seen.follow(store))

    async def until(self, complete: bool, slots: list[int]) -> None:
        async with asyncio.timeout(patient(5)):
            while (self.seen.complete, [one.slot for one in self.seen.ready]) != (complete, slots):
                self.news.clear()
                await self.news.wait()


async def test_all_are_up_when_each_wanted_slot_has_a_ready_instance() -> None:
    store = MemoryStore()
    await common_fleet.want(store, 2)
    watched = Watched(store)
    await store.put(keys.instance("common", "0", 1), record("ready"))
    await store.put(keys.instance("common", "1", 1), record("starting"))
    await watched.until(False, [0])

    await store.put(keys.instance("common", "1", 1), record("ready"))
    await watched.until(True, [0, 1])

    await store.delete(keys.instance("common", "0", 1))
    await watched.until(False, [1])
    watched.task.cancel()


async def test_slot_shows_its_highest_ready_incarnation_in_numeric_order() -> None:
    store = MemoryStore()
    await common_fleet.want(store, 11)
    for slot in range(11):
        await store.put(keys.instance("common", str(slot), 1), record("ready", 100 + slot))
    watched = Watched(store)
    await watched.until(True, list(range(11)))

    await store.put(keys.instance("common", "10", 2), record("starting", 200))
    await store.put(keys.instance("common", "9", 2), record("ready", 201))
    await store.put(keys.instance("common", "hand-here-1f", 1), record("ready", 300))
    async with asyncio.timeout(patient(5)):
        while watched.seen.ready[9].pid != 201:
            watched.news.clear()
            await watched.news.wait()

    assert [one.pid for one in watched.seen.ready] == [*range(100, 109), 201, 110]
    watched.task.cancel()


@pytest.mark.parametrize(("pid", "up"), [(os.getpid(), True), (2**22 - 3, False)], ids=["running", "dead"])
async def test_the_registration_of_a_dead_process_is_not_up(pid: int, up: bool) -> None:
    store = MemoryStore()
    await common_fleet.want(store, 1)
    await store.put(keys.instance("common", "0", 1), record("ready", pid))
    watched = Watched(store)
    await watched.until(True, [0])

    assert watched.seen.ready[0].up is up
    watched.task.cancel()
