"""What etcd's refusals mean. Their words are the same in both protocols; etcd3-py lists them as classes."""

from __future__ import annotations

from collections.abc import Callable

from etcd3 import errors as refusals

from wharfinger.errors import (
    AccessDenied,
    Compacted,
    LeaseLost,
    RequestTooLarge,
    RevisionFuture,
    StoreError,
    Unavailable,
    UsageError,
)
from wharfinger.etcd.etcd_gateway import NotSent, TokenRefused, Unanswered

_MEANINGS: tuple[tuple[tuple[type[Exception], ...], Callable[[str], Exception]], ...] = (
    ((refusals.ErrCompacted,), Compacted),
    ((refusals.ErrFutureRev,), RevisionFuture),
    ((refusals.ErrLeaseNotFound,), LeaseLost),
    ((refusals.ErrInvalidAuthToken, refusals.ErrUserEmpty), TokenRefused),
    ((refusals.ErrAuthFailed, refusals.ErrPermissionDenied, refusals.ErrAuthNotEnabled), AccessDenied),
    ((refusals.ErrRequestTooLarge, refusals.ErrTooManyOps), RequestTooLarge),
    ((refusals.ErrDuplicateKey, refusals.ErrEmptyKey), UsageError),
    ((refusals.ErrTooManyRequests,), NotSent),  # refused before it is proposed
    ((refusals.ErrNoSpace,), Unavailable),
)
_UNDECIDED_CODES = frozenset({1, 2, 4, 10, 13, 14})
"""gRPC: cancelled, unknown, deadline exceeded, aborted, internal, unavailable."""


def refusal(message: str, code: int) -> Exception:
    """A refusal by etcd in the words of `wharfinger.errors`, or one of the classes of `etcd_gateway`.

    `code` is gRPC's. Some refusals come wrapped by gRPC's own words.
    """
    told = message.rpartition("desc = ")[2]
    code = code if 0 <= code <= 16 else 2
    error = refusals.get_client_error(told, code, 200)
    words = told.removeprefix("etcdserver: ").removeprefix("mvcc: ")
    for classes, meaning in _MEANINGS:
        if isinstance(error, classes):
            return meaning(f"etcd refuses: {words}")
    if "revision of auth store is old" in words:
        return TokenRefused(words)
    if code == 8 and "larger than max" in words:
        return RequestTooLarge(f"etcd refuses: {words}")
    if code in _UNDECIDED_CODES:
        return Unanswered(words)
    return AccessDenied(f"etcd refuses: {words}") if code in {7, 16} else StoreError(f"etcd refuses: {words}")
