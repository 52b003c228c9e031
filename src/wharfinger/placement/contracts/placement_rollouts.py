"""The contract of `RollOutPlacement`: how a rollout is started and ends, and what it asks of activities.

Contents of objects are in none of this: only members, counters and digests. P is the reference of a placement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Literal

from pydantic import Field
from temporalio import activity
from temporalio.common import RetryPolicy

from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.model.delivery import StepKind, Want
from wharfinger.process.contract import Contract

RolloutOutcome = Literal["done", "stalled", "gone"]


class RolloutInput(Contract):
    """Which placement. A person or another program fills in the reference only."""

    placement: str = Field(min_length=1, max_length=400)
    """P."""
    seen: StreamRevisions = StreamRevisions()
    cause: str = ""
    """Why it was started, for people."""
    waves: int = 0
    """Of the runs that it continues."""


class RolloutResult(Contract):
    """How a rollout ended.

    `done`: everything chosen has what is wanted and is ready, and nothing else is anywhere; `stalled`: something is
    waited for that may take long (`why` names it), and a hub starts again when it has come; `gone`: nothing is left.
    """

    outcome: RolloutOutcome
    snapshot: int = 0
    waves: int = 0
    why: str = ""
    """One line for people."""


class PlanRolloutInput(Contract):
    """Input of `plan_rollout`."""

    placement: str
    seen: StreamRevisions = StreamRevisions()
    workflow_id: str
    run_id: str


class PlannedStep(Contract):
    """One member whose work changes, and what that relies on."""

    member: str
    kind: StepKind
    want: Want = "present"
    ready: bool = False
    free: bool = False
    identity: int = 0
    """Of the member."""
    overrides: str = ""
    """Digest of what is changed for it."""
    counter: int = 0
    """Of the work that is written."""
    work: int = 0
    """Mod revision of its work; 0 = there is none."""
    result: int = 0
    """Mod revision of its result; 0 = there is none."""
    object: int = 0
    """Mod revision of its MemberCluster."""
    agent: int = 0
    """Of a free step: mod revision of `members/<member>`; 0 = its agent is not there."""
    status: int | None = None
    """Of a free step on a member that is not reachable: mod revision of `memberstatus/<member>`."""


class PlannedRollout(Contract):
    """What `plan_rollout` answers."""

    steps: tuple[PlannedStep, ...] = ()
    snapshot: int = 0
    """The one that is wanted; 0 = there is none yet."""
    pinned: bool = False
    snapshot_in: float | None = None
    """Seconds until the selected objects are looked at; None = they are as they were."""
    selected: str = ""
    """Stamp of what may be selected now."""
    timer: float | None = None
    """Seconds until something goes on by itself."""
    waiting: tuple[str, ...] = ()
    """Reachable members whose result is awaited; the first ones."""
    away: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    held: int = 0
    """Members that wait for the budget."""
    gone: bool = False
    """Whether the placement is, and nothing of it is anywhere."""
    forgets: bool = False
    """Whether its snapshots are to be removed: nothing of it is on any member."""
    target: int = 0
    ready: int = 0
    floor: int = 0
    ceiling: int = 0
    trouble: str = ""
    decision: int = 0
    """Mod revision of the decision, of `rollouts/<P>` and of `losses/<P>`; 0 = not there."""
    rollout: int = 0
    losses: int = 0
    seen: StreamRevisions = StreamRevisions()

    @property
    def snapshot_is_due(self) -> bool:
        """Whether the selected objects are to be looked at now."""
        return self.snapshot_in == 0.0

    @property
    def timers(self) -> list[float]:
        """Seconds until something goes on by itself, also a look at the selected objects; empty where nothing does."""
        return [seconds for seconds in (self.timer, self.snapshot_in) if seconds is not None]


class TakeSnapshotInput(Contract):
    """Input of `take_snapshot`."""

    placement: str
    selected: str
    """Stamp of what is looked at."""
    decision: int
    rollout: int
    workflow_id: str
    run_id: str
    role: Literal["rollout", "run"] = "rollout"
    """As whom it is taken."""


class TakenSnapshot(Contract):
    """What became of it."""

    outcome: Literal["taken", "same", "trouble", "contended", "gone"]
    number: int = 0
    """Of the newest snapshot."""
    objects: int = 0
    why: str = ""
    seen: StreamRevisions = StreamRevisions()


class WriteWorksInput(Contract):
    """Input of `write_works`: at most `AT_ONCE` steps of one plan."""

    placement: str
    steps: tuple[PlannedStep, ...]
    snapshot: int
    decision: int
    rollout: int
    """Mod revision of `rollouts/<P>` that this wave rewrites."""
    losses: int
    seen: StreamRevisions = StreamRevisions()
    workflow_id: str
    run_id: str
    wave: str
    """Tells a wave whose answer was lost: it is written once."""

    @property
    def role(self) -> Literal["rollout"]:
        """As whom it is written."""
        return "rollout"


class WrittenWorks(Contract):
    """What became of them."""

    outcome: Literal["written", "contended"]
    written: tuple[str, ...] = ()
    """Members."""
    moved: tuple[str, ...] = ()
    """Members whose write relied on something that had moved: `<member>: <key>`."""
    rollout: int = 0
    """Mod revision of `rollouts/<P>` since this wave."""
    seen: StreamRevisions = StreamRevisions()


class ForgetContentsInput(Contract):
    """Input of `forget_contents`."""

    placement: str
    decision: int
    """Mod revision of the emptied decision."""


class ForgottenContents(Contract):
    """What became of it."""

    outcome: Literal["forgotten", "contended"]
    keys: int = 0
    seen: StreamRevisions = StreamRevisions()


class AwaitResultsInput(Contract):
    """Input of `await_results`."""

    placement: str
    seen: StreamRevisions
    seconds: float
    """How long at most."""


class Awaited(Contract):
    """What ended the wait."""

    news: bool
    """Whether there is something to do, or nothing to wait for; else the time is up."""
    seen: StreamRevisions = StreamRevisions()


class RolloutActivities(ABC):
    """Activities of `RollOutPlacement`, by their registered names."""

    @activity.defn(name="plan_rollout")
    @abstractmethod
    async def plan_rollout(self, request: PlanRolloutInput) -> PlannedRollout:
        """Plan on what this hub has seen; changes nothing. Fails with `Behind`, `WrongWorkflowId`."""

    @activity.defn(name="take_snapshot")
    @abstractmethod
    async def take_snapshot(self, request: TakeSnapshotInput) -> TakenSnapshot:
        """Read what is selected at one revision, and keep it where it is new. Safe to run again."""

    @activity.defn(name="write_works")
    @abstractmethod
    async def write_works(self, request: WriteWorksInput) -> WrittenWorks:
        """Write one wave; each work by a transaction of its own. Safe to run again."""

    @activity.defn(name="forget_contents")
    @abstractmethod
    async def forget_contents(self, request: ForgetContentsInput) -> ForgottenContents:
        """Remove the snapshots of a placement that is gone. Safe to run again."""

    @activity.defn(name="await_results")
    @abstractmethod
    async def await_results(self, request: AwaitResultsInput) -> Awaited:
        """Wait until something can go on. Heart-beats."""


AT_ONCE = 60
"""Works that are written in one wave."""
PLAN_TIMEOUT = timedelta(seconds=15)
SNAPSHOT_TIMEOUT = timedelta(seconds=60)
WRITE_TIMEOUT = timedelta(seconds=30)
BEAT = timedelta(seconds=12)
"""Without a heart-beat for so long, another hub waits."""
SLICE = 60.0
"""Seconds of one wait."""
EVENTS = 3000
"""Of a history, after which the run continues as a new one."""
PATIENCE = 300.0
"""Seconds without news after which a rollout ends as stalled."""


def rollout_retry() -> RetryPolicy:
    """Of activities: they are tried until a hub and etcd are there."""
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=500), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=5)
    )
