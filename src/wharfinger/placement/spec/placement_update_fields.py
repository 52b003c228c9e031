"""Staged update strategies and runs as they are written: stages, their tasks, the run's state (`spec.placement`).

Names, limits and defaults are KubeFleet's, as far as it has the field. `deadlineSeconds`, `failureThreshold`,
`onFailure` and `unmatched` are our own. Rules that KubeFleet checks only when a run starts are checked here too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema

from wharfinger.framework.config.validation import STORED, ConfigPart, Integer, Problem, stored, understood
from wharfinger.objects.model import durations
from wharfinger.objects.model.placement_kinds import (
    CLUSTER_UPDATE_RUN,
    CLUSTER_UPDATE_STRATEGY,
    PLACEMENT_GROUP,
    UPDATE_RUN,
    UPDATE_RUNS,
    UPDATE_STRATEGY,
)
from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.objects.model.selectors import parse_integer
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.model.update_runs import (
    MOST_STAGES,
    OnFailure,
    RunState,
    Stage,
    StagedStrategy,
    StageTask,
    TaskKind,
    Unmatched,
    UpdateRun,
)
from wharfinger.placement.spec.placement_fields import IntOrPercentField, ObjectFields, immutable
from wharfinger.placement.spec.placement_policy_fields import (
    LARGEST,
    LabelKey,
    LabelSelectorFields,
    Text,
    label_problems,
    when_written,
)

_STAGE = re.compile(r"[a-z0-9]{1,63}", re.ASCII)
_PERCENT = re.compile(r"(100|[1-9][0-9]?)%", re.ASCII)
_WAIT = re.compile(r"((0|[1-9][0-9]*)(\.[0-9]+)?[smh])+", re.ASCII)
_BACK = (("Initialize", "Stop"), ("Run", "Initialize"), ("Stop", "Initialize"))
"""Changes of a run's state that are forbidden."""


def _stage_name(text: str) -> str:
    if text and not _STAGE.fullmatch(text):
        raise ValueError("must be at most 63 lower case letters and digits")
    return text


def _concurrency(written: object) -> IntOrPercent:
    if isinstance(written, int) and not isinstance(written, bool) and 1 <= written <= LARGEST:
        return IntOrPercent(written)
    if isinstance(written, str) and _PERCENT.fullmatch(written):
        return IntOrPercent(int(written[:-1]), percent=True)
    raise ValueError("must be a number of clusters from 1 on, or a percentage from 1% to 100%")


def _wait(text: str, info: ValidationInfo) -> str:
    if info.context == STORED and not text:
        return text  # absent
    if not _WAIT.fullmatch(text):
        raise ValueError("must be a duration in hours, minutes and seconds, such as 15m or 1h30m")
    try:
        nanoseconds = durations.parse_duration(text)
    except ValueError as error:
        raise ValueError(str(error)) from None
    if nanoseconds <= 0 and info.context != STORED:
        raise ValueError("must be longer than 0")
    return text


def _snapshot(text: str) -> str:
    number = parse_integer(text)
    if text and (number is None or number < 0):
        raise ValueError("must be the number of a snapshot")
    return text


class StageTaskFields(ConfigPart):
    """What a stage waits for."""

    type: Literal["TimedWait", "Approval"] | None = None
    """An approval, or that time passes."""
    wait_time: Annotated[Text, AfterValidator(_wait)] | None = None
    """For `TimedWait`, which only tasks after a stage may be."""

    @property
    def value(self) -> StageTask:
        """The task; its type is there."""
        return StageTask(
            TaskKind(self.type or ""), durations.parse_duration(self.wait_time) / 1e9 if self.wait_time else 0.0
        )


class StageFields(ConfigPart):
    """Members that are updated together."""

    name: Annotated[Text, when_written(_stage_name)] = ""
    """Approvals name the stage by it."""
    label_selector: LabelSelectorFields | None = None
    """Which of the chosen members; absent = none, empty = all."""
    sorting_label_key: LabelKey | None = None
    """Label whose value, an integer, orders the members; absent = they are ordered by name."""
    max_concurrency: Annotated[
        IntOrPercent, PlainValidator(_concurrency), WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]})
    ] = IntOrPercent(1)
    """Members that are updated at a time; a percentage is rounded down, to at least 1."""
    before_stage_tasks: tuple[StageTaskFields, ...] = Field(default=(), max_length=1)
    """What it waits for before it starts."""
    after_stage_tasks: tuple[StageTaskFields, ...] = Field(default=(), max_length=2)
    """What it waits for after its members are updated."""
    deadline_seconds: Annotated[Integer, Field(ge=1, le=LARGEST)] | None = None
    """Seconds within which a member must be ready; absent = no limit, but it may report a failure for 600 s at most."""
    failure_threshold: IntOrPercentField = IntOrPercent(0)
    """Members that may fail; a percentage is rounded up."""
    on_failure: Literal["Pause", "Abort", "Rollback"] = "Pause"
    """What happens when more of them fail."""

    @property
    def value(self) -> Stage:
        """The stage."""
        return Stage(
            name=self.name,
            labels=self.label_selector.value if self.label_selector is not None else None,
            sorting_key=self.sorting_label_key or "",
            max_concurrency=self.max_concurrency,
            before=tuple(task.value for task in self.before_stage_tasks),
            after=tuple(task.value for task in self.after_stage_tasks),
            deadline=None if self.deadline_seconds is None else float(self.deadline_seconds),
            failure_threshold=self.failure_threshold,
            on_failure=OnFailure(self.on_failure),
        )


class UpdateStrategySpecFields(ConfigPart):
    """In which order members are updated."""

    stages: tuple[StageFields, ...] | None = Field(default=None, max_length=MOST_STAGES)
    """One after the other."""
    unmatched: Literal["Fail", "Ignore", "Last"] = "Fail"
    """What happens to chosen members that no stage selects."""


class UpdateStrategyFields(ObjectFields):
    """A ClusterStagedUpdateStrategy, or a StagedUpdateStrategy."""

    spec: UpdateStrategySpecFields = UpdateStrategySpecFields()
    """In which order members are updated."""


class UpdateRunSpecFields(ConfigPart):
    """What is released, and how."""

    placement_name: Annotated[Text, Field(max_length=255)] = ""
    """Of a ClusterResourcePlacement, or of a ResourcePlacement in the run's namespace."""
    resource_snapshot_index: Annotated[Text, AfterValidator(_snapshot)] = ""
    """Number of the snapshot, as text; empty = a new one is taken."""
    staged_rollout_strategy_name: Text = ""
    """Of the strategy."""
    state: Literal["Initialize", "Run", "Stop"] = "Initialize"
    """Whether it is only planned, runs, or is stopped."""


class UpdateRunFields(ObjectFields):
    """A ClusterStagedUpdateRun, or a StagedUpdateRun."""

    spec: UpdateRunSpecFields = UpdateRunSpecFields()
    """What is released, and how."""


def strategy_problems(fields: ConfigPart) -> Iterator[Problem]:
    """What is wrong with the fields of a strategy together."""
    assert isinstance(fields, UpdateStrategyFields), "of these kinds"
    if fields.spec.stages is None:
        yield "spec.stages", "is missing"
    stages = fields.spec.stages or ()
    for index, stage in enumerate(stages):
        where = f"spec.stages[{index}]."
        yield from _stage(stage, where)
        for name, tasks in (("before", stage.before_stage_tasks), ("after", stage.after_stage_tasks)):
            for kind, count in Counter(task.type for task in tasks if task.type).items():
                if count > 1:
                    yield f"{where}{name}StageTasks", f"has {count} tasks of type {kind}; there may be one"
        for at, task in enumerate(stage.before_stage_tasks):
            if task.type == "TimedWait":
                yield f"{where}beforeStageTasks[{at}].type", "must be Approval: only tasks after a stage wait for time"
    for name, count in Counter(stage.name for stage in stages if stage.name).items():
        if count > 1:
            yield "spec.stages", f"{name} is there twice"


def _stage(stage: StageFields, where: str) -> Iterator[Problem]:
    """What is wrong with the fields of a stage together, so that it means nothing."""
    if not stage.name:
        yield f"{where}name", "is missing"
    yield from label_problems(stage.label_selector, f"{where}labelSelector.")
    yield from _tasks(stage.before_stage_tasks, f"{where}beforeStageTasks")
    yield from _tasks(stage.after_stage_tasks, f"{where}afterStageTasks")


def _tasks(tasks: tuple[StageTaskFields, ...], where: str) -> Iterator[Problem]:
    for index, task in enumerate(tasks):
        path = f"{where}[{index}]."
        if task.type is None:
            yield f"{path}type", "is missing"
        if task.type == "Approval" and task.wait_time:
            yield f"{path}waitTime", "must be absent for Approval"
        if task.type == "TimedWait" and not task.wait_time:
            yield f"{path}waitTime", "is missing; TimedWait needs it"


def run_problems(fields: ConfigPart) -> Iterator[Problem]:
    """What is wrong with the fields of a run together."""
    assert isinstance(fields, UpdateRunFields), "of these kinds"
    if not fields.spec.placement_name:
        yield "spec.placementName", "is missing"
    if not fields.spec.staged_rollout_strategy_name:
        yield "spec.stagedRolloutStrategyName", "is missing"


def forbidden_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Why a valid run may not become another valid one; empty for other kinds, and when it may."""
    if new.get("kind") not in UPDATE_RUNS:
        return ()
    was, becomes = understood(old, UpdateRunFields)[0].spec, understood(new, UpdateRunFields)[0].spec
    names = ("placement_name", "resource_snapshot_index", "staged_rollout_strategy_name")
    problems = [*immutable(was, becomes, *names)]
    if (was.state, becomes.state) in _BACK:
        problems.append(("spec.state", f"may not change from {was.state} to {becomes.state}"))
    return tuple(problems)


def _unreadable(fields: UpdateStrategyFields) -> Iterator[Problem]:
    for index, stage in enumerate(fields.spec.stages or ()):
        yield from _stage(stage, f"spec.stages[{index}].")


def stored_strategy(obj: Mapping[str, Any]) -> StagedStrategy:
    """A stored strategy of either kind. Raises `InvalidObject`, naming the field.

    `deciding.stages` checks what a plan needs of stages together.
    """
    spec = stored({"spec": obj.get("spec")}, UpdateStrategyFields, together=_unreadable).spec
    return StagedStrategy(tuple(stage.value for stage in spec.stages or ()), Unmatched(spec.unmatched))


def stored_run(obj: Mapping[str, Any], namespace: str) -> UpdateRun:
    """A stored run of either kind, about a placement of its namespace. Raises `InvalidObject`, naming the field."""
    spec = stored({"spec": obj.get("spec")}, UpdateRunFields, together=run_problems).spec
    return UpdateRun(
        PlacementRef(namespace, spec.placement_name),
        parse_integer(spec.resource_snapshot_index) if spec.resource_snapshot_index else None,
        spec.staged_rollout_strategy_name,
        RunState(spec.state),
    )


UPDATE_KINDS: dict[str, tuple[type[ConfigPart], str, Callable[[ConfigPart], Iterator[Problem]]]] = {
    CLUSTER_UPDATE_STRATEGY: (UpdateStrategyFields, PLACEMENT_GROUP, strategy_problems),
    UPDATE_STRATEGY: (UpdateStrategyFields, PLACEMENT_GROUP, strategy_problems),
    CLUSTER_UPDATE_RUN: (UpdateRunFields, PLACEMENT_GROUP, run_problems),
    UPDATE_RUN: (UpdateRunFields, PLACEMENT_GROUP, run_problems),
}
