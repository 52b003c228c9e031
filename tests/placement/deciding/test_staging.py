"""The next steps of a staged update run: stages, their tasks, stop and resume."""

from __future__ import annotations

from tests.placement.deciding.runs import APPROVAL, World, plan_of, stage, wait
from wharfinger.placement.model.update_runs import AwaitedTask, MemberOutcome, RunPhase, RunState, RunStep, TaskKind

UPDATED, FAILED, SKIPPED = MemberOutcome.UPDATED, MemberOutcome.FAILED, MemberOutcome.SKIPPED


def names(step: RunStep) -> str:
    return "".join(one.name for one in step.write)


# --- stages and their members ---


def test_stages_and_members_are_updated_in_order() -> None:
    world = World(plan_of(stage("canary", "b"), stage("prod", "ca", concurrency=1)))
    for name in "bca":
        assert names(world.go()) == name
        assert not world.look().write
        world.ready(name)
    step = world.look()
    assert (step.done, step.progress.phase, world.written) == ("succeeded", RunPhase.SUCCEEDED, list("bca"))


def test_no_more_than_max_concurrency_are_unfinished() -> None:
    world = World(plan_of(stage("prod", "abcde", concurrency=3)))
    assert names(world.go()) == "abc"
    world.ready("b")
    assert names(world.go()) == "d"
    assert world.progress.why == "waits for a, c, d"
    world.ready("acd")
    assert names(world.go()) == "e"


def test_a_lost_write_is_proposed_again() -> None:
    world = World(plan_of(stage("prod", "abc", concurrency=2)))
    assert names(world.go(lost="a")) == "ab"
    assert names(world.go()) == "a"
    assert world.flying() == "b"
    assert not world.go().write
    assert world.flying() == "ab"


def test_a_member_that_has_the_contents_already_is_not_written() -> None:
    world = World(plan_of(stage("prod", "abc")))
    world.works["a"] = world.works["b"] = (5, world.go().write[0].wanted)
    world.ready("a")
    world.results["b"] = ""
    assert names(world.go()) == ""
    assert (world.outcomes(UPDATED), world.flying()) == ("a", "b")


def test_zero_clusters_skip_the_stage_with_its_tasks() -> None:
    world = World(plan_of(stage("empty", before=APPROVAL, after=wait(60)), stage("prod", "a")))
    assert names(world.go()) == "a"
    assert world.progress.stages[0].ended


def test_members_that_left_are_skipped_and_joiners_ignored() -> None:
    world = World(plan_of(stage("one", "abc"), stage("two", "de", before=APPROVAL), stage("three", "f")))
    world.go()
    world.unchosen |= {"a", "d"}
    world.leaving.add("b")
    world.gone.add("e")
    assert names(world.go()) == "c"
    world.ready("c")
    assert names(world.go()) == "f"
    world.ready("f")
    step = world.look()
    assert step.progress.why == "4 skipped (a, b, d and 1 more)"
    assert [one.why for one in step.progress.members if one.outcome is SKIPPED] == [
        "it is not chosen any more",
        "it is leaving",
        "it is not chosen any more",
        "it has left",
    ]


def test_binding_preemption_fails_the_member() -> None:
    world = World(plan_of(stage("prod", "ab")))
    world.go()
    world.look()
    world.works["a"] = (99, world.works["b"][1])
    step = world.look()
    assert step.progress.phase is RunPhase.PAUSED
    assert step.progress.members[0].why == "something else has changed its work"


# --- tasks ---


def test_a_stage_waits_for_the_approval_before_it() -> None:
    world = World(plan_of(stage("prod", "a", before=APPROVAL)))
    step = world.look()
    assert step.awaits == (AwaitedTask("prod.before", TaskKind.APPROVAL),)
    assert (step.progress.phase, step.progress.why) == (RunPhase.WAITING, "waits for approval prod.before")
    world.approvals.add("prod.before")
    assert names(world.go()) == "a"
    assert world.progress.stages[0].approvals == ("prod.before",)
    world.approvals.clear()  # to take an approval back has no effect
    world.ready("a")
    assert world.look().done == "succeeded"


def test_tasks_after_a_stage_run_in_parallel() -> None:
    world = World(plan_of(stage("one", "a", after=(*wait(60), *APPROVAL)), stage("two", "b")))
    world.go()
    world.ready("a")
    step = world.look(30)
    assert (step.timer, [one.kind for one in step.awaits]) == (60, [TaskKind.TIMED_WAIT, TaskKind.APPROVAL])
    step = world.look(40)
    assert (step.timer, step.awaits[0].remaining) == (20, 20)
    world.approvals.add("one.after")
    assert [one.key for one in world.look(10).awaits] == ["one.after"]
    assert world.progress.why == "waits 10 s after stage one"
    assert names(world.go(10)) == "b"


# --- stop ---


def test_stop_mid_cluster_lets_it_finish_and_starts_nothing() -> None:
    world = World(plan_of(stage("prod", "ab")))
    world.go()
    world.state = RunState.STOP
    step = world.look()
    assert (step.progress.phase, step.progress.why, world.flying()) == (RunPhase.STOPPING, "waits for a", "a")
    world.ready("a")
    step = world.look()
    assert (step.progress.phase, names(step), step.timer) == (RunPhase.STOPPED, "", None)
    world.state = RunState.RUN
    assert names(world.look()) == "b"


def test_stop_before_a_task_honours_an_approval_on_resume() -> None:
    world = World(plan_of(stage("prod", "a", before=APPROVAL)))
    world.look()
    world.state = RunState.STOP
    assert [one.key for one in world.look().awaits] == ["prod.before"]
    world.approvals.add("prod.before")
    step = world.look()
    assert (step.progress.phase, names(step), step.awaits) == (RunPhase.STOPPED, "", ())
    assert not step.progress.stages[0].started
    world.state = RunState.RUN
    assert names(world.look()) == "a"


def test_stop_after_a_stage_keeps_the_remainder_of_its_wait() -> None:
    world = World(plan_of(stage("one", "a", after=wait(60)), stage("two", "b")))
    world.go()
    world.ready("a")
    world.look()
    world.state = RunState.STOP
    step = world.look(25)
    assert (step.awaits[0].remaining, step.timer, step.progress.phase) == (35, None, RunPhase.STOPPED)
    assert world.look(1000).awaits[0].remaining == 35
    world.state = RunState.RUN
    assert world.look(1000).awaits[0].remaining == 35
    assert world.look(34).timer == 1
    assert names(world.look(1)) == "b"


def test_stop_in_the_deletion_stage_lets_removals_finish() -> None:
    world = World(plan_of(stage("prod", "a"), leaving="xyz"))
    world.go()
    world.ready("a")
    assert names(world.go(lost="z")) == "xyz"
    world.state = RunState.STOP
    assert (names(world.look()), world.progress.phase, world.flying()) == ("", RunPhase.STOPPING, "xy")
    world.ready("xy")
    assert world.look().progress.phase is RunPhase.STOPPED
    world.state = RunState.RUN
    assert names(world.go()) == "z"
    world.ready("z")
    assert world.look().done == "succeeded"
