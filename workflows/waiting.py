"""A wait with an end, beside other tasks that give commands: in the same order on every Python.

`workflow.wait_condition` with a time-out is `asyncio.wait_for`, which takes other turns of the event loop since Python
3.12: after a cancellation, or when the time is up, the order of this task's commands and those of others would depend
on the Python that replays. Where no other task gives commands (`ScheduleAttempt`, `NodeEviction`) that makes no
difference, and `wait_condition` does it with its time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow

SAME_TURNS = "waits-take-the-same-turns"
"""The patch of runs whose waits do not depend on the Python."""


CANCELLED = "no-cancellation-is-lost"
"""The patch of runs that heed every cancellation."""


def heed_cancellation() -> None:
    """Raise `CancelledError` where the run was cancelled while a signal, or the start of a child, was on its way.

    The SDK raises nothing then, if the signal or the start succeeds.
    """
    if workflow.cancellation_reason() is not None and workflow.patched(CANCELLED):
        raise asyncio.CancelledError


async def until(holds: Callable[[], bool], longest: timedelta, *, summary: str | None = None) -> None:
    """Wait until it holds, or that long. `summary`: of the timer, in the Temporal UI.

    Conditions without a time-out are looked at when no other task can go on, so what this task does next comes behind
    what the others do.
    """
    if not workflow.patched(SAME_TURNS):
        with suppress(TimeoutError):
            await workflow.wait_condition(holds, timeout=longest, timeout_summary=summary)
        return
    timer = asyncio.create_task(workflow.sleep(longest, summary=summary))
    try:
        await workflow.wait_condition(lambda: timer.done() or holds())
    finally:
        timer.cancel()
