"""What the store needs of a protocol of etcd's: answers taken apart. Pure, no I/O.

Two modules are a `Wire`: `etcd_json_wire` for etcd's JSON gateway, `etcd_grpc_wire` for gRPC. Answers are dictionaries
in the one and messages in the other, so they are `Any` for all that stands between. Requests are `etcd_requests`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from wharfinger.etcd.store import Event, KeyValue, Operation, TxnResult, WatchBatch


class Method(Enum):
    """The calls of etcd's API that the store uses, and those of `etcd_users`, which speaks JSON only."""

    RANGE = "range"
    PUT = "put"
    DELETE = "delete"
    TXN = "txn"
    WATCH = "watch"
    GRANT = "grant"
    REVOKE = "revoke"
    KEEP_ALIVE = "keep alive"
    AUTHENTICATE = "authenticate"
    AUTH_STATUS = "authentication status"
    AUTH_ENABLE = "enable authentication"
    AUTH_DISABLE = "disable authentication"
    USER_LIST = "list users"
    USER_GET = "get user"
    USER_ADD = "add user"
    USER_DELETE = "delete user"
    USER_PASSWORD = "change password"  # noqa: S105 - no password
    USER_GRANT = "grant role to user"
    USER_REVOKE = "revoke role of user"
    ROLE_LIST = "list roles"
    ROLE_GET = "get role"
    ROLE_ADD = "add role"
    ROLE_DELETE = "delete role"
    ROLE_GRANT = "grant permission to role"
    ROLE_REVOKE = "revoke permission of role"
    SNAPSHOT = "snapshot"
    """By the JSON gateway alone."""


class Notice(NamedTuple):
    """One message of a watch."""

    revision: int = 0
    """The store's newest revision, not the events'."""
    events: tuple[Event, ...] = ()
    fragment: bool = False
    """More events of the same message follow in the next one."""
    created: bool = False
    canceled: bool = False
    """Set together with `created` when etcd refuses the watch."""
    compact_revision: int = 0
    reason: str = ""
    """Why it was cancelled; may be empty."""


class Wire(Protocol):
    """How a protocol spells answers."""

    def header_revision(self, answer: Any) -> int:
        """The store's revision when it answered; 0 when the answer does not say."""

    def range_result(self, answer: Any) -> tuple[tuple[KeyValue, ...], bool]:
        """The keys of an answer, and whether there are more."""

    def deleted(self, answer: Any) -> int:
        """How many keys a delete removed."""

    def txn_result(self, answer: Any, success: Sequence[Operation], failure: Sequence[Operation]) -> TxnResult:
        """The outcome of a transaction, with the answers of the `Get`s of the branch that ran."""

    def granted(self, answer: Any) -> tuple[int, float]:
        """A new lease's id and its time in seconds."""

    def renewed(self, answer: Any) -> int:
        """Seconds that a renewed lease has; 0 when etcd has it no longer."""

    def token(self, answer: Any) -> str:
        """What later calls carry."""

    def notice(self, message: Any) -> Notice:
        """One message of a watch."""


def key_bytes(key: str) -> bytes:
    """A key as etcd stores it; surrogates become the bytes they stand for."""
    return key.encode("utf-8", "surrogateescape")


def prefix_end(prefix: bytes) -> bytes:
    """The first key behind all keys with the prefix; one zero byte means "to the very end"."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else b"\0"


def batches(events: Iterable[Event]) -> Iterator[WatchBatch]:
    """Events in revision order, cut into one batch a revision."""
    for revision, same in groupby(events, key=lambda event: event.kv.mod_revision):
        yield WatchBatch(revision, tuple(same))
