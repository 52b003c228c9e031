"""What a hub reconciles after a change, and which attempts it starts."""

from __future__ import annotations

import pytest

from tests.placement.hub.scene import ALL, ReconcilingScene
from tests.placement.objects import eviction_object, in_region, pick, placement_object
from tests.placement.scene import EAST, WEST, P
from wharfinger.placement.contracts import placement_keys


@pytest.fixture
async def scene() -> ReconcilingScene:
    scene = ReconcilingScene()
    for name, labels in (("a", EAST), ("b", EAST), ("c", WEST)):
        await scene.member(name, labels=labels)
    await scene.reconciled()
    return scene


async def test_a_new_placement_is_started_and_then_left_alone(scene: ReconcilingScene) -> None:
    await scene.put(placement_object(**pick(2)))
    assert await scene.reconciled() == [P]
    assert await scene.reconciled() == []
    await scene.commit(scene.decide())
    assert await scene.reconciled() == []
    assert scene.controller.unsettled == 0


async def test_what_was_started_is_started_again_a_few_times(scene: ReconcilingScene) -> None:
    await scene.put(placement_object(**pick(2)))
    began, started = scene.clock(), list[float]()
    while scene.clock() < began + 300:
        started += [scene.clock() - began for _ in await scene.reconciled()]
        scene.clock.advance(0.5)
    assert started == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]
    assert scene.controller.unsettled == 1


async def test_a_start_that_fails_is_tried_again(scene: ReconcilingScene) -> None:
    scene.starter.failures = 2
    await scene.put(placement_object(**pick(2)))
    assert await scene.reconciled() == []
    scene.clock.advance(1.5)
    assert await scene.reconciled() == []
    scene.clock.advance(1.5)
    assert await scene.reconciled() == [P]


async def test_a_label_starts_only_what_says_something_else_of_that_member(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("all", **ALL))
    await scene.put(placement_object("east", **ALL, **in_region("east")))
    await scene.put(placement_object("fulfilled", **pick(1, **in_region("west"))))
    await scene.put(placement_object("wanting", **pick(3, **in_region("east"))))
    await scene.settle()
    scene.clock.advance(10)
    await scene.member("c", labels=EAST)
    assert sorted(await scene.reconciled()) == ["cluster/east", "cluster/wanting"]


async def test_a_new_member_starts_every_pick_all_and_what_is_not_fulfilled(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("all", **ALL))
    await scene.put(placement_object("fulfilled", **pick(1)))
    await scene.put(placement_object("wanting", **pick(5)))
    await scene.settle()
    scene.clock.advance(10)
    await scene.member("d", labels=WEST)
    assert sorted(await scene.reconciled()) == ["cluster/all", "cluster/wanting"]


async def test_a_member_that_leaves_starts_whatever_has_it(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("has", **pick(1, **in_region("west"))))
    await scene.put(placement_object("has-not", **pick(1, **in_region("east"))))
    await scene.settle()
    scene.clock.advance(10)
    await scene.member("c", labels=WEST, deletionTimestamp="2026-01-01T00:00:00Z")
    assert await scene.reconciled() == ["cluster/has"]


async def test_a_drained_member_starts_whatever_has_it(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("has", **pick(1)))
    await scene.settle()
    scene.clock.advance(10)
    await scene.drain("c")
    assert await scene.reconciled() == ["cluster/has"]


async def test_an_eviction_starts_its_placement(scene: ReconcilingScene) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.settle()
    scene.clock.advance(10)
    await scene.put(eviction_object("e", "web", "c"))
    assert await scene.reconciled() == [P]


async def test_usage_is_reconciled_only_by_policies_that_read_it(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("all", **ALL))
    await scene.put(placement_object("wanting", **pick(5)))
    await scene.settle()
    scene.clock.advance(10)
    await scene.member("c", labels=WEST, status={"resourceUsage": {"available": {"cpu": "3"}}})
    assert await scene.reconciled() == []


async def test_a_silent_member_is_reconciled_when_its_silence_is_too_long(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("wanting", **pick(5)))
    await scene.put(placement_object("all", **ALL, **in_region("east")))
    await scene.settle()
    scene.clock.advance(10)
    await scene.store.delete(placement_keys.member("c"))
    assert await scene.reconciled() == []
    scene.clock.advance(299)
    await scene.member("c", labels=EAST, online=False)
    assert await scene.reconciled() == ["cluster/all"]
    scene.clock.advance(2)
    await scene.reconciled()
    assert not scene.controller._aging


async def test_decisions_of_one_placement_lie_apart_but_users_do_not_wait(scene: ReconcilingScene) -> None:
    await scene.put(placement_object(**pick(4)))
    await scene.settle()
    scene.clock.advance(10)
    await scene.member("d")
    (started,) = await scene.reconciled()
    await scene.commit(scene.decide(started))
    await scene.store.delete(placement_keys.member_cluster("d"))
    assert await scene.reconciled() == []
    await scene.put(placement_object(generation=2, **pick(3)))
    assert await scene.reconciled() == [P]


async def test_two_hubs_share_the_placements(scene: ReconcilingScene) -> None:
    for number in range(40):
        await scene.put(placement_object(f"p{number}", **pick(1)))
    await scene.store.put(placement_keys.hub("h2"), b"{}")
    mine = await scene.reconciled()
    assert 10 < len(mine) < 30
    await scene.store.delete(placement_keys.hub("h2"))
    assert len(mine) + len(await scene.reconciled()) == 40


async def test_a_sweep_leaves_out_what_has_the_same_inputs(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("fulfilled", **pick(1)))
    await scene.settle()
    scene.controller.sweep(scene.view.references)
    assert scene.controller.unsettled == 0
    scene.clock.advance(10)
    await scene.member("d")
    assert await scene.reconciled() == []
    scene.controller.sweep(scene.view.references)
    assert await scene.reconciled() == ["cluster/fulfilled"]


async def test_a_thousand_members_that_join_at_once_start_one_attempt(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("all", **ALL))
    await scene.settle()
    scene.clock.advance(10)
    for number in range(1000):
        await scene.member(f"m{number:04}")
    assert await scene.reconciled() == ["cluster/all"]
    await scene.commit(scene.decide("cluster/all"), "cluster/all")
    assert await scene.reconciled() == []
    assert len(await scene.chosen("cluster/all")) == 1003


async def test_usage_that_changes_everywhere_starts_nothing(scene: ReconcilingScene) -> None:
    for number in range(50):
        await scene.member(f"m{number}")
    await scene.put(placement_object("all", **ALL))
    await scene.put(placement_object("wanting", **pick(99)))
    await scene.settle()
    scene.clock.advance(10)
    for number in range(50):
        await scene.member(f"m{number}", status={"resourceUsage": {"available": {"cpu": str(number)}}})
    assert await scene.reconciled() == []
