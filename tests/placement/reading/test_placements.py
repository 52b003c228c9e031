"""Recorded decisions of placements made again, from what they were made from."""

from __future__ import annotations

import pytest

from tests.placement.objects import eviction_object, in_region, pick, placement_object
from tests.placement.scene import HubScene, P
from wharfinger.errors import NotFound
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.reading.observe_placements import decided_again, read_all, read_one, record_of

EAST, WEST = {"region": "east"}, {"region": "west"}


@pytest.fixture
async def scene() -> HubScene:
    scene = HubScene()
    for name, labels in (("a", EAST), ("b", EAST), ("c", WEST)):
        await scene.member(name, labels=labels)
    await scene.put(placement_object(**pick(2, **in_region("east"))))
    await scene.attempt()
    return scene


async def test_a_decision_is_made_again_from_its_own_revisions(scene: HubScene) -> None:
    record = await record_of(scene.store, P)
    await scene.member("a", labels=WEST)
    await scene.put(placement_object(generation=2, **pick(1)))
    again = await decided_again(scene.store, P, record)
    assert (again.decision, again.same) == (record.decision, True)
    assert again.why.endswith("the same")


async def test_a_decision_that_followed_on_another_is_made_again(scene: HubScene) -> None:
    await scene.work("b")
    await scene.put(eviction_object("e", "web", "b"))
    await scene.attempt()
    record = await record_of(scene.store, P)
    assert list(record.decision.names) == ["a"]
    await scene.remove_work("b")
    await scene.attempt()
    assert (await decided_again(scene.store, P, record)).same


async def test_a_silent_member_is_as_silent_when_it_is_decided_again(scene: HubScene) -> None:
    await scene.store.delete(placement_keys.member("c"))
    await scene.see()
    scene.clock.advance(400)
    await scene.put(placement_object(generation=2, **pick(3)))
    await scene.attempt()
    record = await record_of(scene.store, P)
    assert "6.67 minutes ago" in record.decision.verdicts[0].reason
    again = await decided_again(scene.store, P, record)
    assert again.decision == record.decision


async def test_what_etcd_has_forgotten_cannot_be_decided_again(scene: HubScene) -> None:
    record = await record_of(scene.store, P)
    scene.store.compact(await scene.store.put("/x", b""))
    again = await decided_again(scene.store, P, record)
    assert (again.decision, again.same) == (None, False)
    assert "forgotten" in again.why


async def test_a_decision_that_the_code_makes_otherwise_is_told(scene: HubScene) -> None:
    record = await record_of(scene.store, P)
    chosen = record.decision.chosen[:1]
    other = type(record)(
        **{name: getattr(record, name) for name in record.__dataclass_fields__ if name != "decision"},
        decision=type(record.decision)(
            **{
                name: getattr(record.decision, name)
                for name in record.decision.__dataclass_fields__
                if name != "chosen"
            },
            chosen=chosen,
        ),
    )
    again = await decided_again(scene.store, P, other)
    assert not again.same
    assert again.why.endswith("ANOTHER decision, which chooses a, b")


async def test_reading_one_placement_decides_as_reading_all(scene: HubScene) -> None:
    await scene.put(placement_object("other", **pick(1)))
    one, every = await read_one(scene.store, P), await read_all(scene.store)
    assert one.decisions[P] == every.decisions[P]
    assert {name: seen.member.labels for name, seen in one.members.items()} == {
        name: seen.member.labels for name, seen in every.members.items()
    }
    assert one.references == {P}


async def test_a_decision_that_cannot_be_read_is_told(scene: HubScene) -> None:
    await scene.store.put(placement_keys.decision(P), b"\x00")
    with pytest.raises(NotFound, match="cannot be read: is cut off"):
        await record_of(scene.store, P)
