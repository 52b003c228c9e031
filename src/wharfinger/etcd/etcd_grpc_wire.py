"""How etcd's gRPC API spells answers. Pure, no I/O. This module is a `Wire` of `etcd_wire`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wharfinger.etcd.etcd_grpc_messages import DELETE
from wharfinger.etcd.etcd_wire import Notice
from wharfinger.etcd.store import Event, Get, KeyValue, Operation, TxnResult


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
