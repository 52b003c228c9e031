"""Staged update runs of placements: what a user writes, the frozen plan of a run, its progress and its next steps.

`spec.placement_update_fields` reads the user's objects, `deciding.stages` makes the plan, `deciding.staging`
decides what comes next. Names of fields are KubeFleet's. Durations are *seen* seconds: seconds on the run's own clock,
which stands still while nothing looks (`fleet.model.rollout`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.objects.model.selectors import LabelSelector
from wharfinger.placement.model.placement import PlacementRef

MOST_STAGES = 31
"""Stages of a strategy."""
FAILING_DEADLINE = 600.0
"""Seconds for which a member may fail of causes that may end, in a stage that names no deadline."""
UNMATCHED_STAGE = "wharfinger.dev/unmatched"
"""Name of the stage that `Unmatched.LAST` adds. No user can write it: names have no slash."""


# --- what a user writes ---------------------------------------------------------------------------


class TaskKind(StrEnum):
    """What a stage waits for, before it starts or after its members are updated."""

    APPROVAL = "Approval"
    TIMED_WAIT = "TimedWait"


class OnFailure(StrEnum):
    """What a run does when more members of a stage failed than may."""

    PAUSE = "Pause"
    """Start nothing until a retry."""
    ABORT = "Abort"
    """End. What was written stays."""
    ROLLBACK = "Rollback"
    """Write back what each member had before, and remove the placement from members that did not have it."""


class Unmatched(StrEnum):
    """What a run does with chosen members that no stage selects."""

    FAIL = "Fail"
    IGNORE = "Ignore"
    LAST = "Last"
    """Update them after the last stage, one at a time, by name."""


class RunState(StrEnum):
    """What a user wants a run to do."""

    INITIALIZE = "Initialize"
    RUN = "Run"
    STOP = "Stop"


@dataclass(frozen=True, slots=True)
class StageTask:
    """One task of a stage."""

    kind: TaskKind
    wait: float = 0.0
    """Seconds that the run waits while it runs, for `TimedWait`."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Members that are updated together, and how."""

    name: str
    labels: LabelSelector | None = None
    """Which of the chosen members; None selects none, an empty one all."""
    sorting_key: str = ""
    """Label whose value, an integer, orders the members; empty = they are ordered by name."""
    max_concurrency: IntOrPercent = field(default_factory=lambda: IntOrPercent(1))
    """Members that may be unfinished at a time; rounded down, at least one."""
    before: tuple[StageTask, ...] = ()
    after: tuple[StageTask, ...] = ()
    deadline: float | None = None
    """Seconds within which a member must be ready; None = no limit but `FAILING_DEADLINE`."""
    failure_threshold: IntOrPercent = field(default_factory=lambda: IntOrPercent(0))
    """Members that may fail; rounded up."""
    on_failure: OnFailure = OnFailure.PAUSE


@dataclass(frozen=True, slots=True)
class StagedStrategy:
    """A strategy that runs follow."""

    stages: tuple[Stage, ...]
    unmatched: Unmatched = Unmatched.FAIL


@dataclass(frozen=True, slots=True)
class UpdateRun:
    """One release of one placement."""

    placement: PlacementRef
    snapshot: int | None
    """None = a new snapshot is taken."""
    strategy: str
    """Name of the strategy, in the namespace of the run."""
    state: RunState = RunState.INITIALIZE


# --- the frozen plan ------------------------------------------------------------------------------


class RunContents(NamedTuple):
    """What a member shall have."""

    snapshot: int
    """0 = nothing: the placement shall be absent."""
    overrides: str = ""
    """Digest of the resolved overrides."""


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """A member of a stage, or one that the placement is removed from."""

    name: str
    identity: int
    """The create revision of its object."""
    overrides: str = ""
    """Digest of the overrides that the run writes."""
    previous: int = 0
    """The snapshot that it had when the plan was made; 0 = none: it is a newcomer."""
    previous_overrides: str = ""


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage with its members, with its numbers or percentages as numbers."""

    name: str
    members: tuple[PlannedMember, ...]
    """In the order of their updates."""
    concurrency: int = 1
    """Members that may be unfinished at a time."""
    failures: int = 0
    """Members that may fail."""
    deadline: float | None = None
    on_failure: OnFailure = OnFailure.PAUSE
    before: tuple[StageTask, ...] = ()
    after: tuple[StageTask, ...] = ()


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run does, and what there was before. It is written once and never changes."""

    stages: tuple[PlannedStage, ...]
    leaving: tuple[PlannedMember, ...]
    """Members that have the placement and are not chosen: it is removed from them at the end. By name."""
    snapshot: int
    apply_strategy: Mapping[str, Any] = field(default_factory=dict)
    """As the placement had it when the plan was made."""
    unmatched: tuple[str, ...] = ()
    """Chosen members that no stage selects, by name."""

    @property
    def members(self) -> tuple[PlannedMember, ...]:
        """All, in the order of the stages; those that leave come last."""
        return (*(one for stage in self.stages for one in stage.members), *self.leaving)


# --- progress -------------------------------------------------------------------------------------


class RunPhase(StrEnum):
    """What a run does at the moment."""

    RUNNING = "running"
    WAITING = "waiting"
    """For an approval, or until a wait is over."""
    PAUSED = "paused"
    """Too many members failed."""
    STOPPING = "stopping"
    """A user stopped it. It waits for the members that it has started."""
    STOPPED = "stopped"
    ROLLING_BACK = "rolling back"
    ABORTED = "aborted"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """It is rolled back."""


class MemberOutcome(StrEnum):
    """How the update of a member ended."""

    UPDATED = "updated"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class MemberProgress:
    """How far the update, the removal or the rollback of a member is."""

    name: str
    counter: int = 0
    """Of the work that the run wrote; 0 = the run has not started with this member."""
    seen: float = 0.0
    """Seconds since the work was first seen."""
    outcome: MemberOutcome | None = None
    why: str = ""
    above: int = 0
    """Counter of the work of the last try: a work up to it is written again."""
    failing: float | None = None
    """Seconds since it has failed without a break, of causes that may end; None = it does not."""


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far a stage is."""

    started: bool = False
    """Its tasks before are done."""
    waited: float = 0.0
    """Seconds of its wait so far, while the run was running."""
    approvals: tuple[str, ...] = ()
    """Approvals that were used: `<stage>.before`, `<stage>.after`."""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What is recorded of a run as it goes."""

    stages: tuple[StageProgress, ...]
    """As in the plan."""
    members: tuple[MemberProgress, ...]
    """Of all stages in their order, then those that the placement is removed from."""
    phase: RunPhase = RunPhase.RUNNING
    why: str = ""
    """One sentence: what the run waits for, or how it ended."""
    clock: float = 0.0
    """Seen seconds of the run when this was recorded."""
    rollback: str = ""
    """Why it rolls back, or has rolled back; empty = it does not."""
    undone: tuple[MemberProgress, ...] = ()
    """The rollback of each member that the run has touched, in the order of the rollback."""


# --- asking and answering -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """What one consistent read shows of a member, compared with what `staging.wants` returns for it."""

    gone: bool = False
    """There is no member of the planned identity."""
    chosen: bool = True
    leaving: bool = False
    """The member's object is being deleted."""
    reachable: bool = True
    written: int = 0
    """Counter of its work if the work has the wanted contents; 0 = it has others, or there is no work."""
    updated: bool = False
    """Its work has the wanted contents and its result is ready. Where nothing is wanted: there is no work."""
    failed: bool = False
    """Its work has the wanted contents and its result is a failure."""
    passing: bool = False
    """Whether the cause of the failure may end."""
    why: str = ""
    """Of the result."""


@dataclass(frozen=True, slots=True)
class MemberWrite:
    """A work that is to be written now."""

    name: str
    identity: int
    wanted: RunContents
    above: int = 0
    """A work with these contents and a higher counter is written already; any other one is to be replaced."""


@dataclass(frozen=True, slots=True)
class AwaitedTask:
    """A task that a stage waits for."""

    key: str
    """`<stage>.before` or `<stage>.after`: of an approval, also its key."""
    kind: TaskKind
    remaining: float = 0.0
    """Seconds of a wait that are left. They do not run while the run is stopped."""


@dataclass(frozen=True, slots=True)
class RunStep:
    """What one look at a run led to."""

    progress: RunProgress
    write: tuple[MemberWrite, ...] = ()
    """In order. One that is not written, or whose answer is lost, is in the next step again."""
    awaits: tuple[AwaitedTask, ...] = ()
    timer: float | None = None
    """Seconds until something changes by itself; None = never."""
    done: Literal["succeeded", "failed", "aborted"] | None = None
