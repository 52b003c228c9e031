"""How `ScheduleAttempt` has asynchronous plugins called: how often, and what a call that never ended well says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, repeat
from typing import Literal

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    FailureError,
    TimeoutError,
    TimeoutType,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from temporalio.common import RetryPolicy

    from wharfinger.scheduling.contracts.plugin_calls import SLACK, CallsMade, Held, PluginAnswer, PluginStep
    from wharfinger.scheduling.contracts.scheduling import BindInput, CallInput, Scheduling


async def call_plugins(held: Held, bind: BindInput, calls: CallsMade, title: str) -> CallsMade:
    """Call the plugins that are due, in order, until one does not agree; all answers so far.

    `bind`: the request that the room is held for; `calls`: the answers before; `title`: pod and node, for the UI.
    """
    for step in held.steps:
        answer = await _called(step, bind, calls, title)
        calls = calls.with_one(answer)
        if not answer.done:
            break
    return calls


async def _called(step: PluginStep, bind: BindInput, calls: CallsMade, title: str) -> PluginAnswer:
    """Call one plugin until it answers, again after Wait. Where its time is over, that is its answer.

    A cancelled attempt has an answer, too: the room has to be given back before it ends.
    """
    began = workflow.time()
    request = CallInput(
        namespace=bind.namespace,
        name=bind.name,
        placed=bind.placed,
        step=step,
        calls=calls,
        workflow_id=bind.workflow_id,
        run_id=bind.run_id,
        attempt=bind.attempt,
    )
    message = f"it did not agree within {step.deadline:g} s"
    try:
        for pause in _pauses():
            left = step.deadline - (workflow.time() - began)
            if left <= 0 or workflow.cancellation_reason() is not None:
                break
            answer = await workflow.execute_activity_method(
                Scheduling.call_plugin,
                request,
                start_to_close_timeout=timedelta(seconds=step.timeout + SLACK),
                schedule_to_close_timeout=timedelta(seconds=left + SLACK),
                heartbeat_timeout=timedelta(seconds=step.heartbeat),
                retry_policy=_retry(step),
                # The plugin has ended before its room is given back.
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"{title}: {step.point} of {step.plugin}",
            )
            if answer.code != "wait":
                return answer
            message = f"it did not agree within {step.deadline:g} s: {answer.message}"
            await workflow.sleep(min(pause, left))
    except (FailureError, asyncio.CancelledError) as error:
        if not is_cancelled_exception(error):
            message = _why_failed(error, step)
    code: Literal["cancelled", "error"] = "error" if workflow.cancellation_reason() is None else "cancelled"
    return PluginAnswer(point=step.point, plugin=step.plugin, code=code, message=message)


def _pauses() -> Iterator[float]:
    """Seconds between two calls of a plugin that answered Wait, without end."""
    return chain((0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0), repeat(60.0))


def _retry(step: PluginStep) -> RetryPolicy:
    """When a call that raised, timed out or was lost with its worker is made again."""
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=500),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=30),
        maximum_attempts=step.attempts,
    )


def _why_failed(error: BaseException, step: PluginStep) -> str:
    """Why the calls of a step came to nothing, in words."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, TimeoutError):
        if isinstance(cause.cause, ApplicationError):  # the last failure, before the time was over
            return f"{cause.cause.message}; it did not agree within {step.deadline:g} s"
        if cause.type is TimeoutType.SCHEDULE_TO_CLOSE:
            return f"it did not agree within {step.deadline:g} s"
        return "the worker that called it is gone"
    return cause.message if isinstance(cause, ApplicationError) else str(cause)
