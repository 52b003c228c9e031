"""Commands and the planner read the same: what the one takes for a record, so does the other."""

from __future__ import annotations

import pytest

from wharfinger.contracts.fleet_records import GrantRecord, RevisionRecord, SlotRecord
from wharfinger.contracts.records import InstanceRecord
from wharfinger.observe.fleet_pictures import Life
from wharfinger.observe.fleet_reading import read, read_to_decide
from wharfinger.registry import keys
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
    record = RevisionRecord(template={}) if kind == keys.REVISIONS else SlotRecord(incarnation=1, revision=1)
    await store.put(f"{kind}blue/{name}", record.to_bytes())

    picture = (await read(store)).fleet("blue")

    assert (picture.revisions, picture.slots) == ({}, {})
    assert picture.unreadable[0].startswith(f"{kind}blue/{name}: ")
    assert picture.blind


async def test_a_worker_started_by_hand_has_no_slot(store: MemoryStore) -> None:
    await store.put(keys.instance("blue", "hand-a-1", 1), InstanceRecord(state="ready", host="a", pid=1).to_bytes())

    picture = (await read(store)).fleet("blue")

    assert list(picture.by_hand) == ["hand-a-1/1"]
    assert (picture.instances, picture.unreadable, picture.blind) == ({}, [], False)


async def test_grants_of_all_fleets_count_on_a_host_and_only_its_own_are_in_a_picture(store: MemoryStore) -> None:
    for tenant, slot in (("blue", 0), ("blue", 1), ("green", 0), ("blue-b", 0)):
        await store.put(keys.grant(tenant, slot, 1), GrantRecord(revision=1, host="a").to_bytes())

    estate = await read_to_decide(store, "blue")

    assert estate.granted == {"a": 4}
    assert list(estate.fleets) == ["blue"]
    assert sorted(estate.fleet("blue").grants) == [Life(0, 1), Life(1, 1)]
