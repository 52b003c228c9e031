"""The frozen plan of a staged update run: which members each stage updates, in which order, how many at a time.

The plan is made once, when the run starts. `deciding.staging` follows it. Rules are KubeFleet's, but all violations
are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wharfinger.objects.model.pod import NO_LABELS
from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.objects.model.selectors import parse_integer
from wharfinger.placement.model.update_runs import (
    MOST_STAGES,
    UNMATCHED_STAGE,
    MemberProgress,
    PlannedMember,
    PlannedStage,
    RunPlan,
    RunProgress,
    Stage,
    StagedStrategy,
    StageProgress,
    TaskKind,
    Unmatched,
)


@dataclass(frozen=True, slots=True)
class RunMember:
    """A member that the placement has chosen, or that has something of it, when the run starts."""

    name: str
    identity: int
    """The create revision of its object."""
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    chosen: bool = True
    previous_snapshot: int = 0
    """That its work wants present; 0 = none."""
    previous_overrides: str = ""
    """Digest of the overrides of its work."""
    overrides: str = ""
    """Digest of the overrides that the run writes."""


def plan_run(
    strategy: StagedStrategy,
    members: Sequence[RunMember],
    snapshot: int,
    apply_strategy: Mapping[str, Any] | None = None,
) -> RunPlan | str:
    """The plan of a run, or a sentence that lists every reason why there can be none.

    Members that are not chosen are removed at the end if they have something of the placement.
    """
    chosen = sorted((member for member in members if member.chosen), key=lambda member: member.name)
    leaving = sorted((one for one in members if not one.chosen and one.previous_snapshot), key=lambda one: one.name)
    selected = [
        [member for member in chosen if stage.labels is not None and stage.labels.matches(member.labels)]
        for stage in strategy.stages
    ]
    matched = {member.name for group in selected for member in group}
    unmatched = [member for member in chosen if member.name not in matched]
    problems = list(_strategy_problems(strategy))
    for stage, group in zip(strategy.stages, selected, strict=True):
        problems += _sorting_problems(stage, group)
    problems += _overlaps(strategy, selected)
    if unmatched and strategy.unmatched is Unmatched.FAIL:
        problems.append(f"no stage selects {', '.join(member.name for member in unmatched)}")
    if not chosen and not leaving:
        problems.append("the placement has chosen no member, and no member has it")
    if problems:
        return "; ".join(problems)
    stages = [_planned(stage, group) for stage, group in zip(strategy.stages, selected, strict=True)]
    if unmatched and strategy.unmatched is Unmatched.LAST:
        stages.append(PlannedStage(UNMATCHED_STAGE, tuple(_member(one) for one in unmatched)))
    return RunPlan(
        stages=tuple(stages),
        leaving=tuple(_member(one) for one in leaving),
        snapshot=snapshot,
        apply_strategy=dict(apply_strategy or {}),
        unmatched=tuple(one.name for one in unmatched),
    )


def begin(plan: RunPlan, clock: float = 0.0) -> RunProgress:
    """The progress of a run that has done nothing yet."""
    return RunProgress(
        stages=(StageProgress(),) * len(plan.stages),
        members=tuple(MemberProgress(member.name) for member in plan.members),
        clock=clock,
    )


def concurrency(limit: IntOrPercent, members: int) -> int:
    """How many of a stage's members may be unfinished at a time: rounded down, at least one."""
    return max(1, limit.of(members, up=False))


def _planned(stage: Stage, members: Sequence[RunMember]) -> PlannedStage:
    ordered = sorted(members, key=lambda member: (_sorting_value(stage, member) or 0, member.name))
    return PlannedStage(
        name=stage.name,
        members=tuple(_member(one) for one in ordered),
        concurrency=concurrency(stage.max_concurrency, len(members)),
        failures=stage.failure_threshold.of(len(members), up=True),
        deadline=stage.deadline,
        on_failure=stage.on_failure,
        before=stage.before,
        after=stage.after,
    )


def _member(member: RunMember) -> PlannedMember:
    return PlannedMember(
        member.name, member.identity, member.overrides, member.previous_snapshot, member.previous_overrides
    )


def _sorting_value(stage: Stage, member: RunMember) -> int | None:
    return parse_integer(member.labels.get(stage.sorting_key, "")) if stage.sorting_key else 0


def _strategy_problems(strategy: StagedStrategy) -> Iterator[str]:
    if len(strategy.stages) > MOST_STAGES:
        yield f"the strategy has {len(strategy.stages)} stages; {MOST_STAGES} are allowed"
    names = [stage.name for stage in strategy.stages]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"stage {name} is there twice"
    for stage in strategy.stages:
        for problem in _task_problems(stage):
            yield f"stage {stage.name}: {problem}"


def _task_problems(stage: Stage) -> Iterator[str]:
    if len(stage.before) > 1:
        yield f"it has {len(stage.before)} tasks before; one is allowed"
    for task in stage.before:
        if task.kind is not TaskKind.APPROVAL:
            yield f"a task before it may not be {task.kind}"
    kinds = [task.kind for task in stage.after]
    for kind in dict.fromkeys(kinds):
        if kinds.count(kind) > 1:
            yield f"it has {kinds.count(kind)} tasks {kind} after; one is allowed"
    for task in (*stage.before, *stage.after):
        if task.kind is TaskKind.APPROVAL and task.wait:
            yield "a task Approval has a wait"
        if task.kind is TaskKind.TIMED_WAIT and task.wait <= 0:
            yield "a task TimedWait has no wait"


def _sorting_problems(stage: Stage, members: Sequence[RunMember]) -> Iterator[str]:
    for member in members:
        if _sorting_value(stage, member) is None:
            written = member.labels.get(stage.sorting_key)
            shown = f"is {written[:40]!r}, no integer" if written is not None else "is missing"
            yield f"stage {stage.name}: label {stage.sorting_key} of {member.name} {shown}"


def _overlaps(strategy: StagedStrategy, selected: Sequence[Sequence[RunMember]]) -> Iterator[str]:
    stages: dict[str, list[str]] = {}
    for stage, group in zip(strategy.stages, selected, strict=True):
        for member in group:
            stages.setdefault(member.name, []).append(stage.name)
    for name, found in sorted(stages.items()):
        if len(found) > 1:
            yield f"{name} is in {len(found)} stages: {', '.join(found)}"
