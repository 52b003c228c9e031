"""The contract of `ScheduleAttempt` itself: how a run is started, signalled and retried, and what it ends with.

Who starts attempts needs this and nothing else. What a run asks of activities is in `contracts.scheduling`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field
from temporalio.common import RetryPolicy

from wharfinger.contracts.contract import Contract


class FailureType(StrEnum):
    """Types of the errors that fail an attempt; the chain's retry policy retries all but the last two."""

    UNSCHEDULABLE = "Unschedulable"
    """No node now: the pod waited, or was woken."""
    CONTENDED = "Contended"
    """Somebody else took the room first."""
    BEHIND = "Behind"
    """This worker's cache has not seen the pod's revision in time."""
    UNAVAILABLE = "Unavailable"
    """etcd did not answer; activities that write are retried by Temporal, a decision by the chain."""
    SCHEDULER_ERROR = "SchedulerError"
    """A plugin raised, or something else that should not happen."""
    WRONG_ID = "WrongWorkflowId"
    """The run was started under an id that is not the pod's own; never retried."""
    INVALID_INPUT = "InvalidInput"
    """The input names no pod; never retried."""


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
    timings: AttemptTimings = AttemptTimings()


class AttemptResult(Contract):
    """How a chain ended."""

    outcome: Literal["bound", "gone"]
    node: str | None = None
    attempt: int


class Wake(Contract):
    """The signal `wake`: an event that lets the pod fit now. Empty = try again whatever."""

    revision: int = 0
    event: str = ""
    object: str = ""
    plugin: str = ""


class Permission(Contract):
    """The signal `permit`: whether a pod that a Permit plugin holds may be bound."""

    allowed: bool = True
    reason: str = ""


def chain_retry(timings: AttemptTimings) -> RetryPolicy:
    """The workflow's retry policy: a new run is a new attempt, 1 s doubling up to 10 s by default."""
    return RetryPolicy(
        initial_interval=timedelta(seconds=timings.backoff_initial),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=max(timings.backoff_initial, timings.backoff_maximum)),
        non_retryable_error_types=[FailureType.WRONG_ID.value, FailureType.INVALID_INPUT.value],
    )
