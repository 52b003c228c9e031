"""The contract of `SchedulePlacement`: how an attempt is started and ends, and what it asks of activities.

P, the reference of a placement, is `cluster/<name>` or `ns/<namespace>/<name>`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, ValidationError
from temporalio import activity
from temporalio.common import RetryPolicy

from wharfinger.process.contract import Contract
from wharfinger.process.names import FailureType

PlacementOutcome = Literal["fulfilled", "unfulfilled", "unchanged", "gone"]


class StreamRevisions(Contract):
    """Up to where a reader has followed what a hub follows: three streams, each with a revision of its own.

    A decision is made again from each stream's state at its revision.
    """

    members: int = 0
    objects: int = 0
    """Placements, evictions, budgets."""
    hub: int = 0


class PlacementAttemptInput(Contract):
    """Which placement. A person or another program fills in the reference only."""

    placement: str = Field(min_length=1, max_length=400)
    """P."""
    seen: StreamRevisions = StreamRevisions()
    """What the deciding hub must have seen."""
    cause: str = ""
    """Why it was started, for people."""


class PlacementAttemptResult(Contract):
    """How an attempt ended.

    `fulfilled`, `unfulfilled`: a decision was stored, and the policy is or is not fulfilled by it; `unchanged`: the
    stored decision says the same already; `gone`: nothing of the placement is left, and its keys were removed.
    """

    outcome: PlacementOutcome
    chosen: int = 0
    added: tuple[str, ...] = ()
    """Members that were chosen newly; the first ones of many."""
    removed: tuple[str, ...] = ()
    why: str = ""
    """One line for people."""


class DecideInput(Contract):
    """Input of `decide`."""

    placement: str
    seen: StreamRevisions = StreamRevisions()
    workflow_id: str
    run_id: str


class RefusedBy(Contract):
    """How many members a plugin refused with one reason."""

    plugin: str
    """Empty: they were scored, and others scored higher."""
    reason: str
    members: int


class EvictionEnd(Contract):
    """How an eviction ends with this decision."""

    name: str
    revision: int
    """Mod revision of its object."""
    identity: int = 0
    """Create revision of its object."""
    record: int = 0
    """Mod revision of the record of an earlier eviction of this name, which is written over; 0 = there is none."""
    cluster: str
    valid: bool
    executed: bool
    message: str


class DecidedPlacement(Contract):
    """What `decide` answers: what is to be committed, and what it comes to."""

    action: Literal["store", "nothing", "remove"]
    """`remove`: nothing of the placement is left anywhere, so its keys and its object go."""
    decision: str = ""
    """A `DecisionRecord` as it is stored, in base64; empty: the decision stays, and evictions end."""
    decision_revision: int = 0
    """Mod revision of the stored decision; 0 = there is none."""
    placement_revision: int = 0
    """Mod revision of the placement's object; 0 = there is none."""
    policy: int = 0
    """Number of the policy that was judged by."""
    new_policy: Mapping[str, Any] | None = None
    """As written, where it has no number yet."""
    digest: str = ""
    forgotten: tuple[int, ...] = ()
    """Numbers of policies that are not kept any longer."""
    evictions: tuple[EvictionEnd, ...] = ()
    free: tuple[str, ...] = ()
    """Members that it is evicted from because it has failed there."""
    compares: tuple[tuple[str, int], ...] = ()
    """More keys that must not have moved, with their mod revisions; 0 = not there."""
    fulfilled: bool = False
    condition: str = ""
    chosen: int = 0
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    refused: tuple[RefusedBy, ...] = ()
    """The most frequent ones."""
    deviations: tuple[str, ...] = ()
    seen: StreamRevisions = StreamRevisions()
    token: str = ""


class CommitDecisionInput(Contract):
    """Input of `commit_decision`."""

    placement: str
    decided: DecidedPlacement
    workflow_id: str
    run_id: str


class CommittedPlacement(Contract):
    """What became of it."""

    outcome: Literal["committed", "contended"]
    revision: int = 0
    seen: StreamRevisions = StreamRevisions()
    """Of `contended`: what the next attempt must have seen."""
    moved: str = ""
    """Of `contended`: for people, which key had moved."""


class PlacementActivities(ABC):
    """Activities of `SchedulePlacement`, by their registered names."""

    @activity.defn(name="decide")
    @abstractmethod
    async def decide(self, request: DecideInput) -> DecidedPlacement:
        """Decide on what this hub has seen; changes nothing. Fails with `Behind`, `WrongWorkflowId`."""

    @activity.defn(name="commit_decision")
    @abstractmethod
    async def commit_decision(self, request: CommitDecisionInput) -> CommittedPlacement:
        """Store it by one transaction that compares all that it follows from. Safe to run again."""


DECIDE_TIMEOUT = timedelta(seconds=15)
COMMIT_TIMEOUT = timedelta(seconds=10)
LISTED = 20
"""Members that are named in answers; more are counted only."""


def placement_retry() -> RetryPolicy:
    """The workflow's retry policy: a new run is a new attempt, 1 s doubling up to 60 s."""
    return RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=60),
        non_retryable_error_types=[FailureType.WRONG_ID.value, FailureType.INVALID_INPUT.value],
    )


def required_seen(details: Sequence[Any]) -> StreamRevisions:
    """What the attempt after a failed one must have seen, from the details of that failure."""
    try:
        return StreamRevisions.model_validate(details[0]) if details else StreamRevisions()
    except ValidationError:  # of another failure than an attempt's
        return StreamRevisions()


def latest(one: StreamRevisions, other: StreamRevisions) -> StreamRevisions:
    """The later of both in each stream."""
    return StreamRevisions(
        members=max(one.members, other.members),
        objects=max(one.objects, other.objects),
        hub=max(one.hub, other.hub),
    )
