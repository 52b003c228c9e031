"""The fleet of a dev tree: written once, then its user's."""

from __future__ import annotations

import json
from typing import Any

from wharfinger.dev import common_fleet
from wharfinger.etcd import keys
from wharfinger.fleet.spec.fleet import read_fleet
from wharfinger.framework.plugins import builtin
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
