"""How `ScheduleAttempt` has asynchronous plugins called: how often, and what a call that never ended well says."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

with workflow.unsafe.imports_passed_through():
    from temporalio.common import RetryPolicy

    from wharfinger.contracts.plugin_calls import PluginStep


def call_retry(step: PluginStep) -> RetryPolicy:
    """When a call that raised, timed out or was lost with its worker is made again."""
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=500),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=30),
        maximum_attempts=step.attempts,
    )


def why_failed(error: BaseException, step: PluginStep) -> str:
    """Why the calls of a step came to nothing, in words."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, TimeoutError):
        if isinstance(cause.cause, ApplicationError):  # the last failure, before the time was over
            return f"{cause.cause.message}; it did not agree within {step.deadline:g} s"
        if cause.type is TimeoutType.SCHEDULE_TO_CLOSE:
            return f"it did not agree within {step.deadline:g} s"
        return "the worker that called it is gone"
    return cause.message if isinstance(cause, ApplicationError) else str(cause)
