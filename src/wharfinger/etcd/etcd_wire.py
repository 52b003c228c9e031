"""Requests to etcd, and what the store needs of a protocol: answers taken apart. Pure, no I/O.

Requests have the field names of etcd's `rpc.proto` in both protocols: keys and values are bytes, numbers are numbers.
The JSON gateway's client encodes bytes as base64 (`etcd_json`); gRPC's makes messages of the fields (`etcd_grpc`). The
gateway ignores unknown fields without a word, so every field name stands here once.

Two modules are a `Wire`, which reads answers: `etcd_json_wire` for etcd's JSON gateway, `etcd_grpc_wire` for gRPC.
Answers are dictionaries in the one and messages in the other, so they are `Any` for all that stands between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from wharfinger.errors import UsageError
from wharfinger.etcd.store import Condition, Event, Get, KeyValue, Operation, Put, TxnResult, Unmoved, WatchBatch


class Method(Enum):
    """The calls of etcd's API that the store uses, by their paths at the JSON gateway.

    Those about users and roles are `programs.etcd_users`', which speaks JSON only.
    """

    RANGE = "/kv/range"
    TXN = "/kv/txn"
    WATCH = "/watch"
    GRANT = "/lease/grant"
    REVOKE = "/lease/revoke"
    KEEP_ALIVE = "/lease/keepalive"
    AUTHENTICATE = "/auth/authenticate"
    AUTH_STATUS = "/auth/status"
    AUTH_ENABLE = "/auth/enable"
    AUTH_DISABLE = "/auth/disable"
    USER_LIST = "/auth/user/list"
    USER_GET = "/auth/user/get"
    USER_ADD = "/auth/user/add"
    USER_DELETE = "/auth/user/delete"
    USER_PASSWORD = "/auth/user/changepw"  # noqa: S105 - no password
    USER_GRANT = "/auth/user/grant"
    USER_REVOKE = "/auth/user/revoke"
    ROLE_LIST = "/auth/role/list"
    ROLE_GET = "/auth/role/get"
    ROLE_ADD = "/auth/role/add"
    ROLE_DELETE = "/auth/role/delete"
    ROLE_GRANT = "/auth/role/grant"
    ROLE_REVOKE = "/auth/role/revoke"
    SNAPSHOT = "/maintenance/snapshot"
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


Request = dict[str, Any]

EQUAL, LESS = 0, 2
"""Of `Compare.result`."""
_TARGETS = {"mod": (2, "mod_revision"), "create": (1, "create_revision")}
"""Of `Compare.target`, with the field that is compared."""


def get(key: str, revision: int) -> Request:
    """Read one key, now (revision 0) or as it was."""
    return {"key": key_bytes(key), "revision": revision}


def page(start: bytes, end: bytes, revision: int, limit: int, *, keys_only: bool = False) -> Request:
    """Read at most `limit` keys of `[start, end)`."""
    return {"key": start, "range_end": end, "revision": revision, "limit": limit, "keys_only": keys_only}


def txn(compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation]) -> Request:
    """Compare, then run one of two lists of operations. Raises `UsageError` for an unknown target."""
    return {
        "compare": [_compare(compare) for compare in compares],
        "success": [_operation(operation) for operation in success],
        "failure": [_operation(operation) for operation in failure],
    }


def _compare(compare: Condition) -> Request:
    if isinstance(compare, Unmoved):
        prefix = key_bytes(compare.prefix)
        range_of_keys = {"key": prefix, "range_end": prefix_end(prefix)}
        return {**range_of_keys, "target": 2, "result": LESS, "mod_revision": compare.revision + 1}
    try:
        target, field = _TARGETS[compare.target]
    except KeyError:
        raise UsageError(f"a transaction compares mod or create, not {compare.target!r}") from None
    return {"key": key_bytes(compare.key), "target": target, "result": EQUAL, field: compare.revision}


def _operation(operation: Operation) -> Request:
    key = key_bytes(operation.key)
    if isinstance(operation, Put):
        return {"request_put": {"key": key, "value": operation.value, "lease": operation.lease}}
    return {"request_range" if isinstance(operation, Get) else "request_delete_range": {"key": key}}


def watch(prefix: bytes, start_revision: int, *, previous: bool) -> Request:
    """Watch a prefix from a revision on, with progress notices, large revisions in fragments."""
    return {
        "create_request": {
            "key": prefix or b"\0",
            "range_end": prefix_end(prefix),
            "start_revision": start_revision,
            "progress_notify": True,
            "fragment": True,
            "prev_kv": previous,
        }
    }
