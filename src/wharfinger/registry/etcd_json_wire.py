"""How etcd's JSON gateway spells things: requests built, answers taken apart. Pure, no I/O.

Keys and values travel as base64, 64-bit numbers as strings; zero, false and empty fields are left
out of answers, and unknown fields of requests are ignored without a word, so every field name stands
here once. This module is a `Wire` of `etcd_wire`; `etcd_json` sends what it spells.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.registry.etcd_wire import Method, Notice, key_bytes, prefix_end
from wharfinger.registry.store import Condition, Event, Get, KeyValue, Operation, Put, TxnResult, Unmoved

Body = dict[str, Any]

_COMPARED_FIELD = {"mod": ("MOD", "mod_revision"), "create": ("CREATE", "create_revision")}


def base64(raw: bytes) -> str:
    """Standard base64 without a line end."""
    return b2a_base64(raw, newline=False).decode("ascii")


def encoded_key(key: str) -> str:
    """A key as the gateway takes it."""
    return base64(key.encode("utf-8", "surrogateescape"))


def get_request(key: str, revision: int) -> Body:
    """Read one key, now (revision 0) or as it was."""
    request: Body = {"key": encoded_key(key)}
    if revision:
        request["revision"] = revision
    return request


def page_request(start: bytes, end: bytes, revision: int, limit: int, *, keys_only: bool = False) -> Body:
    """Read at most `limit` keys of `[start, end)`."""
    request: Body = {"key": base64(start), "range_end": base64(end), "limit": limit}
    if revision:
        request["revision"] = revision
    if keys_only:
        request["keys_only"] = True
    return request


def put_request(key: str, value: bytes, lease: int) -> Body:
    """Write one key."""
    request: Body = {"key": encoded_key(key), "value": base64(value)}
    if lease:
        request["lease"] = lease
    return request


def delete_request(key: str) -> Body:
    """Delete one key."""
    return {"key": encoded_key(key)}


def txn_request(compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation]) -> Body:
    """Compare, then run one of two lists of operations."""
    request: Body = {
        "compare": [_compare(compare) for compare in compares],
        "success": [_operation(operation) for operation in success],
    }
    if failure:
        request["failure"] = [_operation(operation) for operation in failure]
    return request


def _compare(compare: Condition) -> Body:
    if isinstance(compare, Unmoved):
        prefix = key_bytes(compare.prefix)
        range_of_keys = {"key": base64(prefix), "range_end": base64(prefix_end(prefix))}
        return {**range_of_keys, "target": "MOD", "result": "LESS", "mod_revision": compare.revision + 1}
    try:
        target, field = _COMPARED_FIELD[compare.target]
    except KeyError:
        raise UsageError(f"a transaction compares mod or create, not {compare.target!r}") from None
    return {"key": encoded_key(compare.key), "target": target, "result": "EQUAL", field: compare.revision}


def _operation(operation: Operation) -> Body:
    if isinstance(operation, Put):
        return {"request_put": put_request(operation.key, operation.value, operation.lease)}
    field = "request_range" if isinstance(operation, Get) else "request_delete_range"
    return {field: {"key": encoded_key(operation.key)}}


def grant_request(ttl: int) -> Body:
    """Ask for a lease of so many seconds."""
    return {"TTL": ttl}


def lease_request(method: Method, lease: int) -> Body:  # noqa: ARG001  # gRPC has a type for each method
    """Renew a lease, or give it back."""
    return {"ID": lease}


def login_request(user: str, password: str) -> Body:
    """Ask for a token."""
    return {"name": user, "password": password}


def watch_request(prefix: bytes, start_revision: int, *, previous: bool) -> Body:
    """Watch a prefix from a revision on, with progress notices, large revisions in fragments."""
    return {
        "create_request": {
            "key": base64(prefix),
            "range_end": base64(prefix_end(prefix)),
            "start_revision": start_revision,
            "progress_notify": True,
            "fragment": True,
            "prev_kv": previous,
        }
    }


def header_revision(answer: Mapping[str, Any]) -> int:
    """The store's revision when it answered; 0 when the answer does not say."""
    header = answer.get("header")
    return int(header.get("revision", 0)) if header else 0


def key_value(raw: Mapping[str, str]) -> KeyValue:
    """One key as stored; of a deleted one only key and mod revision are there."""
    return KeyValue(
        a2b_base64(raw["key"]).decode("utf-8", "surrogateescape"),
        a2b_base64(raw.get("value", "")),
        int(raw.get("create_revision", 0)),
        int(raw["mod_revision"]),
        int(raw.get("lease", 0)),
    )


def range_result(answer: Mapping[str, Any]) -> tuple[tuple[KeyValue, ...], bool]:
    """The keys of an answer, and whether there are more."""
    return tuple(map(key_value, answer.get("kvs", ()))), bool(answer.get("more"))


def deleted(answer: Mapping[str, Any]) -> int:
    """How many keys a delete removed."""
    return int(answer.get("deleted", 0))


def granted(answer: Mapping[str, Any]) -> tuple[int, float]:
    """A new lease's id and its time in seconds."""
    return int(answer["ID"]), float(answer["TTL"])


def renewed(answer: Mapping[str, Any]) -> int:
    """Seconds that a renewed lease has; 0 when etcd has it no longer."""
    return int(answer.get("result", {}).get("TTL", 0))


def token(answer: Mapping[str, Any]) -> str:
    """What later calls carry."""
    return str(answer["token"])


def txn_result(answer: Mapping[str, Any], success: Sequence[Operation], failure: Sequence[Operation]) -> TxnResult:
    """The outcome of a transaction, with the answers of the `Get`s of the branch that ran."""
    succeeded = bool(answer.get("succeeded"))
    branch = success if succeeded else failure
    responses = answer.get("responses", ())
    reads = tuple(
        _only(response.get("response_range", {}))
        for operation, response in zip(branch, responses, strict=True)
        if isinstance(operation, Get)
    )
    return TxnResult(succeeded, header_revision(answer), reads)


def _only(answer: Mapping[str, Any]) -> KeyValue | None:
    kvs = answer.get("kvs")
    return key_value(kvs[0]) if kvs else None


def event(raw: Mapping[str, Any]) -> Event:
    """One change; a put unless the type says otherwise."""
    previous = raw.get("prev_kv")
    return Event(
        key_value(raw["kv"]),
        raw.get("type") == "DELETE",
        key_value(previous) if previous else None,
    )


def notice(message: Mapping[str, Any]) -> Notice:
    """One message of a watch."""
    if message.get("canceled"):
        return Notice(
            canceled=True,
            compact_revision=int(message.get("compact_revision", 0)),
            reason=str(message.get("cancel_reason", "")),
        )
    return Notice(
        header_revision(message),
        tuple(map(event, message.get("events", ()))),
        bool(message.get("fragment")),
        bool(message.get("created")),
    )
