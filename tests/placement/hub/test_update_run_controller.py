"""Which update runs a hub starts, when it starts them again, and what it removes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from tests.placement.run_scene import RUN, RunScene, run_object, stage
from tests.placement.scene import P
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import END, RunEndRecord
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.hub.update_run_controller import UpdateRunController
from wharfinger.placement.state.hub_changes import HubChange
from wharfinger.process.parts import ProcessParts
from wharfinger.telemetry import Metrics


@dataclass
class Starter:
    """Takes starts down."""

    starts: list[str] = field(default_factory=list)
    seen: list[StreamRevisions] = field(default_factory=list)
    fails: bool = False

    async def start_update_run(
        self, reference: str, run: str, identity: int, seen: StreamRevisions, cause: str
    ) -> None:
        self.starts.append(run)
        self.seen.append(seen)
        if self.fails:
            raise RuntimeError("no Temporal")


@pytest.fixture
async def scene() -> RunScene:
    scene = RunScene()
    await scene.arrange(stage("all"))
    await scene.put(run_object())
    await scene.see()
    return scene


def controller(scene: RunScene, starter: Starter, *, mine: bool = True) -> UpdateRunController:
    process = ProcessParts(scene.store, Metrics(), clock=scene.clock, rng=random.Random(1))
    return UpdateRunController(process, scene.view, starter.start_update_run, mine=lambda key: mine)


async def test_an_error_ends_the_controller_as_it_is(scene: RunScene) -> None:
    def mine(_: str) -> bool:
        raise LookupError("no ring")

    process = ProcessParts(scene.store, Metrics(), clock=scene.clock, rng=random.Random(1))
    found = UpdateRunController(process, scene.view, Starter().start_update_run, mine=mine)
    found.note([HubChange(P)])
    with pytest.raises(LookupError, match="no ring"):
        await found.run()


async def test_a_run_is_started_and_left_alone_for_a_while(scene: RunScene) -> None:
    starter = Starter()
    found = controller(scene, starter)
    await found.reconcile_due()
    await found.reconcile_due()
    assert starter.starts == [RUN]
    scene.clock.now += UpdateRunController.soon
    await found.reconcile_due()
    assert len(starter.starts) == 2
    for _ in range(20):
        scene.clock.now += UpdateRunController.again
        await found.reconcile_due()
    assert len(starter.starts) == 22


async def test_a_start_passes_on_what_others_can_have_seen(scene: RunScene) -> None:
    starter, newest = Starter(), scene.view.newest
    scene.view.reached("hub", 5000)
    await controller(scene, starter).reconcile_due()
    assert starter.seen == [newest]


async def test_a_run_of_another_hub_is_not_started(scene: RunScene) -> None:
    starter = Starter()
    await controller(scene, starter, mine=False).reconcile_due()
    assert starter.starts == []


@pytest.mark.parametrize(("state", "starts"), [("Run", 1), ("Initialize", 1), ("Stop", 0)])
async def test_the_state_says_whether_a_new_run_is_started(scene: RunScene, state: str, starts: int) -> None:
    await scene.state(state)
    await scene.see()
    starter = Starter()
    await controller(scene, starter).reconcile_due()
    assert len(starter.starts) == starts


async def test_a_planned_run_is_started_when_it_is_to_run(scene: RunScene) -> None:
    await scene.state("Initialize")
    starter = Starter()
    found = controller(scene, starter)
    await scene.settle()
    await found.reconcile_due()
    assert starter.starts == []
    await scene.state("Run")
    await scene.see()
    await found.reconcile_due()
    assert starter.starts == [RUN]


async def test_a_stopped_run_is_followed_until_nothing_is_under_way(scene: RunScene) -> None:
    await scene.settle()
    await scene.state("Stop")
    await scene.see()
    starter = Starter()
    found = controller(scene, starter)
    await found.reconcile_due()
    assert starter.starts == [RUN]
    await scene.answer()
    await scene.turn()
    await scene.see()
    scene.clock.now += UpdateRunController.again
    await found.reconcile_due()
    assert starter.starts == [RUN]
    await scene.state("Run")
    await scene.see()
    await found.reconcile_due()
    assert starter.starts == [RUN, RUN]


async def test_a_run_that_has_ended_is_started_after_a_retry_only(scene: RunScene) -> None:
    await scene.settle()
    await scene.store.put(await scene.key(END), RunEndRecord(outcome="aborted").to_bytes())
    await scene.see()
    starter = Starter()
    found = controller(scene, starter)
    await found.reconcile_due()
    assert starter.starts == []
    await scene.retry()
    await scene.see()
    await found.reconcile_due()
    assert starter.starts == [RUN]


async def test_a_start_that_fails_is_tried_again(scene: RunScene) -> None:
    starter = Starter(fails=True)
    found = controller(scene, starter)
    await found.reconcile_due()
    starter.fails = False
    scene.clock.now += UpdateRunController.soon
    await found.reconcile_due()
    assert starter.starts == [RUN, RUN]


async def test_what_is_recorded_of_a_deleted_run_goes(scene: RunScene) -> None:
    await scene.settle()
    former = placement_keys.run_record.below(P, RUN, await scene.identity())
    await scene.store.delete(placement_keys.update_run("", RUN))
    await scene.see()
    starter = Starter()
    found = controller(scene, starter)
    await found.reconcile_due()
    assert [page.items async for page in scene.store.list(former)] == [()]
    assert starter.starts == []


async def test_records_stay_when_the_run_was_made_again_unseen(scene: RunScene) -> None:
    """The hub removes them once it has seen the new object."""
    await scene.settle()
    former = placement_keys.run_record.below(P, RUN, await scene.identity())
    await scene.store.delete(placement_keys.update_run("", RUN))
    await scene.see()
    await scene.put(run_object())
    found = controller(scene, Starter())
    await found.reconcile_due()
    assert [len(page.items) async for page in scene.store.list(former)] == [2]
    await scene.see()
    await found.reconcile_due()
    assert [len(page.items) async for page in scene.store.list(former)] == [0]


def test_changes_of_members_alone_wake_nothing(scene: RunScene) -> None:
    found = controller(scene, Starter())
    found.note([HubChange(member="a")])
    assert not found._news.is_set()
    found.note([HubChange(P, delivered=True)])
    assert found._news.is_set()
