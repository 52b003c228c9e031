"""The contract of `StagedUpdateRun`: how a run is started and ends, and what it asks of activities.

Contents of objects are in none of this: only members, counters and digests. P is the reference of a placement; `run` is
the name of the run's object, and `identity` its create revision. `contracts.delivery_records` has what is kept.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Literal

from pydantic import Field
from temporalio import activity

from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.model.delivery import Want
from wharfinger.placement.model.update_runs import RunPhase
from wharfinger.process.contract import Contract

RunOutcome = Literal["succeeded", "failed", "aborted", "superseded", "gone"]
RunEnding = RunOutcome | Literal["stopped", "planned"]
RunAction = Literal["begin", "queue", "step", "end", "over"]
"""Make the plan; wait for a turn or a decision; record, write or wait; record how it ended; nothing is left to do."""
When = Literal["before", "after"]


class UpdateRunInput(Contract):
    """Which run. A person or another program fills in the first three fields only."""

    placement: str = Field(min_length=1, max_length=400)
    """P."""
    run: str = Field(min_length=1, max_length=253)
    identity: int = Field(ge=1)
    seen: StreamRevisions = StreamRevisions()
    cause: str = ""
    """Why it was started, for people."""
    elapsed: float = 0.0
    """Seen seconds that are not in the recorded progress yet; of the runs that it continues, as what follows."""
    waves: int = 0


class UpdateRunResult(Contract):
    """How the workflow ended.

    `succeeded`, `failed`, `aborted`: the run is over; `superseded`: another run delivers the placement; `gone`: the
    run or the placement is deleted; `stopped`, `planned`: its object does not ask it to run, and a hub starts the
    workflow again when it does. A run without a possible plan has `failed`, and so has one that was rolled back.
    """

    outcome: RunEnding
    waves: int = 0
    why: str = ""
    """One line for people."""


class RunRequest(Contract):
    """Which run an activity is about, and which workflow asks."""

    placement: str
    run: str
    identity: int
    seen: StreamRevisions = StreamRevisions()
    workflow_id: str = ""
    run_id: str = ""

    @property
    def role(self) -> Literal["run"]:
        """As whom it delivers (`delivery_records.RolloutRecord`)."""
        return "run"

    @property
    def holder(self) -> str:
        """How `rollouts/<P>` names the run."""
        return f"{self.run}/{self.identity}"


class PlanRunInput(RunRequest):
    """Input of `plan_run`."""

    elapsed: float = 0.0
    """Seen seconds since the progress was recorded."""


class RunWrite(Contract):
    """One work that is written now, and what that relies on."""

    member: str
    identity: int
    snapshot: int
    """0 = the placement shall be absent."""
    overrides: str = ""
    """Digest of what is changed for the member."""
    counter: int
    work: int = 0
    """Mod revision of its work; 0 = there is none."""
    object: int = 0
    """Mod revision of its MemberCluster."""

    @property
    def want(self) -> Want:
        """What the work asks for."""
        return "present" if self.snapshot else "absent"


class PlannedRun(Contract):
    """What `plan_run` answers."""

    action: RunAction
    ends: RunEnding | None = None
    """How the run ends after this. Of `step`, too."""
    named: int | None = None
    """Of `begin`: the snapshot that the run's object names; None = one is taken."""
    selected: str = ""
    """Of `begin`: stamp of what may be selected now."""
    progress: str = ""
    """A `RunProgressRecord` as it is stored, in base64, where it is to be recorded."""
    writes: tuple[RunWrite, ...] = ()
    approvals: tuple[str, ...] = ()
    """Awaited: `<stage>.before`, `<stage>.after`."""
    timer: float | None = None
    """Seconds until something changes by itself; None = never."""
    phase: RunPhase = RunPhase.RUNNING
    ended_stages: int = 0
    """Stages that have ended with this progress."""
    stages: int = 0
    updated: int = 0
    """Members that have an outcome, of so many."""
    members: int = 0
    why: str = ""
    """One sentence: what it waits for, or how it ended."""
    decision: int = 0
    """Mod revision of the decision, of `rollouts/<P>` and of the progress; 0 = not there."""
    rollout: int = 0
    recorded: int = 0
    retries: int = 0
    """That it has followed with this progress."""
    seen: StreamRevisions = StreamRevisions()


class BeginRunInput(RunRequest):
    """Input of `begin_run`."""

    snapshot: int
    decision: int
    rollout: int


class BegunRun(Contract):
    """What became of it."""

    outcome: Literal["begun", "refused", "contended"]
    why: str = ""
    seen: StreamRevisions = StreamRevisions()


class RecordRunInput(RunRequest):
    """Input of `record_run`."""

    planned: PlannedRun
    wave: str
    """Identifies the wave."""

    @property
    def decision(self) -> int:
        """Mod revision of the decision."""
        return self.planned.decision

    @property
    def rollout(self) -> int:
        """Mod revision of `rollouts/<P>`."""
        return self.planned.rollout


class RecordedRun(Contract):
    """What became of it."""

    outcome: Literal["recorded", "contended"]
    rollout: int = 0
    """Mod revision of `rollouts/<P>` since this wave: what its writes compare."""
    seen: StreamRevisions = StreamRevisions()


class WriteRunWorksInput(RunRequest):
    """Input of `write_run_works`: at most `AT_ONCE` works."""

    writes: tuple[RunWrite, ...]
    decision: int
    rollout: int


class WrittenRunWorks(Contract):
    """What became of them."""

    written: tuple[str, ...] = ()
    """Members."""
    moved: tuple[str, ...] = ()
    """Members whose write relied on something that had moved: `<member>: <key>`."""
    seen: StreamRevisions = StreamRevisions()


class AwaitRunInput(RunRequest):
    """Input of `await_run`."""

    elapsed: float = 0.0
    """Seen seconds since the progress was recorded."""
    seconds: float
    """How long at most."""


class AwaitedRun(Contract):
    """What ended the wait."""

    news: bool
    """Whether there is something to do; else the time is up."""
    elapsed: float = 0.0
    """Seen seconds of this wait."""
    seen: StreamRevisions = StreamRevisions()


class RunApproval(Contract):
    """An approval: the argument of the update `approve`."""

    stage: str = Field(min_length=1, max_length=63)
    when: When
    who: str = Field("", max_length=200)
    why: str = Field("", max_length=200)

    @property
    def key(self) -> str:
        """Last part of the approval's key."""
        return f"{self.stage}.{self.when}"


class ApproveRunInput(RunRequest):
    """Input of `approve_run`."""

    approval: RunApproval


class ApprovedRun(Contract):
    """What became of an approval."""

    outcome: Literal["approved", "already", "gone"]
    why: str = ""
    seen: StreamRevisions = StreamRevisions()


class UpdateRunActivities(ABC):
    """Activities of `StagedUpdateRun`, by their registered names; it uses `take_snapshot` of rollouts, too."""

    @activity.defn(name="plan_run")
    @abstractmethod
    async def plan_run(self, request: PlanRunInput) -> PlannedRun:
        """Plan on what this hub has seen; changes nothing. Fails with `Behind`, `WrongWorkflowId`."""

    @activity.defn(name="begin_run")
    @abstractmethod
    async def begin_run(self, request: BeginRunInput) -> BegunRun:
        """Make the plan and put it, or record why there can be none. Safe to run again."""

    @activity.defn(name="record_run")
    @abstractmethod
    async def record_run(self, request: RecordRunInput) -> RecordedRun:
        """Record progress and begin a wave; record how the run ended. Safe to run again."""

    @activity.defn(name="write_run_works")
    @abstractmethod
    async def write_run_works(self, request: WriteRunWorksInput) -> WrittenRunWorks:
        """Write works of the wave, each by a transaction of its own. Safe to run again."""

    @activity.defn(name="await_run")
    @abstractmethod
    async def await_run(self, request: AwaitRunInput) -> AwaitedRun:
        """Wait until something can go on. Heart-beats."""

    @activity.defn(name="approve_run")
    @abstractmethod
    async def approve_run(self, request: ApproveRunInput) -> ApprovedRun:
        """Put an approval. Safe to run again."""


IDLE_SLICE = 600.0
"""Seconds of one wait in which no time has to be counted: for an approval, a retry, or a turn."""
SHORTEST = 1.0
"""Seconds of one wait at least: seen time goes on in such steps."""


def encoded(value: bytes) -> str:
    """A stored value, to travel in a contract."""
    return base64.b64encode(value).decode()


def decoded(text: str) -> bytes:
    """What `encoded` made."""
    return base64.b64decode(text)


RUN_TIMEOUT = timedelta(seconds=30)
