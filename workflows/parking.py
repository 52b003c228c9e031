"""Waiting to be woken, and what one attempt hands to the next: what the workflows of waiting pods share.

A run that was refused parks here until a wake that is newer than its snapshot comes, until evicted pods are
overdue, or until its own safety timer; then it ends, and the retry policy starts the next attempt.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from wharfinger.contracts.attempts import AttemptTimings, FailureType, Wake, backoff, required

ONLY_ASSUMED = "OnlyAssumed"
"""Stands for the event where none was waited for."""
SHORTEST_DELAY = timedelta(milliseconds=1)
"""The SDK drops a delay of zero, and the policy's whole back-off would apply."""


class Parking:
    """The wakes that a run was sent, and its wait for one that counts."""

    def __init__(self) -> None:
        self._whatever: Wake | None = None
        self._newest = Wake()

    def signalled(self, signal: Wake) -> None:
        """Somebody says that it may go on; an empty wake means: whatever happened."""
        if not signal.revision:
            self._whatever = signal
        elif signal.revision > self._newest.revision:
            self._newest = signal

    def wake_since(self, revision: int) -> Wake | None:
        """The wake that counts for a refusal on a snapshot of that revision: an empty one, or a newer one."""
        return self._newest if self._newest.revision > revision else self._whatever

    async def wait(
        self, timings: AttemptTimings, message: str, *, since: int, leaving: float = 0.0, evicted: bool = False
    ) -> Wake:
        """Wait for a wake that is newer than `since`, for victims to be overdue, or for the safety timer.

        `message` says why, for people; `leaving`: seconds until the victims it waits for are overdue, 0 = it waits
        for none; `evicted`: whether this run evicted them itself (its timer then ends with the run, an event less).
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
                    lambda: self.wake_since(since) is not None, timeout=seconds, timeout_summary=summary
                )
        except TimeoutError:
            return Wake(event="VictimsOverdue" if overdue else "safety timer")
        return self.wake_since(since) or Wake()

    async def _wait_beside_timer(self, since: int, seconds: timedelta, summary: str) -> None:
        """Wait as the condition with a time-out does, but leave its timer to end with the run."""
        if self.wake_since(since) is not None:
            return
        timer = asyncio.create_task(workflow.sleep(seconds, summary=summary))
        await workflow.wait_condition(lambda: timer.done() or self.wake_since(since) is not None)
        if self.wake_since(since) is None:
            raise TimeoutError


def next_delay(refused_at: float) -> timedelta:
    """What is left of the back-off of this attempt, which was refused at that `workflow.time()`."""
    left = backoff(workflow.info().retry_policy, workflow.info().attempt) - (workflow.time() - refused_at)
    return max(SHORTEST_DELAY, timedelta(seconds=left))


def required_revision() -> int:
    """What the attempt before this one says must be seen before deciding anew; 0 = nothing."""
    failure = workflow.get_last_failure()
    return required(failure.details) if isinstance(failure, ApplicationError) else 0


def kind_and_message(error: FailureError) -> tuple[str, str]:
    """What an activity failed with, as the attempt's own failure says it.

    A local activity's failure comes as it is, an ordinary one's is wrapped.
    """
    cause = error.cause if isinstance(error, ActivityError) else error
    if not isinstance(cause, ApplicationError):
        return FailureType.SCHEDULER_ERROR, f"the scheduler failed: {cause}"
    return cause.type or FailureType.SCHEDULER_ERROR, cause.message
