"""Commands and the planner read the same: what the one takes for a record, so does the other."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.etcd import keys
from wharfinger.fleet.contracts.fleet_records import RevisionRecord, stored
from wharfinger.fleet.model.fleet import Actor, Exit, Grant, Slot
from wharfinger.fleet.state.fleet_pictures import SlotIncarnation
from wharfinger.fleet.state.fleet_reading import read, read_to_decide
from wharfinger.fleet.state.fleets import FleetView
from wharfinger.framework.plugins import builtin
from wharfinger.process.records import InstanceRecord
from wharfinger.testing.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_a_cordon_that_cannot_be_read_is_shown_as_a_cordon(store: MemoryStore) -> None:
    await store.put(keys.cordon("a"), b"drain!")

    estate = await read(store)

    assert (estate.cordons["a"].action, estate.cordons["a"].why) == ("cordon", "its record cannot be read")
    assert estate.unreadable[0].startswith(keys.cordon("a"))


@pytest.mark.parametrize("name", ["01", "+1", "-1", "x", "²"])
@pytest.mark.parametrize("kind", [keys.REVISIONS, keys.SLOTS])
async def test_a_key_without_a_plain_number_is_no_record(store: MemoryStore, kind: str, name: str) -> None:
    record = RevisionRecord(template={}) if kind == keys.REVISIONS else Slot(incarnation=1, revision=1)
    await store.put(f"{kind}blue/{name}", stored(record))

    picture = (await read(store)).fleet("blue")

    assert (picture.revisions, picture.slots) == ({}, {})
    assert picture.unreadable[0].startswith(f"{kind}blue/{name}: ")
    assert picture.blind


async def test_a_worker_started_by_hand_has_no_slot(store: MemoryStore) -> None:
    await store.put(keys.instance("blue", "hand-a-1", 1), InstanceRecord(state="ready", host="a", pid=1).to_bytes())

    picture = (await read(store)).fleet("blue")

    assert list(picture.by_hand) == ["hand-a-1/1"]
    assert (picture.instances, picture.unreadable, picture.blind) == ({}, [], False)


@pytest.mark.parametrize("key", [f"{keys.INSTANCES}blue", f"{keys.GRANTS}blue", f"{keys.SLOTS}blue/1/2"])
async def test_a_key_of_another_length_is_named_and_hides_nothing(store: MemoryStore, key: str) -> None:
    await store.put(key, b'{"state": "ready", "host": "a", "pid": 1, "revision": 1, "incarnation": 1}')
    await store.put(keys.grant("blue", 0, 1), stored(Grant(revision=1, host="a")))

    picture = (await read(store)).fleet("blue")

    assert picture.unreadable[0].startswith(f"{key}: ")
    assert list(picture.grants) == [SlotIncarnation(0, 1)]


async def test_an_unreadable_worker_started_by_hand_concerns_no_plan(store: MemoryStore) -> None:
    key = keys.instance("blue", "hand-a-1", 1)
    await store.put(key, b"{broken")

    picture = (await read(store)).fleet("blue")

    assert (picture.unreadable, picture.blind) == ([], False)
    assert picture.unreadable_by_hand[0].startswith(f"{key}: ")
    assert (await FleetView(store, builtin.catalog()).observe("blue")).unreadable == ()


async def test_exits_that_are_left_of_a_fleet_are_seen(store: MemoryStore) -> None:
    await store.put(keys.exited("blue", 0, 2), stored(Exit(how="code", detail="3", lived=4.0)))

    assert [exit.slot for exit in (await FleetView(store, builtin.catalog()).observe("blue")).exits] == [0]


async def test_fleets_of_longer_names_are_not_read_with_one(store: MemoryStore) -> None:
    read_keys: list[str] = []
    for tenant in ("blue", "blue-b"):
        await store.put(keys.actor(tenant), stored(Actor(epoch=1, workflow_id="w", run_id="r")))
    listed = store.list

    def listing(prefix: str, **more: Any) -> Any:
        read_keys.append(prefix)
        return listed(prefix, **more)

    store.list = listing  # type: ignore[method-assign]
    assert (await read_to_decide(store, "blue")).fleet("blue").actor is not None
    assert all(prefix.endswith("/") for prefix in read_keys), read_keys


async def test_all_fleets_grants_count_on_a_host_but_a_picture_has_its_own(store: MemoryStore) -> None:
    for tenant, slot in (("blue", 0), ("blue", 1), ("green", 0), ("blue-b", 0)):
        await store.put(keys.grant(tenant, slot, 1), stored(Grant(revision=1, host="a")))

    estate = await read_to_decide(store, "blue")

    assert estate.granted == {"a": 4}
    assert list(estate.fleets) == ["blue"]
    assert sorted(estate.fleet("blue").grants) == [SlotIncarnation(0, 1), SlotIncarnation(1, 1)]
