"""What an activity fails with: every exception becomes one `ApplicationError` of a known type.

Outcomes are values and never come through here. Temporal retries `Unavailable`; a `SchedulerError` ends
the activity, and the attempt says so in the pod's record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wharfinger.contracts.scheduling import FailureType
from wharfinger.errors import PluginError, StoreError

log = logging.getLogger(__name__)

MESSAGE_LIMIT = 500
"""Characters of a failure's message; the traceback is in the worker's log."""


@contextmanager
def mapped() -> Iterator[None]:
    """Raise what the block raises as an `ApplicationError`; cancellation passes.

    What it was caused by does not travel: chained failures are as long as those who raised them liked.
    """
    try:
        yield
    except ApplicationError:
        raise
    except StoreError as error:
        raise ApplicationError(one_line(str(error)), type=FailureType.UNAVAILABLE) from None
    except Exception as error:
        text = one_line(str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}")
        log.warning("activity failed error=%r", text, exc_info=error)
        raise ApplicationError(text, type=FailureType.SCHEDULER_ERROR, non_retryable=True) from None


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


def one_line(text: str) -> str:
    """Text without line breaks, cut where it is too long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= MESSAGE_LIMIT else flat[: MESSAGE_LIMIT - 1] + "…"
