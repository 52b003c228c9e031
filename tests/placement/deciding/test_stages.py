"""Plans of staged update runs: who is in which stage, in which order, and why there can be no plan."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.placement.deciding.stages import RunMember, begin, concurrency, plan_run
from wharfinger.placement.model.update_runs import (
    UNMATCHED_STAGE,
    MemberProgress,
    OnFailure,
    PlannedMember,
    RunPlan,
    Stage,
    StagedStrategy,
    StageProgress,
    StageTask,
    TaskKind,
    Unmatched,
)

ALL = LabelSelector()
APPROVAL = StageTask(TaskKind.APPROVAL)
WAIT = StageTask(TaskKind.TIMED_WAIT, 60)


def env(value: str) -> LabelSelector:
    return LabelSelector((Requirement("env", Operator.IN, (value,)),))


def member(name: str, environment: str = "prod", **fields: Any) -> RunMember:
    labels = {"env": environment, **fields.pop("labels", {})}
    return RunMember(name, 1, labels, **{"previous_snapshot": 1, **fields})


def planned(members: list[RunMember], *stages: Stage, unmatched: Unmatched = Unmatched.FAIL) -> RunPlan:
    plan = plan_run(StagedStrategy(stages, unmatched), members, 7)
    assert isinstance(plan, RunPlan), plan
    return plan


def refused(members: list[RunMember], *stages: Stage) -> str:
    plan = plan_run(StagedStrategy(stages), members, 7)
    assert isinstance(plan, str)
    return plan


@pytest.mark.parametrize(
    ("share", "members", "expected"),
    [
        (IntOrPercent(3), 10, 3),
        (IntOrPercent(10), 10, 10),
        (IntOrPercent(15), 10, 15),
        (IntOrPercent(50, percent=True), 10, 5),
        (IntOrPercent(10, percent=True), 1, 1),
        (IntOrPercent(33, percent=True), 10, 3),
        (IntOrPercent(100, percent=True), 10, 10),
        (IntOrPercent(25, percent=True), 7, 1),
        (IntOrPercent(3), 0, 3),
        (IntOrPercent(50, percent=True), 0, 1),
    ],
)
def test_max_concurrency_is_rounded_down_to_at_least_one(share: IntOrPercent, members: int, expected: int) -> None:
    assert concurrency(share, members) == expected


def test_a_plan_freezes_stages_members_and_what_they_had() -> None:
    members = [
        member("b", previous_snapshot=3, previous_overrides="p", overrides="o"),
        member("a", "canary", previous_snapshot=0),
        member("z", chosen=False),
        member("y", chosen=False),
        member("x", chosen=False, previous_snapshot=0),
    ]
    prod = Stage("prod", env("prod"), after=(WAIT, APPROVAL), deadline=30.0, on_failure=OnFailure.ABORT)
    plan = plan_run(StagedStrategy((Stage("canary", env("canary")), prod)), members, 7, {"type": "ServerSideApply"})
    assert isinstance(plan, RunPlan)
    assert [stage.name for stage in plan.stages] == ["canary", "prod"]
    assert plan.stages[0].members == (PlannedMember("a", 1),)
    assert plan.stages[1].members == (PlannedMember("b", 1, "o", 3, "p"),)
    assert (plan.stages[1].after, plan.stages[1].deadline, plan.stages[1].failures) == ((WAIT, APPROVAL), 30.0, 0)
    assert plan.stages[1].on_failure is OnFailure.ABORT
    assert [one.name for one in plan.leaving] == ["y", "z"]
    assert (plan.snapshot, plan.apply_strategy, plan.unmatched) == (7, {"type": "ServerSideApply"}, ())
    progress = begin(plan, 5.0)
    assert (progress.stages, progress.clock) == ((StageProgress(), StageProgress()), 5.0)
    assert progress.members == tuple(MemberProgress(name) for name in "abyz")


def test_members_are_ordered_by_the_label_as_integer_then_by_name() -> None:
    orders = {"d": "10", "a": "2", "c": "-1", "b": "2"}
    members = [member(name, labels={"order": order}) for name, order in orders.items()]
    (stage,) = planned(members, Stage("prod", ALL, sorting_key="order")).stages
    assert [one.name for one in stage.members] == ["c", "a", "b", "d"]
    (stage,) = planned(members, Stage("prod", ALL)).stages
    assert [one.name for one in stage.members] == ["a", "b", "c", "d"]


def test_an_absent_selector_selects_none_and_an_empty_one_all() -> None:
    none, everyone = planned([member("a"), member("b")], Stage("none"), Stage("all", ALL)).stages
    assert (none.members, len(everyone.members)) == ((), 2)


def test_a_failure_threshold_is_rounded_up() -> None:
    (stage,) = planned(
        [member(name) for name in "abc"], Stage("all", ALL, failure_threshold=IntOrPercent(34, True))
    ).stages
    assert stage.failures == 2


def test_members_in_no_stage_are_all_listed() -> None:
    members = [member(f"m{index:02}", "dev") for index in range(12)]
    assert refused([*members, member("a")], Stage("prod", env("prod"))) == "no stage selects " + ", ".join(
        one.name for one in members
    )


def test_members_in_no_stage_are_ignored_or_updated_last() -> None:
    members = [member("c", "dev"), member("b", "dev"), member("a")]
    ignoring = planned(members, Stage("prod", env("prod")), unmatched=Unmatched.IGNORE)
    assert ([len(stage.members) for stage in ignoring.stages], ignoring.unmatched) == ([1], ("b", "c"))
    last = planned(members, Stage("prod", env("prod")), unmatched=Unmatched.LAST)
    assert [stage.name for stage in last.stages] == ["prod", UNMATCHED_STAGE]
    assert [one.name for one in last.stages[1].members] == ["b", "c"]
    assert (last.stages[1].concurrency, last.unmatched) == (1, ("b", "c"))


def test_all_violations_are_listed_at_once() -> None:
    members = [member("a", labels={"order": "x"}), member("b"), member("c", "dev")]
    found = refused(members, Stage("one", env("prod"), "order", before=(WAIT,)), Stage("two", env("prod")))
    assert found.split("; ") == [
        "stage one: a task before it may not be TimedWait",
        "stage one: label order of a is 'x', no integer",
        "stage one: label order of b is missing",
        "a is in 2 stages: one, two",
        "b is in 2 stages: one, two",
        "no stage selects c",
    ]


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ({"before": (APPROVAL,)}, ""),
        ({"before": (APPROVAL, APPROVAL)}, "it has 2 tasks before; one is allowed"),
        ({"before": (WAIT,)}, "a task before it may not be TimedWait"),
        ({"before": (StageTask(TaskKind.APPROVAL, 60),)}, "a task Approval has a wait"),
        ({"after": (WAIT, APPROVAL)}, ""),
        ({"after": (APPROVAL, APPROVAL)}, "it has 2 tasks Approval after; one is allowed"),
        ({"after": (StageTask(TaskKind.TIMED_WAIT),)}, "a task TimedWait has no wait"),
    ],
)
def test_tasks_of_a_stage_are_validated(tasks: dict[str, Any], said: str) -> None:
    plan = plan_run(StagedStrategy((Stage("prod", ALL, **tasks),)), [member("a")], 7)
    assert plan == f"stage prod: {said}" if said else isinstance(plan, RunPlan)


def test_stages_need_names_of_their_own_and_a_run_needs_members() -> None:
    assert "stage a is there twice" in refused([member("m")], Stage("a", ALL), Stage("a"))
    assert "the strategy has 32 stages; 31 are allowed" in refused([member("m")], *[Stage(f"s{n}") for n in range(32)])
    assert refused([], Stage("a", ALL)) == "the placement has chosen no member, and no member has it"
    assert planned([member("z", chosen=False)], Stage("a", ALL)).leaving
