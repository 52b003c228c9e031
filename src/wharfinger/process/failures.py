"""What activities and runs fail with: an interceptor maps every exception to one `ApplicationError` of a known type.

Outcomes are values and do not come through here. Temporal retries `Unavailable`. A `SchedulerError` ends the activity
and its attempt; the attempt of a lone pod records it first. An unexpected error of a fleet's activity is retried as
`FleetError`, because a fleet's workflow outlives the trouble of its activities.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from wharfinger.errors import RequestTooLarge, StoreError, UpstreamError
from wharfinger.objects.model.texts import one_line
from wharfinger.process.contract import Contract
from wharfinger.process.names import FailureType

log = logging.getLogger(__name__)

T = TypeVar("T")

MESSAGE_LIMIT = 500
"""Characters of a failure's message; the traceback is in the worker's log."""


class Failures(NamedTuple):
    """How the exceptions of one worker's activities become failures."""

    unavailable: str
    """Type of the store's errors, and of the Kubernetes API's; always retried."""
    unexpected: str
    """Type of all others."""
    retried: bool
    """Whether unexpected errors are retried."""
    speaking: type[Exception]
    """Errors whose text explains the failure; the message of any other error begins with its class."""


class ActivityFailures(Interceptor):
    """Maps what the activities of one Temporal worker raise; cancellation and `ApplicationError` pass."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap each execution, of local activities too."""
        return _Mapped(next, self._failures)


class _Mapped(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, failures: Failures) -> None:
        super().__init__(next)
        self._failures = failures

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await self.next.execute_activity(input)
        except ApplicationError:
            raise
        except Exception as error:  # whatever leaves an activity becomes a failure of bounded size
            # A chained cause does not travel: nothing bounds its length.
            raise _failure(error, self._failures) from None


def _failure(error: Exception, failures: Failures) -> ApplicationError:
    unavailable = isinstance(error, StoreError | UpstreamError)
    if unavailable and not isinstance(error, RequestTooLarge):  # that does not become smaller
        return ApplicationError(one_line(str(error), MESSAGE_LIMIT), type=failures.unavailable)
    speaks = isinstance(error, failures.speaking)
    text = one_line(str(error) if speaks else f"{type(error).__name__}: {error}", MESSAGE_LIMIT)
    if speaks and failures.retried:  # each retry would log the same traceback again
        log.warning("activity_failed error=%r", text)
    else:
        log.warning("activity_failed", exc_info=error)
    return ApplicationError(text, type=failures.unexpected, non_retryable=not failures.retried)


async def gather_to_end(several: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Their results, once all have ended, cancelled or not: no locks are released over what still runs.

    Raises the first error, in their order.
    """
    answers = await asyncio.gather(*several, return_exceptions=True)
    results: list[T] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        results.append(answer)
    return results


C = TypeVar("C", bound=Contract)
PROBLEM_LIMIT = 1024
"""Characters of the problems in the message."""


def parsed(kind: type[C], request: Any, wanted: str) -> C:
    """The workflow's input, from any client; an invalid one fails the run for good, with a one-line reason."""
    try:
        return kind.model_validate(request)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'input'}: {one['msg']}" for one in error.errors())
        raise ApplicationError(
            f"the input must be {wanted} ({problems[:PROBLEM_LIMIT]})",
            type=FailureType.INVALID_INPUT,
            non_retryable=True,
        ) from None


def has_chain_policy(policy: RetryPolicy | None) -> bool:
    """Whether failures of this run lead to the next attempt for ever, as those of `attempts.chain_retry` do."""
    return (
        policy is not None
        and policy.maximum_attempts == 0
        and FailureType.WRONG_ID in (policy.non_retryable_error_types or ())
    )
