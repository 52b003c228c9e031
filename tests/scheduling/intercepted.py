"""Calls of activities through the interceptor that maps their errors, without a Temporal server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from wharfinger.process.failures import ActivityFailures, Failures
from wharfinger.scheduling.effects.failures import PODS_AND_NODES

A = TypeVar("A")


class Door(ActivityInboundInterceptor):
    """The end of the chain of interceptors, as the SDK has it."""

    def __init__(self) -> None:
        """It is the last one."""

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return await input.fn(*input.args)


async def execute(fn: Callable[..., Any], *args: Any, failures: Failures = PODS_AND_NODES) -> Any:
    """Call `fn` as a Temporal worker with the interceptor does."""
    chain = ActivityFailures(failures).intercept_activity(Door())
    return await chain.execute_activity(ExecuteActivityInput(fn=fn, args=args, executor=None, headers={}))


class Intercepted:
    """The activities of one object; each call goes through the interceptor."""

    def __init__(self, activities: Any, failures: Failures) -> None:
        self._activities = activities
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._activities, name)
        if not hasattr(value, "__temporal_activity_definition"):
            return value

        async def call(*args: Any) -> Any:
            return await execute(value, *args, failures=self._failures)

        return call


def intercepted(activities: A, failures: Failures = PODS_AND_NODES) -> A:
    """`activities`, called as a Temporal worker with the interceptor calls them."""
    return cast("A", Intercepted(activities, failures))
