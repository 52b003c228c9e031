"""Messages of etcd's gRPC API: those that the store uses, with the fields that it uses.

They are declared here by name, number and type, as in etcd's `rpc.proto` and `kv.proto`, and not generated:
code that `protoc` generates holds only for some releases of protobuf's runtime, and messages in protobuf's
common pool clash with those of other packages. What a server sends beyond these fields is kept unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

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
