"""What sends requests to etcd, the ways in which a try can fail, and what etcd's refusals mean.

Between the two protocols (`etcd_json`, `etcd_grpc`) and the rules of trying again
(`etcd_connection`, `etcd_watch`)::

    NotSent              nothing reached etcd: next endpoint, whatever the call
    └── Dropped          ... and the connection broke while we wrote
    TooMuch              it has, and its answer is larger than what is read of one
    Unanswered           it may have: next endpoint for what can be repeated, else "perhaps applied"
    TokenRefused         nothing was done: ask for a new token, then again
    CertificateRefused   the two sides do not trust each other: next endpoint, in the end denied

The words of refusals are the same in both protocols; etcd3-py lists them as classes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

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
from wharfinger.etcd.etcd_wire import Method, Wire

LARGEST_ANSWER = 64 * 2**20
"""Bytes of one answer, or of one message of a stream, as they come; nothing compressed is accepted. A page of a list
has about 16 MiB of values; a list whose answer is larger is read in smaller pages."""


class NotSent(Exception):
    """Nothing reached etcd."""


class Dropped(NotSent):
    """The connection was gone before the request was complete."""


class Unanswered(Exception):
    """The request went out and no usable answer came back."""


class TooMuch(Exception):
    """etcd has answered, with more than is read."""

    def __init__(self) -> None:
        super().__init__(f"its answer has more than {LARGEST_ANSWER >> 20} MiB")


class TokenRefused(Exception):
    """etcd wants a token, or another one than we sent; it did nothing."""


class CertificateRefused(Exception):
    """Our side refuses etcd's certificate, or etcd ours; it did nothing."""


class Stream(Protocol):
    """An answer that goes on."""

    def messages(self) -> AsyncGenerator[Any, None]:
        """What comes, decoded; ends with the stream. Raises the classes above and what a refusal means."""

    def break_off(self) -> None:
        """Have the reader of `messages` raise `Unanswered` at once."""

    def close(self) -> None:
        """Give the stream up. Idempotent."""


class Gateway(Protocol):
    """What sends requests to one endpoint at a time, in one protocol."""

    endpoint: str
    """Where the next call goes to."""
    token: str | None

    @property
    def wire(self) -> Wire:
        """How requests for it are made and its answers are read."""

    async def exchange(self, method: Method, request: Any, seconds: float) -> Any:
        """One call, one answer, within so many seconds; raises the classes above, or a `StoreError`."""

    async def open_stream(self, method: Method, request: Any, idle: float) -> Stream:
        """One call whose answer goes on. It ends when its member loses the leader, or is silent for `idle` seconds."""

    async def close(self) -> None:
        """Close all connections."""


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
    """A refusal by etcd in the words of `wharfinger.errors`, or one of the classes above.

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
