"""What a hub does with attempts that hang, that change nothing, and that are no longer its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.placement.hub.scene import ALL, ReconcilingScene, Starter
from tests.placement.objects import in_region, pick, placement_object
from tests.placement.scene import EAST, WEST, HubScene, P
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import PinRecord, SnapshotRecord
from wharfinger.placement.contracts.placements import StreamRevisions


@pytest.fixture
async def scene() -> ReconcilingScene:
    scene = ReconcilingScene()
    for name, labels in (("a", EAST), ("b", EAST), ("c", WEST)):
        await scene.member(name, labels=labels)
    await scene.reconciled()
    return scene


@dataclass
class HangingStarter(Starter):
    """Temporal that answers when it is let."""

    let: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[StreamRevisions] = field(default_factory=list)

    async def start(self, reference: str, seen: StreamRevisions, cause: str) -> None:
        self.asked.append(seen)
        await self.let.wait()
        await super().start(reference, seen, cause)


async def exhausted(scene: ReconcilingScene) -> None:
    """Start attempts that change nothing until no more are started."""
    for _ in range(10):
        await scene.reconciled()
        scene.clock.advance(31)
    assert await scene.reconciled() == []


async def test_one_start_of_a_placement_hangs_at_a_time(scene: ReconcilingScene) -> None:
    starter = HangingStarter()
    scene.controller._start_attempt = starter.start
    for number in range(100):
        await scene.put(placement_object(f"p{number}", **pick(1)))
    for _ in range(300):
        await scene.reconciled()
        scene.controller.sweep(scene.view.references)
        scene.clock.advance(1.0)
    assert len(asyncio.all_tasks()) < 110
    assert len(starter.asked) == 64
    starter.let.set()
    await scene.reconciled()
    await scene.reconciled()
    assert len(starter.started) == 100


async def test_the_wait_begins_when_temporal_has_answered(scene: ReconcilingScene) -> None:
    starter = HangingStarter()
    scene.controller._start_attempt = starter.start
    await scene.put(placement_object(**pick(1)))
    await scene.reconciled()
    scene.clock.advance(20)
    starter.let.set()
    await scene.reconciled()
    scene.clock.advance(0.5)
    await scene.reconciled()
    assert starter.started == [P]
    scene.clock.advance(0.6)
    await scene.reconciled()
    assert starter.started == [P, P]


async def test_an_edit_while_a_start_hangs_is_started_after_it(scene: ReconcilingScene) -> None:
    starter = HangingStarter()
    scene.controller._start_attempt = starter.start
    await scene.put(placement_object(**pick(1)))
    await scene.reconciled()
    await scene.put(placement_object(generation=2, **pick(2)))
    await scene.reconciled()
    assert len(starter.asked) == 1
    starter.let.set()
    await scene.reconciled()
    await scene.reconciled()
    assert starter.causes == ["edited", "edited"]


async def test_an_attempt_asks_for_changes_only_not_for_progress(scene: ReconcilingScene) -> None:
    starter = HangingStarter()
    scene.controller._start_attempt = starter.start
    other = HubScene(store=scene.store)
    await scene.put(placement_object(**pick(1)))
    await scene.see()
    scene.view.reached("members", 10_000)
    await scene.reconciled()
    scene.controller._edited[P] = "edited"
    await scene.reconciled()
    await other.see()
    assert starter.asked
    assert all(other.view.has_seen(one) for one in starter.asked)


async def test_what_changes_nothing_waits_for_another_input(scene: ReconcilingScene) -> None:
    await scene.put(placement_object(**pick(2)))
    await exhausted(scene)
    await scene.member("c", labels=WEST, taints=[{"key": "t", "effect": "NoSchedule"}])
    assert await scene.reconciled() == [P]


async def test_a_sweep_tries_once_what_changed_nothing(scene: ReconcilingScene) -> None:
    await scene.put(placement_object(**pick(2)))
    await exhausted(scene)
    scene.controller.sweep(scene.view.references)
    assert await scene.reconciled() == [P]
    scene.clock.advance(31)
    assert await scene.reconciled() == []


async def test_what_another_hub_has_now_is_not_unsettled_here(scene: ReconcilingScene) -> None:
    for number in range(40):
        await scene.put(placement_object(f"p{number}", **pick(1)))
    assert len(await scene.reconciled()) == 40
    await scene.store.put(placement_keys.hub("h2"), b"{}")
    await scene.reconciled()
    assert scene.controller.unsettled == sum(scene.controller.mine(f"cluster/p{number}") for number in range(40)) < 40


async def test_nothing_is_kept_of_placements_that_are_gone(scene: ReconcilingScene) -> None:
    for number in range(20):
        await scene.put(placement_object(f"p{number}", **pick(1)))
    await scene.settle()
    for number in range(20):
        await scene.store.delete(placement_keys.placement(f"cluster/p{number}"))
    for _ in range(6):
        await scene.settle()
        scene.clock.advance(5)
    controller = scene.controller
    assert (controller._reconciled, controller._noted, controller._started, controller._decided) == ({}, {}, {}, {})


LEFT = {
    "works": placement_keys.work(P, "a"),
    "results": placement_keys.result(P, "a"),
    "snapshots": placement_keys.snapshot(P, 1),
    "pins": placement_keys.pin(P),
}
"""Records that keep the object of a placement that is being deleted."""


@pytest.mark.parametrize("last", LEFT)
async def test_a_deleted_placement_goes_with_the_last_of_its_records(scene: ReconcilingScene, last: str) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.settle()
    await scene.work("a")
    await scene.store.put(LEFT["snapshots"], SnapshotRecord(digest="").to_bytes())
    await scene.store.put(LEFT["pins"], PinRecord(snapshot=1).to_bytes())
    await scene.put(placement_object(generation=2, deleting=True, **pick(1)))
    await scene.settle()
    for folder in LEFT.keys() - {last}:
        await scene.store.delete(LEFT[folder])
    scene.clock.advance(100)  # whatever was started for the deletion is long over
    assert await scene.reconciled() == []
    scene.clock.advance(100)
    assert await scene.reconciled() == []
    await scene.store.delete(LEFT[last])
    assert await scene.reconciled() == [P]
    assert scene.decide().action == "remove"


@pytest.mark.parametrize("folder", ["snapshots", "pins"])
async def test_removed_records_start_no_attempt_of_a_placement_that_stays(scene: ReconcilingScene, folder: str) -> None:
    await scene.put(placement_object(**pick(1)))
    await scene.store.put(LEFT["snapshots"], SnapshotRecord(digest="").to_bytes())
    await scene.store.put(LEFT["pins"], PinRecord(snapshot=1).to_bytes())
    await scene.settle()
    scene.changes.clear()
    await scene.store.delete(LEFT[folder])
    await scene.reconciled()
    assert [one.delivered for one in scene.changes] == [True]


async def test_timers_do_not_pass_before_all_is_listed() -> None:
    scene = ReconcilingScene()
    scene.controller._later.append((0.0, P))
    rounds = 0

    async def reconcile() -> None:
        nonlocal rounds
        while True:
            await scene.controller._wait()
            await scene.controller.reconcile_due()
            rounds += 1

    task = asyncio.create_task(reconcile())
    await asyncio.sleep(0.05)
    task.cancel()
    assert rounds == 0


async def test_a_drained_member_is_exchanged_when_a_successor_comes(scene: ReconcilingScene) -> None:
    await scene.put(placement_object(**pick(1, **in_region("west"))))
    await scene.settle()
    await scene.drain("c")
    await scene.settle()
    scene.clock.advance(40)
    assert await scene.reconciled() == []
    await scene.member("d", labels=WEST)
    assert await scene.reconciled() == [P]


async def test_a_member_that_came_back_is_reconciled_by_pick_all(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("all", **ALL))
    await scene.settle()
    scene.clock.advance(10)
    await scene.store.delete(placement_keys.member_cluster("b"))
    await scene.member("b", labels=EAST)
    assert await scene.reconciled() == ["cluster/all"]


async def test_a_new_member_that_cannot_be_read_is_reconciled(scene: ReconcilingScene) -> None:
    await scene.put(placement_object("all", **ALL))
    await scene.settle()
    scene.clock.advance(10)
    await scene.store.put(placement_keys.member_cluster("d"), b"{")
    assert await scene.reconciled() == ["cluster/all"]


async def test_a_member_that_becomes_unreadable_is_reconciled(scene: ReconcilingScene) -> None:
    await scene.drain("c", "cordon")
    await scene.put(placement_object("all", **ALL))
    await scene.settle()
    scene.clock.advance(10)
    await scene.store.put(placement_keys.member_cluster("c"), b"{")
    assert await scene.reconciled() == ["cluster/all"]


async def test_a_member_that_came_back_unreadable_leaves_what_has_it(scene: ReconcilingScene) -> None:
    await scene.put(placement_object(**pick(1, **in_region("west"))))
    await scene.settle()
    scene.clock.advance(10)
    await scene.store.delete(placement_keys.member_cluster("c"))
    await scene.store.put(placement_keys.member_cluster("c"), b"{")
    assert await scene.reconciled() == [P]


async def test_policies_of_no_placement_are_left_alone(scene: ReconcilingScene) -> None:
    for key in (
        placement_keys.policy.prefix + "cluster/web/x",
        placement_keys.policy.prefix + "web/1",
        placement_keys.policy.prefix + "1",
    ):
        await scene.store.put(key, b"{}")
    assert await scene.reconciled() == []
    assert scene.view.references == set()


async def test_policies_that_a_removal_left_behind_go_after_a_restart(scene: ReconcilingScene) -> None:
    for number in range(1, 61):
        await scene.store.put(placement_keys.policy(P, number), b"{}")
    again = ReconcilingScene(store=scene.store)
    assert await again.reconciled() == [P]
    for _ in range(2):
        decided = again.decide()
        assert decided.action == "remove"
        await again.commit(decided)
        await again.see()
    assert again.view.references == set()
