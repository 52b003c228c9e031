"""etcd's gRPC API: the messages and fields that the store uses, and how its answers are read. Pure, no I/O.

Messages are declared here by name, number and type, as in etcd's `rpc.proto` and `kv.proto`, and not generated:
code that `protoc` generates holds only for some releases of protobuf's runtime, and messages in protobuf's
common pool clash with those of other packages. What a server sends beyond these fields is kept unread. This module is a
`Wire` of `etcd_wire`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from wharfinger.etcd.etcd_wire import Notice
from wharfinger.etcd.store import Event, Get, KeyValue, Operation, TxnResult

_PACKAGE = "etcdserverpb"
_SCALARS = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "enum": FieldDescriptorProto.TYPE_INT32,  # an open enumeration has the same bytes
    "int64": FieldDescriptorProto.TYPE_INT64,
    "string": FieldDescriptorProto.TYPE_STRING,
}

PUT, DELETE = 0, 1
"""Of `Event.type`."""

_MESSAGES: Mapping[str, str] = {
    "ResponseHeader": "revision=3 int64",
    "KeyValue": "key=1 bytes, create_revision=2 int64, mod_revision=3 int64, value=5 bytes, lease=6 int64",
    "Event": "type=1 enum, kv=2 KeyValue, prev_kv=3 KeyValue",
    "RangeRequest": "key=1 bytes, range_end=2 bytes, limit=3 int64, revision=4 int64, keys_only=8 bool",
    "RangeResponse": "header=1 ResponseHeader, kvs=2 KeyValue*, more=3 bool",
    "PutRequest": "key=1 bytes, value=2 bytes, lease=3 int64",
    "PutResponse": "header=1 ResponseHeader",
    "DeleteRangeRequest": "key=1 bytes",
    "DeleteRangeResponse": "header=1 ResponseHeader, deleted=2 int64",
    "RequestOp": (
        "request_range=1 RangeRequest|, request_put=2 PutRequest|, request_delete_range=3 DeleteRangeRequest|"
    ),
    "ResponseOp": (
        "response_range=1 RangeResponse|, response_put=2 PutResponse|, response_delete_range=3 DeleteRangeResponse|"
    ),
    "Compare": (
        "result=1 enum, target=2 enum, key=3 bytes, create_revision=5 int64|, mod_revision=6 int64|, range_end=64 bytes"
    ),
    "TxnRequest": "compare=1 Compare*, success=2 RequestOp*, failure=3 RequestOp*",
    "TxnResponse": "header=1 ResponseHeader, succeeded=2 bool, responses=3 ResponseOp*",
    "WatchCreateRequest": (
        "key=1 bytes, range_end=2 bytes, start_revision=3 int64, progress_notify=4 bool, prev_kv=6 bool, "
        "fragment=8 bool"
    ),
    "WatchRequest": "create_request=1 WatchCreateRequest|",
    "WatchResponse": (
        "header=1 ResponseHeader, watch_id=2 int64, created=3 bool, canceled=4 bool, compact_revision=5 int64, "
        "cancel_reason=6 string, fragment=7 bool, events=11 Event*"
    ),
    "LeaseGrantRequest": "TTL=1 int64",
    "LeaseGrantResponse": "header=1 ResponseHeader, ID=2 int64, TTL=3 int64",
    "LeaseRevokeRequest": "ID=1 int64",
    "LeaseRevokeResponse": "header=1 ResponseHeader",
    "LeaseKeepAliveRequest": "ID=1 int64",
    "LeaseKeepAliveResponse": "header=1 ResponseHeader, ID=2 int64, TTL=3 int64",
    "AuthenticateRequest": "name=1 string, password=2 string",
    "AuthenticateResponse": "header=1 ResponseHeader, token=2 string",
}
"""Name -> fields: `*` repeated, `|` one of those of the message that are marked so."""


def _declared(name: str, fields: str) -> DescriptorProto:
    message = DescriptorProto(name=name)
    for part in fields.split(", "):
        label, kind = part.split()
        field, number = label.split("=")
        made = message.field.add(name=field, number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL)
        if kind.endswith("*"):
            made.label = FieldDescriptorProto.LABEL_REPEATED
        elif kind.endswith("|"):
            if not message.oneof_decl:
                message.oneof_decl.add(name="one")
            made.oneof_index = 0
        kind = kind.rstrip("*|")
        if kind in _SCALARS:
            made.type = _SCALARS[kind]
        else:
            made.type = FieldDescriptorProto.TYPE_MESSAGE
            made.type_name = f".{_PACKAGE}.{kind}"
    return message


def _classes() -> Mapping[str, Any]:
    file = FileDescriptorProto(name="wharfinger/etcd.proto", package=_PACKAGE, syntax="proto3")
    file.message_type.extend(_declared(name, fields) for name, fields in _MESSAGES.items())
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


MESSAGES = _classes()
"""Name -> class."""


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
