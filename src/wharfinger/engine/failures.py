"""What an activity fails with: every exception becomes one `ApplicationError` of a known type.

Outcomes are values and never come through here. Temporal retries `Unavailable`; a `SchedulerError` ends
the activity, and the attempt says so in the pod's record. `fleet_failures` has the types of a fleet's activities.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wharfinger.contracts.attempts import FailureType
from wharfinger.errors import PluginError, StoreError
from wharfinger.model.texts import one_line

log = logging.getLogger(__name__)

MESSAGE_LIMIT = 500
"""Characters of a failure's message; the traceback is in the worker's log."""


class Failures(NamedTuple):
    """How what some activities raise is told."""

    unavailable: str
    """Type of the store's errors; always tried again."""
    unexpected: str
    """Type of all others."""
    retried: bool
    """Whether those are tried again."""
    speaking: type[Exception]
    """Errors that say by themselves what is wrong; of others the text names the class."""


ATTEMPTS = Failures(FailureType.UNAVAILABLE, FailureType.SCHEDULER_ERROR, retried=False, speaking=PluginError)
"""A decision that failed is not tried again: the chain's own retry shows it and places afresh."""


@contextmanager
def mapped(failures: Failures = ATTEMPTS) -> Iterator[None]:
    """Raise what the block raises as an `ApplicationError`; cancellation passes.

    What it was caused by does not travel: chained failures are as long as those who raised them liked.
    """
    try:
        yield
    except ApplicationError:
        raise
    except StoreError as error:
        raise ApplicationError(one_line(str(error), MESSAGE_LIMIT), type=failures.unavailable) from None
    except Exception as error:
        speaks = isinstance(error, failures.speaking)
        text = one_line(str(error) if speaks else f"{type(error).__name__}: {error}", MESSAGE_LIMIT)
        traced = not (speaks and failures.retried)  # else the same lines again with every try
        log.warning("activity_failed error=%r", text, exc_info=error if traced else None)
        raise ApplicationError(text, type=failures.unexpected, non_retryable=not failures.retried) from None


def behind(seen: int, wanted: int) -> ApplicationError:
    """This worker's cache has not come far enough to decide."""
    return ApplicationError(
        f"this worker has seen etcd up to revision {seen}, and must have seen {wanted}",
        type=FailureType.BEHIND,
        category=ApplicationErrorCategory.BENIGN,
    )


def wrong_id(what: str, found: str, right: str) -> ApplicationError:
    """The run is not the pod's own, or the gang's; never retried."""
    return ApplicationError(
        f"attempts of {what} run under the workflow id {right!r}, not {found!r}: start one with that id",
        type=FailureType.WRONG_ID,
        non_retryable=True,
    )
