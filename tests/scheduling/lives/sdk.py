"""In the place of Temporal's SDK: the real workflows run as coroutines of the life's own loop.

What a workflow asks of `temporalio.workflow` comes here, and goes to the run whose code asks. A workflow's code is
deterministic (`tests/replay`), so a coroutine that goes on is what a worker would have by replaying the history.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from datetime import timedelta
from random import Random
from types import SimpleNamespace
from typing import Any, Protocol

from temporalio.common import RetryPolicy, TypedSearchAttributes
from temporalio.workflow._context import _Runtime

RUN: contextvars.ContextVar[RunningWorkflow] = contextvars.ContextVar("run")
"""The run whose code runs."""
NO_ATTRIBUTES = TypedSearchAttributes([])


class Carrier(Protocol):
    """Carries out the activities of runs."""

    async def local(self, run: RunningWorkflow, name: str, request: Any, timeout: float) -> Any:
        """The outcome of a local activity."""

    async def remote(
        self, run: RunningWorkflow, name: str, request: Any, timeout: float, deadline: float, retry: RetryPolicy
    ) -> Any:
        """The outcome of an ordinary activity."""


class RunningWorkflow:
    """One run: what its workflow is shown of itself, and the conditions that it waits for."""

    def __init__(
        self,
        carrier: Carrier,
        workflow: Any,
        *,
        workflow_id: str,
        run_id: str,
        attempt: int,
        retry: RetryPolicy,
        last_failure: BaseException | None,
        rng: Random,
    ) -> None:
        self.carrier = carrier
        self.workflow = workflow
        self.info = SimpleNamespace(
            workflow_id=workflow_id,
            run_id=run_id,
            attempt=attempt,
            retry_policy=retry,
            typed_search_attributes=NO_ATTRIBUTES,
        )
        self.last_failure = last_failure
        self.rng = rng
        self._conditions: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def execute(self, request: Any) -> Any:
        """Run the workflow to its end; raises what fails it."""
        RUN.set(self)
        return await self.workflow.run(request)

    def signal(self, name: str, argument: Any) -> None:
        """Deliver a signal."""
        getattr(self.workflow, name)(argument)
        self.look()

    def look(self) -> None:
        """Something happened: end the waits whose condition holds now."""
        for condition, met in self._conditions:
            if not met.done() and condition():
                met.set_result(None)
        self._conditions = [one for one in self._conditions if not one[1].done()]

    async def until(self, condition: Callable[[], bool], timeout: float | None) -> None:
        """Wait until it holds. Raises `TimeoutError`."""
        if condition():
            return
        met: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._conditions.append((condition, met))
        async with asyncio.timeout(timeout):
            await met


class Runtime:
    """What `temporalio.workflow`'s functions find on the loop, by the names that they use; nothing more is used."""

    @classmethod
    def install(cls, loop: asyncio.AbstractEventLoop) -> None:
        """Let workflows run on this loop."""
        _Runtime.set_on_loop(loop, cls())  # type: ignore[arg-type]

    def workflow_info(self) -> Any:
        return RUN.get().info

    def workflow_random(self) -> Random:
        return RUN.get().rng

    def workflow_time_ns(self) -> int:
        return int(asyncio.get_running_loop().time() * 1e9)

    def workflow_last_failure(self) -> BaseException | None:
        return RUN.get().last_failure

    def workflow_cancellation_reason(self) -> str | None:
        return None

    def workflow_upsert_search_attributes(self, attributes: Any, **_: Any) -> None:
        """Nothing reads them here."""

    def workflow_set_current_details(self, details: str) -> None:
        """Nor these."""

    def workflow_patch(self, id: str, *, deprecated: bool) -> bool:
        return True

    def workflow_start_local_activity(
        self, activity: Any, request: Any, *, start_to_close_timeout: timedelta, **_: Any
    ) -> asyncio.Task[Any]:
        run = RUN.get()
        return _task(run.carrier.local(run, activity_name(activity), request, start_to_close_timeout.total_seconds()))

    def workflow_start_activity(
        self,
        activity: Any,
        request: Any,
        *,
        start_to_close_timeout: timedelta,
        schedule_to_close_timeout: timedelta | None,
        retry_policy: RetryPolicy,
        **_: Any,
    ) -> asyncio.Task[Any]:
        run, deadline = RUN.get(), float("inf")
        if schedule_to_close_timeout is not None:
            deadline = asyncio.get_running_loop().time() + schedule_to_close_timeout.total_seconds()
        timeout = start_to_close_timeout.total_seconds()
        return _task(run.carrier.remote(run, activity_name(activity), request, timeout, deadline, retry_policy))

    async def workflow_sleep(self, duration: float, **_: Any) -> None:
        run = RUN.get()
        await asyncio.sleep(duration)
        asyncio.get_running_loop().call_soon(run.look)  # when whoever slept has gone on

    async def workflow_wait_condition(self, fn: Callable[[], bool], *, timeout: float | None = None, **_: Any) -> None:
        await RUN.get().until(fn, timeout)


def _task(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(work)


def activity_name(activity: Any) -> str:
    """The name under which an activity is registered."""
    name: str = activity.__temporal_activity_definition.name
    return name
