"""How a run that waits is woken, and how it fails so that its retry policy starts the next attempt.

A refused run parks until a wake that is newer than its snapshot comes, until evicted pods are overdue, or until its own
safety timer. Then it fails, and its retry policy starts the next attempt.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, ApplicationErrorCategory, FailureError

with workflow.unsafe.imports_passed_through():
    from wharfinger.process.names import FailureType
    from wharfinger.scheduling.contracts.attempts import AttemptTimings, Wake, attempts_made, backoff, details, required

SHORTEST_DELAY = timedelta(milliseconds=1)
"""The SDK drops a delay of zero, and the policy's whole back-off would apply."""
BENIGN = (FailureType.UNSCHEDULABLE, FailureType.CONTENDED)


@dataclass(slots=True)
class EvictionResult:
    """What became of the victims of a refusal."""

    lapsed: bool = False
    """A victim or a nominated pod has changed: the next attempt decides again."""
    revision: int = 0
    """A revision of etcd that the next attempt must have seen."""
    leaving: float = 0.0
    """Seconds until the victims are overdue; 0 = none is there."""
    evicted: bool = False
    """Whether this run evicted pods itself."""


class Parking:
    """The part of a run that waits after a refusal, and fails so that the next attempt follows."""

    def __init__(self) -> None:
        self._attempts_before = 0
        """Attempts of the pod before this chain."""
        self._attempts_recorded = 0
        """The number of the pod's last attempt that was recorded when this run decided."""
        self._empty_wake: Wake | None = None
        self._newest = Wake()

    @workflow.signal
    def wake(self, signal: Wake = Wake()) -> None:  # noqa: B008 - frozen
        """An event lets the pod or the gang fit now; an empty wake means: try again in any case."""
        if not signal.revision:
            self._empty_wake = signal
        elif signal.revision > self._newest.revision:
            self._newest = signal

    async def _parked(
        self,
        timings: AttemptTimings,
        message: str,
        room: EvictionResult,
        *,
        since: int,
        leaving: float,
        refused_at: float,
    ) -> ApplicationError:
        """Wait after a refusal, except where the nomination has lapsed; the error with which the run ends.

        `message` says why, for people; `since`: the revision of the refusal's snapshot; `leaving`: seconds until
        victims of earlier attempts are overdue; `refused_at`: the `workflow.time()` at which the back-off began.
        """
        if room.lapsed:
            return self._failure(
                FailureType.UNSCHEDULABLE, message, Wake(revision=room.revision, event="NominationLapsed")
            )
        wake = await self._wait(timings, message, since=since, leaving=room.leaving or leaving, evicted=room.evicted)
        if room.revision > wake.revision:  # on an older state, the next attempt would evict once more
            wake = wake.model_copy(update={"revision": room.revision})
        if wake.attempts <= self._number:  # no group has tried the pod meanwhile
            wake = wake.model_copy(update={"attempts": 0})
        return self._failure(FailureType.UNSCHEDULABLE, message, wake, next_delay(refused_at, self._number))

    async def _wait(self, timings: AttemptTimings, message: str, *, since: int, leaving: float, evicted: bool) -> Wake:
        """Wait for a wake that is newer than `since`, for victims to be overdue, or for the safety timer.

        `evicted`: this run evicted them, so its timer ends with the run, which saves an event.
        """
        spread = timings.park_jitter * workflow.random().uniform(-1, 1)
        longest = timings.park * (1 + spread)
        overdue = 0 < leaving < longest
        workflow.set_current_details(f"Waits since {workflow.now():%Y-%m-%d %H:%M:%S} UTC: {message}")
        seconds = timedelta(seconds=leaving if overdue else longest)
        summary = "evicted pods are overdue" if overdue else "tries again by itself"
        try:
            if evicted:
                await self._wait_beside_timer(since, seconds, summary)
            else:
                await workflow.wait_condition(
                    lambda: self._wake_since(since) is not None, timeout=seconds, timeout_summary=summary
                )
        except TimeoutError:
            return Wake(event="VictimsOverdue" if overdue else "safety timer")
        return self._wake_since(since) or Wake()

    async def _wait_beside_timer(self, since: int, seconds: timedelta, summary: str) -> None:
        """Wait as the condition with a time-out does, but leave its timer to end with the run."""
        if self._wake_since(since) is not None:
            return
        timer = asyncio.create_task(workflow.sleep(seconds, summary=summary))
        await workflow.wait_condition(lambda: timer.done() or self._wake_since(since) is not None)
        if self._wake_since(since) is None:
            raise TimeoutError

    def _wake_since(self, revision: int) -> Wake | None:
        """The wake that counts for a refusal on a snapshot of that revision: a newer one, or an empty one."""
        return self._newest if self._newest.revision > revision else self._empty_wake

    @property
    def _shown(self) -> int:
        """The number of this attempt, as the runs of the chain show it."""
        return self._attempts_before + workflow.info().attempt

    @property
    def _number(self) -> int:
        """Of this attempt among those of its pods: groups may have tried the pod while its chain was parked."""
        return max(self._shown, attempts_before_this() + 1, self._attempts_recorded + 1)

    def _failure(
        self,
        kind: str,
        message: str,
        wake: Wake = Wake(),  # noqa: B008 - frozen
        delay: timedelta | None = None,
        *,
        non_retryable: bool = False,
    ) -> ApplicationError:
        """The error that ends an attempt, with its wake and the revision that the next attempt must have seen."""
        attempts = self._number if self._number > self._shown else 0
        return failure(kind, message, wake, delay, attempts=attempts, non_retryable=non_retryable)


def failure(
    kind: str,
    message: str,
    wake: Wake = Wake(),  # noqa: B008 - frozen
    delay: timedelta | None = None,
    *,
    attempts: int = 0,
    non_retryable: bool = False,
) -> ApplicationError:
    """The error that ends an attempt; see `Parking._failure`, and `details` for `attempts`."""
    return ApplicationError(
        message,
        *details(wake, required_revision(), attempts),
        type=kind,
        non_retryable=non_retryable,
        category=ApplicationErrorCategory.BENIGN if kind in BENIGN else ApplicationErrorCategory.UNSPECIFIED,
        next_retry_delay=delay,
    )


def next_delay(refused_at: float, number: int) -> timedelta:
    """What is left of the back-off of the attempt of this number, which was refused at that `workflow.time()`."""
    left = backoff(workflow.info().retry_policy, number) - (workflow.time() - refused_at)
    return max(SHORTEST_DELAY, timedelta(seconds=left))


def this_run() -> dict[str, Any]:
    """How requests name the run that they come from."""
    info = workflow.info()
    return {"workflow_id": info.workflow_id, "run_id": info.run_id}


def required_revision() -> int:
    """The revision that this attempt must have seen, by the failure of the one before; 0 = none."""
    last = workflow.get_last_failure()
    return required(last.details) if isinstance(last, ApplicationError) else 0


def attempts_before_this() -> int:
    """How many attempts the pod has had, by the failure of the last one; 0 = as the runs of the chain show it."""
    last = workflow.get_last_failure()
    return attempts_made(last.details) if isinstance(last, ApplicationError) else 0


def kind_and_message(error: FailureError) -> tuple[str, str]:
    """Type and message of an activity's failure, for the attempt's own failure.

    A local activity's failure comes as it is, an ordinary one's is wrapped.
    """
    cause = error.cause if isinstance(error, ActivityError) else error
    if not isinstance(cause, ApplicationError):
        return FailureType.SCHEDULER_ERROR, f"the scheduler failed: {cause}"
    return cause.type or FailureType.SCHEDULER_ERROR, cause.message
