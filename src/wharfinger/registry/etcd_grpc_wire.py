"""How etcd's gRPC API spells things: requests built, answers taken apart. Pure, no I/O.

This module is a `Wire` of `etcd_wire`; `etcd_grpc` sends what it spells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.registry.etcd_grpc_messages import CREATE, DELETE, EQUAL, LESS, MESSAGES, MOD
from wharfinger.registry.etcd_wire import Method, Notice, key_bytes, prefix_end
from wharfinger.registry.store import Condition, Event, Get, KeyValue, Operation, Put, TxnResult, Unmoved

_RangeRequest = MESSAGES["RangeRequest"]
_PutRequest = MESSAGES["PutRequest"]
_DeleteRangeRequest = MESSAGES["DeleteRangeRequest"]
_TxnRequest = MESSAGES["TxnRequest"]
_WatchRequest = MESSAGES["WatchRequest"]
_LEASE_REQUESTS = {
    Method.KEEP_ALIVE: MESSAGES["LeaseKeepAliveRequest"],
    Method.REVOKE: MESSAGES["LeaseRevokeRequest"],
}


def get_request(key: str, revision: int) -> Any:
    """Read one key, now (revision 0) or as it was."""
    return _RangeRequest(key=key_bytes(key), revision=revision)


def page_request(start: bytes, end: bytes, revision: int, limit: int, *, keys_only: bool = False) -> Any:
    """Read at most `limit` keys of `[start, end)`."""
    return _RangeRequest(key=start, range_end=end, revision=revision, limit=limit, keys_only=keys_only)


def put_request(key: str, value: bytes, lease: int) -> Any:
    """Write one key."""
    return _PutRequest(key=key_bytes(key), value=value, lease=lease)


def delete_request(key: str) -> Any:
    """Delete one key."""
    return _DeleteRangeRequest(key=key_bytes(key))


def txn_request(compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation]) -> Any:
    """Compare, then run one of two lists of operations."""
    request = _TxnRequest()
    for compare in compares:
        _add_compare(request.compare, compare)
    for operations, branch in ((success, request.success), (failure, request.failure)):
        for operation in operations:
            _add_operation(branch, operation)
    return request


def _add_compare(compares: Any, compare: Condition) -> None:
    if isinstance(compare, Unmoved):
        prefix = key_bytes(compare.prefix)
        compares.add(
            key=prefix, range_end=prefix_end(prefix), target=MOD, result=LESS, mod_revision=compare.revision + 1
        )
    elif compare.target == "mod":
        compares.add(key=key_bytes(compare.key), target=MOD, result=EQUAL, mod_revision=compare.revision)
    elif compare.target == "create":
        compares.add(key=key_bytes(compare.key), target=CREATE, result=EQUAL, create_revision=compare.revision)
    else:
        raise UsageError(f"a transaction compares mod or create, not {compare.target!r}")


def _add_operation(branch: Any, operation: Operation) -> None:
    key = key_bytes(operation.key)
    if isinstance(operation, Put):
        put = branch.add().request_put
        put.key = key
        put.value = operation.value
        put.lease = operation.lease
    elif isinstance(operation, Get):
        branch.add().request_range.key = key
    else:
        branch.add().request_delete_range.key = key


def watch_request(prefix: bytes, start_revision: int, *, previous: bool) -> Any:
    """Watch a prefix from a revision on, with progress notices, large revisions in fragments."""
    request = _WatchRequest()
    create = request.create_request
    create.key = prefix or b"\0"
    create.range_end = prefix_end(prefix)
    create.start_revision = start_revision
    create.progress_notify = create.fragment = True
    create.prev_kv = previous
    return request


def grant_request(ttl: int) -> Any:
    """Ask for a lease of so many seconds."""
    return MESSAGES["LeaseGrantRequest"](TTL=ttl)


def lease_request(method: Method, lease: int) -> Any:
    """Renew a lease, or give it back."""
    return _LEASE_REQUESTS[method](ID=lease)


def login_request(user: str, password: str) -> Any:
    """Ask for a token."""
    return MESSAGES["AuthenticateRequest"](name=user, password=password)


def header_revision(answer: Any) -> int:
    """The store's revision when it answered; 0 when the answer does not say."""
    revision: int = answer.header.revision
    return revision


def key_value(raw: Any) -> KeyValue:
    """One key as stored; of a deleted one only key and mod revision are there."""
    return KeyValue(
        raw.key.decode("utf-8", "surrogateescape"), raw.value, raw.create_revision, raw.mod_revision, raw.lease
    )


def range_result(answer: Any) -> tuple[tuple[KeyValue, ...], bool]:
    """The keys of an answer, and whether there are more."""
    return tuple(map(key_value, answer.kvs)), answer.more


def deleted(answer: Any) -> int:
    """How many keys a delete removed."""
    count: int = answer.deleted
    return count


def granted(answer: Any) -> tuple[int, float]:
    """A new lease's id and its time in seconds."""
    return answer.ID, float(answer.TTL)


def renewed(answer: Any) -> int:
    """Seconds that a renewed lease has; 0 when etcd has it no longer."""
    ttl: int = answer.TTL
    return ttl


def token(answer: Any) -> str:
    """What later calls carry."""
    text: str = answer.token
    return text


def txn_result(answer: Any, success: Sequence[Operation], failure: Sequence[Operation]) -> TxnResult:
    """The outcome of a transaction, with the answers of the `Get`s of the branch that ran."""
    succeeded: bool = answer.succeeded
    branch = success if succeeded else failure
    reads = tuple(
        _only(response.response_range)
        for operation, response in zip(branch, answer.responses, strict=True)
        if isinstance(operation, Get)
    )
    return TxnResult(succeeded, answer.header.revision, reads)


def _only(answer: Any) -> KeyValue | None:
    return key_value(answer.kvs[0]) if answer.kvs else None


def event(raw: Any) -> Event:
    """One change; a put unless the type says otherwise."""
    previous = key_value(raw.prev_kv) if raw.HasField("prev_kv") else None
    return Event(key_value(raw.kv), raw.type == DELETE, previous)


def notice(message: Any) -> Notice:
    """One message of a watch."""
    if message.canceled:
        return Notice(canceled=True, compact_revision=message.compact_revision, reason=message.cancel_reason)
    return Notice(message.header.revision, tuple(map(event, message.events)), message.fragment, message.created)
