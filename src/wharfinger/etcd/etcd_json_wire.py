"""How etcd's JSON gateway spells things: requests encoded, answers taken apart. Pure, no I/O.

Keys and values travel as base64, 64-bit numbers as strings; zero, false and empty fields are left
out of answers. This module is a `Wire` of `etcd_wire`; `etcd_json` sends what it encodes.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from wharfinger.etcd.etcd_wire import Notice
from wharfinger.etcd.store import Event, Get, KeyValue, Operation, TxnResult

Body = dict[str, Any]


def base64(raw: bytes) -> str:
    """Standard base64 without a line end."""
    return b2a_base64(raw, newline=False).decode("ascii")


def encoded(request: Body) -> bytes:
    """A request as the gateway takes it."""
    raw: bytes = orjson.dumps(request, default=base64)
    return raw


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
