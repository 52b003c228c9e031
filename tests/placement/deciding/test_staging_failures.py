"""The next steps of a staged update run after failures: pause, abort, rollback, retry; the removal at the end."""

from __future__ import annotations

import pytest

from tests.placement.deciding.runs import APPROVAL, World, plan_of, stage, wait
from wharfinger.placement.model.update_runs import (
    FAILING_DEADLINE,
    MemberOutcome,
    OnFailure,
    RunPhase,
    RunState,
    RunStep,
)

UPDATED, FAILED, SKIPPED = MemberOutcome.UPDATED, MemberOutcome.FAILED, MemberOutcome.SKIPPED


def names(step: RunStep) -> str:
    return "".join(one.name for one in step.write)


# --- failures ---


def test_a_failed_cluster_pauses_the_run_and_others_finish() -> None:
    world = World(plan_of(stage("prod", "abc", concurrency=2)))
    world.go()
    world.fail("a")
    step = world.look()
    assert (step.progress.phase, names(step), world.flying()) == (RunPhase.PAUSED, "", "b")
    assert step.progress.why == "stage prod: 1 of 3 failed (a); waits for b; a retry tries them again"
    world.ready("ab")  # a failure stands until the retry
    assert world.look().progress.phase is RunPhase.PAUSED
    world.retry()
    assert (names(world.go()), world.outcomes(UPDATED)) == ("c", "ab")


def test_as_many_as_the_threshold_may_fail() -> None:
    world = World(plan_of(stage("prod", "abc", failures=1)))
    world.go()
    world.fail("a")
    assert names(world.go()) == "b"
    world.ready("b")
    world.go()
    world.fail("c")
    assert world.look().progress.phase is RunPhase.PAUSED


@pytest.mark.parametrize("unreachable", ["", "a"])
def test_a_member_fails_at_its_deadline(unreachable: str) -> None:
    world = World(plan_of(stage("prod", "ab", deadline=100)))
    world.unreachable |= set(unreachable)
    world.go()
    assert world.look(50).timer == 100  # the work was not seen before
    world.state = RunState.STOP
    assert world.look(60).timer == 40
    step = world.look(40)
    assert step.progress.phase is RunPhase.STOPPED
    why = "it was not ready within 100 s" + (": it is unreachable" if unreachable else "")
    assert step.progress.members[0].why == why


def test_a_failure_whose_cause_may_end_keeps_the_member_in_progress() -> None:
    world = World(plan_of(stage("prod", "ab")))
    world.go()
    world.go(30)
    world.fail_for_a_while("a")
    step = world.go(30)
    assert (step.progress.phase, step.write, step.timer, world.flying()) == (
        RunPhase.RUNNING,
        (),
        FAILING_DEADLINE,
        "a",
    )
    assert step.progress.members[0].why == "no answer"
    assert world.go(599).timer == 1
    world.results["a"] = ""  # it ends, and another one begins
    assert (world.go(0.5).timer, world.progress.members[0].failing) == (None, None)
    world.fail_for_a_while("a")
    assert world.go(5000).timer == FAILING_DEADLINE
    world.ready("a")
    assert (names(world.go(1)), world.outcomes(UPDATED)) == ("b", "a")


def test_a_failure_that_does_not_end_fails_after_the_default_deadline() -> None:
    world = World(plan_of(stage("prod", "ab", on_failure=OnFailure.ABORT)))
    world.go()
    world.fail_for_a_while("a")
    world.go(1)
    assert world.go(599.9).done is None
    step = world.go(0.1)
    assert (step.done, step.progress.members[0].why) == ("aborted", "it did not stop failing within 600 s: no answer")


def test_the_deadline_of_a_stage_stands_for_failures_too() -> None:
    world = World(plan_of(stage("prod", "ab", deadline=1000)))
    world.go()
    world.go(1)
    world.fail_for_a_while("a")
    world.go(1)
    assert world.go(900).timer == pytest.approx(99)
    assert world.go(99).progress.members[0].why == "it was not ready within 1000 s: no answer"


def test_an_unreachable_member_does_not_fail_by_its_last_result() -> None:
    world = World(plan_of(stage("prod", "ab")))
    world.go()
    world.fail_for_a_while("a")
    world.go(1)
    world.unreachable.add("a")
    assert (world.go(5000).timer, world.flying()) == (None, "a")
    world.unreachable.clear()
    assert world.go(1).timer == FAILING_DEADLINE


def test_abort_ends_the_run_and_leaves_what_was_written() -> None:
    world = World(plan_of(stage("prod", "abc", concurrency=2, on_failure=OnFailure.ABORT)))
    world.go()
    world.fail("a")
    step = world.look()
    assert (step.done, step.progress.phase, step.write) == ("aborted", RunPhase.ABORTED, ())
    assert world.look(10) == RunStep(step.progress, done="aborted")
    world.retry()
    assert names(world.go()) == "a"


def test_rollback_restores_what_each_had_in_reverse_order() -> None:
    back = OnFailure.ROLLBACK
    world = World(plan_of(stage("one", "ab", concurrency=2), stage("two", "cde", "d", concurrency=2, on_failure=back)))
    world.go()
    world.ready("ab")
    world.go()
    world.fail("c")
    step = world.go()
    assert (step.progress.phase, step.timer, step.write) == (RunPhase.ROLLING_BACK, 0.0, ())
    assert [one.name for one in step.progress.undone] == ["d", "c", "b", "a"]
    step = world.go()
    assert [(one.name, one.wanted.snapshot) for one in step.write] == [("d", 0), ("c", 1)]
    world.ready("d")
    assert names(world.go()) == ""
    world.ready("c")
    assert names(world.go()) == "ba"
    world.ready("b")
    world.fail("a")
    step = world.look()
    assert (step.done, step.progress.phase) == ("failed", RunPhase.FAILED)
    assert step.progress.why == "stage two: 1 of 3 failed (c); 1 failed (a)"
    assert [world.snapshot(name) for name in "abcde"] == [1, 1, 1, 0, 1]


def test_rollback_takes_a_write_whose_answer_is_late() -> None:
    world = World(plan_of(stage("prod", "abc", concurrency=2, on_failure=OnFailure.ROLLBACK)))
    world.go(lost="b")
    world.go()
    world.fail("a")
    assert [one.name for one in world.look().progress.undone] == ["b", "a"]


def test_a_stopped_run_rolls_back_when_it_runs_again() -> None:
    world = World(plan_of(stage("prod", "ab", on_failure=OnFailure.ROLLBACK)))
    world.go()
    world.state = RunState.STOP
    world.fail("a")
    assert (world.look().progress.phase, world.progress.rollback) == (RunPhase.STOPPED, "")
    world.state = RunState.RUN
    assert world.look().progress.phase is RunPhase.ROLLING_BACK
    world.go()
    world.state = RunState.STOP
    assert world.look().progress.phase is RunPhase.STOPPING
    world.unreachable.add("a")  # its agent will find what it had
    assert world.look().progress.phase is RunPhase.STOPPED
    world.state = RunState.RUN
    assert world.look().done == "failed"


# --- removal and retry ---


def test_leaving_members_are_removed_last_and_all_at_once() -> None:
    world = World(plan_of(stage("prod", "a"), leaving="vwxyz"))
    world.go()
    world.unchosen.discard("w")
    world.gone.add("v")
    world.ready("a")
    assert names(world.go()) == "xyz"
    world.unreachable.add("x")
    world.fail("y")
    world.ready("z")
    assert world.look().progress.why == "waits for y"
    world.ready("y")
    assert world.look().done == "succeeded"
    assert (world.outcomes(SKIPPED), world.outcomes(UPDATED)) == ("vwx", "ayz")


def test_retry_goes_back_to_an_earlier_stage_first() -> None:
    world = World(plan_of(stage("one", "ab", failures=1, before=APPROVAL, after=wait(10)), stage("two", "c")))
    world.approvals.add("one.before")
    world.go()
    world.fail("a")
    world.go()
    world.ready("b")
    world.look()
    assert names(world.go(10)) == "c"
    assert not world.go().write
    world.retry()
    world.approvals.clear()
    assert names(world.go()) == ""  # c is unfinished
    world.ready("c")
    step = world.go()
    assert (names(step), step.write[0].above) == ("a", 11)
    world.ready("a")
    assert world.look().done == "succeeded"


def test_retry_after_a_rollback_begins_again() -> None:
    world = World(plan_of(stage("one", "ab", before=APPROVAL, on_failure=OnFailure.ROLLBACK)))
    world.approvals.add("one.before")
    world.go()
    world.ready("a")
    world.go()
    world.fail("b")
    world.go()
    before = world.progress
    world.retry()
    assert world.progress == before  # it is rolling back
    for name in "ba":
        assert names(world.go()) == name
        world.ready(name)
    assert world.look().done == "failed"
    world.retry()
    assert names(world.go()) == "a"
    world.ready("a")
    assert names(world.go()) == "b"
