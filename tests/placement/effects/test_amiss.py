"""What a hub makes of what cannot be read, of members that do not answer, and of former lives."""

from __future__ import annotations

import json

import pytest

from tests.placement.objects import (
    budget_object,
    eviction_object,
    member_object,
    pick,
    placement_object,
    status_record,
)
from tests.placement.scene import HubScene, P
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DrainRecord
from wharfinger.placement.effects.questions import needs_attempt

SICK = {"agentStatus": [{"type": "MemberAgent", "conditions": [{"type": "Healthy", "status": "False"}]}]}


@pytest.fixture
async def scene() -> HubScene:
    scene = HubScene()
    for name in "abcdefg":
        await scene.member(name)
    return scene


async def delivered(scene: HubScene, number: int) -> list[str]:
    """A placement that is on so many members, and available there."""
    await scene.put(placement_object(**pick(number)))
    await scene.attempt()
    chosen = await scene.chosen()
    for name in chosen:
        await scene.work(name)
    return chosen


async def test_evictions_of_one_attempt_share_the_budget(scene: HubScene) -> None:
    chosen = await delivered(scene, 5)
    await scene.put(budget_object("web", maxUnavailable=1))
    for name in chosen[:3]:
        await scene.put(eviction_object(f"e-{name}", "web", name))
    decided = await scene.attempt()
    assert [one.executed for one in decided.evictions] == [True, False, False]
    assert decided.evictions[1].message.endswith("availablePlacements: 4, totalPlacements: 5")
    assert set(chosen) - set(await scene.chosen()) == {chosen[0]}


async def test_a_member_that_does_not_answer_is_not_available(scene: HubScene) -> None:
    one, other = await delivered(scene, 2)
    await scene.put(budget_object("web", minAvailable=1))
    identity = scene.view.members[other].member.identity
    await scene.store.put(placement_keys.member_status(other), status_record(identity, **SICK))
    await scene.put(eviction_object("e", "web", one))
    assert [each.executed for each in (await scene.attempt()).evictions] == [False]


async def test_an_eviction_that_becomes_unreadable_is_as_it_was(scene: HubScene) -> None:
    chosen = await delivered(scene, 2)
    await scene.put(eviction_object("e", "web", chosen[0]))
    await scene.see()
    await scene.store.put(placement_keys.PLACEMENT_EVICTIONS + "e", b"{")
    assert P in {change.placement for change in await scene.see()}
    assert set(scene.view.unreadable) == {placement_keys.PLACEMENT_EVICTIONS + "e"}
    assert [one.executed for one in (await scene.attempt()).evictions] == [True]


async def test_an_eviction_put_anew_that_cannot_be_read_is_none(scene: HubScene) -> None:
    chosen = await delivered(scene, 2)
    await scene.put(eviction_object("e", "web", chosen[0]))
    await scene.see()
    await scene.store.delete(placement_keys.PLACEMENT_EVICTIONS + "e")
    await scene.store.put(placement_keys.PLACEMENT_EVICTIONS + "e", b"{")
    assert (await scene.attempt()).evictions == ()


async def test_a_status_that_cannot_be_read_keeps_the_one_before_it(scene: HubScene) -> None:
    await scene.see()
    identity = scene.view.members["a"].member.identity
    many = {f"n{number}": "" for number in range(4097)}
    await scene.store.put(placement_keys.member_status("a"), status_record(identity, namespaces=many))
    await scene.see()
    assert set(scene.view.unreadable) == {placement_keys.member_status("a")}
    assert scene.view.members["a"].reachable
    await scene.store.delete(placement_keys.member("a"))
    await scene.put(member_object("a", {"region": "x"}))
    await scene.see()
    member = scene.view.members["a"]
    assert (member.there, member.unreadable, member.member.labels) == (False, "", {"region": "x"})


@pytest.mark.parametrize("finalizers", ["mine", [1], {"a": "b"}])
async def test_finalizers_that_are_no_list_make_a_member_unreadable(scene: HubScene, finalizers: object) -> None:
    await scene.put(member_object("a", finalizers=finalizers))
    await scene.see()
    assert scene.view.members["a"].unreadable.startswith("metadata.finalizers")
    await scene.put(member_object("a", finalizers=["example.com/mine"]))
    await scene.see()
    assert (scene.view.members["a"].unreadable, scene.view.members["a"].held) == ("", True)


async def test_a_placement_that_comes_back_unreadable_is_noted(scene: HubScene) -> None:
    await delivered(scene, 1)
    await scene.store.put(placement_keys.placement(P), json.dumps({"spec": 1}).encode())
    assert (P, True) in {(change.placement, change.own) for change in await scene.see()}
    assert not needs_attempt(scene.view, P, scene.clock())


async def test_a_drain_is_of_one_life_of_its_member(scene: HubScene) -> None:
    await scene.see()
    identity = scene.view.members["a"].member.identity
    await scene.store.put(placement_keys.drain("a"), DrainRecord(want="drain", identity=identity).to_bytes())
    await scene.store.put(placement_keys.drain("b"), DrainRecord(want="cordon").to_bytes())
    await scene.see()
    assert set(scene.view.member_view.drains) == {"a", "b"}
    for name in "ab":
        await scene.store.delete(placement_keys.member_cluster(name))
        await scene.member(name)
    await scene.see()
    assert set(scene.view.member_view.drains) == {"b"}


async def test_who_was_evicted_does_not_return_over_an_unreadable_work(scene: HubScene) -> None:
    chosen = await delivered(scene, 7)
    await scene.put(eviction_object("e", "web", chosen[0]))
    await scene.attempt()
    view = HubScene(store=scene.store)
    await scene.store.put(placement_keys.work(P, chosen[0]), b"{")
    assert (await view.attempt()).action == "nothing"
