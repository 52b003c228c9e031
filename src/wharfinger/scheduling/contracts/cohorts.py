"""The contract of `ScheduleCohort` itself: which pods, or which gang, are placed together, and how a run ends.

Components that start cohorts need only this. What a run asks of activities is in `contracts.cohort_scheduling`.
A gang is a cohort whose members are bound in one transaction, or none of them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from temporalio.common import RetryPolicy

from wharfinger.objects.model.gang import MOST_TOGETHER
from wharfinger.process.contract import Contract
from wharfinger.scheduling.contracts.attempts import AttemptTimings, FailureType, Wake

MOST_PODS = MOST_TOGETHER
"""Pods in one cohort, at most."""
MOST_BYTES = 400_000
"""Of what a cohort's input may come to as JSON: its decisions are about three times that, and Temporal takes 2 MiB."""


class CohortPod(Contract):
    """One pod of a cohort."""

    namespace: str
    name: str
    uid: str = ""
    revision: int = 0
    """A revision of etcd that the deciding worker must have seen of it."""
    attempt: int = 1
    """Number of this try among the pod's attempts, for its record."""
    recorded: bool = False
    """Whether it has an attempt record, which its bind deletes."""
    chained: bool = False
    """Whether a chain of its own is parked: its record goes on naming that."""
    record_revision: int | None = None
    """Mod revision of its record, 0 without one: a newer one is left as it is. None = not known, it is overwritten."""
    woken_by: str = ""
    """For the explanation: why the dispatcher started this pod; empty when it was new, or an event woke it."""
    wake: Wake | None = None
    """For the explanation: the event by which the pod was woken since its last attempt."""


class GangName(Contract):
    """A pod group whose members are placed together."""

    namespace: str
    name: str


class Turn(Contract):
    """Which of a dispatcher's cohorts this is: one is decided after the other, in order of priority."""

    dispatcher: str
    """The worker process that formed it."""
    number: int


class CohortInput(Contract):
    """Which pods to place, in this order; or which gang, whose members are looked up when it is decided."""

    pods: tuple[CohortPod, ...] = Field(default=(), max_length=MOST_PODS)
    gang: GangName | None = None
    revision: int = 0
    """For a gang: a revision of etcd that the deciding worker must have seen."""
    woken_by: str = ""
    """For the explanation: why the dispatcher formed it."""
    turn: Turn | None = None
    timings: AttemptTimings = AttemptTimings()


class CohortResult(Contract):
    """How many pods a cohort bound, and what became of the others."""

    outcome: Literal["bound", "refused", "contended", "gone"]
    """`bound`: all that were still to be placed; otherwise what hindered the rest."""
    bound: int = 0
    refused: int = 0
    contended: int = 0
    skipped: int = 0
    gone: dict[str, int] = Field(default_factory=dict)
    """How many pods were not to be placed any more, by why: `bound` (by another run), or a `GoneReason`."""
    detail: str = ""
    """For a gang that ends as `gone`: one line with why no member is to be placed."""
    attempt: int = 1


def cohort_retry() -> RetryPolicy:
    """The retry policy of a cohort without a gang: none, because its pods come back by the queue at once."""
    return RetryPolicy(
        maximum_attempts=1,
        non_retryable_error_types=[FailureType.WRONG_ID.value, FailureType.INVALID_INPUT.value],
    )
