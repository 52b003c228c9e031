"""The contract of `ScheduleAttempt` itself: how a run is started, signalled and retried, and what it ends with.

A client that starts attempts needs this module only; `contracts.scheduling` has the requests to activities. A failed
run is an attempt, and its retry policy starts the next one: these runs of one workflow id are a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from temporalio.common import RetryPolicy

from wharfinger.process.contract import Contract
from wharfinger.process.names import FailureType


class AttemptTimings(Contract):
    """Durations of an attempt in seconds, a millisecond at least; left out = these defaults."""

    park: float = Field(3600.0, ge=0.001, le=86_400 * 7)
    """How long a refused run waits for a wake signal before it tries by itself."""
    park_jitter: float = Field(0.1, ge=0, le=1)
    """Share of `park` by which it is randomly lengthened or shortened, so a herd spreads out."""
    place_timeout: float = Field(2.0, ge=0.001, le=60)
    """Start-to-close of `place`."""
    bind_timeout: float = Field(3.0, ge=0.001, le=60)
    """Start-to-close of `bind`, `record_refusal` and `evict`."""
    backoff_initial: float = Field(1.0, ge=0.001, le=86_400)
    """Of the workflow's retry policy, when the run has to bring its own."""
    backoff_maximum: float = Field(10.0, ge=0.001, le=86_400)
    """Never less than `backoff_initial`, whatever is asked for: Temporal refuses such a policy."""


class AttemptInput(Contract):
    """Which pod to place. A person or another program fills in namespace and name only."""

    namespace: str = Field(min_length=1, max_length=63)
    name: str = Field(min_length=1, max_length=253)
    uid: str = ""
    """Of the life of the pod that is meant; empty = whichever there is (the id must be its own)."""
    revision: int = 0
    """A revision of etcd, the pod's or a later event's, that the placing worker must have seen; 0 = read it."""
    woken_by: str = ""
    """For the explanation: why the dispatcher started this chain (`seen`, `take-over`, `sweep`, ...)."""
    attempts_before: int = Field(0, ge=0)
    """How many attempts the pod has had, in cohorts or an earlier chain: this chain counts on from there."""
    timings: AttemptTimings = AttemptTimings()


class GoneReason(StrEnum):
    """Why there is nothing to place any more. Later releases may add values."""

    DELETED = "deleted"
    """The pod does not exist."""
    REPLACED = "replaced"
    """The pod was deleted, and another pod with another uid has its name."""
    OTHER_SCHEDULER = "other-scheduler"
    """`spec.schedulerName` is no profile of the worker."""
    OTHER_POOL = "other-pool"
    """The pod belongs to the instances of another tenant, or to the common ones."""
    NOT_PENDING = "not-pending"
    """The pod has finished, or is being deleted; `detail` has which."""
    UNREADABLE = "unreadable"
    """The stored object is no valid pod."""
    NOT_OURS = "not-ours"
    """Another scheduler's, another pool's, or unreadable: workers before release 0.2 do not distinguish them."""


class AttemptResult(Contract):
    """What became of the pod when its chain ended.

    `bound`: the pod is on `node`. `gone`: there is nothing to place, because of `reason`.
    """

    outcome: Literal["bound", "gone"]
    node: str | None = None
    attempt: int
    """The number of the attempt that ended the chain; 0 = the outcome was read from etcd, not from a chain."""
    reason: str = ""
    """Of `gone`: one of `GoneReason`."""
    detail: str = ""
    """Of `gone`: one line for people, such as the name of the other scheduler."""
    bound_by: str = ""
    """Of `bound`: `<workflow id>@<run id>` of the attempt, cohort or gang that bound the pod, where another chain did,
    or the outcome was read from etcd. Empty = this chain did, or the binder left no such annotation."""

    @model_serializer(mode="wrap")
    def _without_empty(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the fields that say nothing, so that the result of a bound pod stays short in the history."""
        written: dict[str, Any] = serialize(self)
        return {name: value for name, value in written.items() if value or name in ("node", "attempt")}


class Wake(Contract):
    """The signal `wake`: an event that lets the pod fit now. Empty = try again whatever."""

    revision: int = 0
    event: str = ""
    object: str = ""
    plugin: str = ""
    attempts: int = Field(0, ge=0)
    """The number of the pod's last attempt, from which its chain counts on: groups may have tried the pod meanwhile."""


ONLY_ASSUMED = Wake(event="OnlyAssumed")
"""The wake of a run that did not wait: no event comes when an assumption fails, because nothing changes in etcd."""


class PermitDecision(Contract):
    """The signal and the update `permit`: whether a pod that a Permit plugin holds may be bound."""

    allowed: bool = True
    reason: str = ""


class Permitted(Contract):
    """What the update `permit` answers: this decision counts. Where none is waited for, it fails with `NOT_HELD`."""

    plugin: str
    """That held the pod."""
    allowed: bool


NOT_HELD = "NotHeld"
"""The type of the failure of an update `permit` that no plugin waits for."""


def chain_retry(timings: AttemptTimings) -> RetryPolicy:
    """The workflow's retry policy: a new run is a new attempt, 1 s doubling up to 10 s by default."""
    return RetryPolicy(
        initial_interval=timedelta(seconds=timings.backoff_initial),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=max(timings.backoff_initial, timings.backoff_maximum)),
        non_retryable_error_types=[FailureType.WRONG_ID.value, FailureType.INVALID_INPUT.value],
    )


def backoff(policy: RetryPolicy | None, attempt: int) -> float:
    """Seconds between this attempt and the next by the policy: doubling, up to its maximum."""
    if policy is None:
        return 0.0
    first = policy.initial_interval.total_seconds()
    last = (policy.maximum_interval or policy.initial_interval * 100).total_seconds()
    return min(first * policy.backoff_coefficient ** min(attempt - 1, 32), last)


def details(wake: Wake, required: int, attempts: int = 0) -> list[Any]:
    """Details of the failure that ends an attempt: its wake, and the revision that it required where that is newer.

    All later attempts must have seen that revision too: on an older state they would evict once more. `attempts`: the
    number of the last attempt, where the runs of the chain do not show it.
    """
    wake = wake.model_copy(update={"attempts": max(wake.attempts, attempts)})
    return [wake.model_dump(exclude_defaults=True), *([required] if required > wake.revision else [])]


def attempts_made(details: Sequence[Any]) -> int:
    """The number of the last attempt, from those details; 0 = as the runs of the chain show it."""
    return Wake.model_validate(details[0]).attempts if details else 0


def required(details: Sequence[Any]) -> int:
    """The revision that the next attempt must have seen, from those details; 0 = none."""
    if not details:
        return 0
    wake, *newest = details
    return max(Wake.model_validate(wake).revision, *map(int, newest), 0)
