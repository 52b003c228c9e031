"""Requests to etcd, with the field names of its `rpc.proto`: the same in both protocols. Pure, no I/O.

Keys and values are bytes, numbers are numbers. The JSON gateway's client encodes bytes as base64 (`etcd_json`); gRPC's
makes messages of the fields (`etcd_grpc`). The gateway ignores unknown fields without a word, so every field name
stands here once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.etcd.etcd_wire import key_bytes, prefix_end
from wharfinger.etcd.store import Condition, Get, Operation, Put, Unmoved

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


def put(key: str, value: bytes, lease: int) -> Request:
    """Write one key."""
    return {"key": key_bytes(key), "value": value, "lease": lease}


def delete(key: str) -> Request:
    """Delete one key."""
    return {"key": key_bytes(key)}


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
    if isinstance(operation, Put):
        return {"request_put": put(operation.key, operation.value, operation.lease)}
    field = "request_range" if isinstance(operation, Get) else "request_delete_range"
    return {field: delete(operation.key)}


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
