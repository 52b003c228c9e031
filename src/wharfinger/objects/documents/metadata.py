"""What every object says of itself: kind, name, namespace, uid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import mapping, text
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION, UID_LIMIT, is_dns_label, is_dns_subdomain

METADATA = "metadata."
OF_THE_API = ("uid", "resourceVersion", "creationTimestamp")
"""Metadata that only an API server gives."""
ATTEMPT_LIMIT = 400
"""Characters of the annotation that names what bound a pod: a workflow id has 255 at most, a run id 36."""


def check_kind(obj: Mapping[str, Any], kind: str, api_version: str = "v1") -> None:
    """Refuse an object of another kind or version; stored objects may leave both out."""
    found = text(obj, "kind")
    if found not in ("", kind):
        raise InvalidObject(f"kind is {found[:40]!r}, not {kind!r}")
    version = text(obj, "apiVersion")
    if version not in ("", api_version):
        raise InvalidObject(f"apiVersion is {version[:40]!r}, not {api_version!r}")


def checked_object(obj: object) -> Mapping[str, Any]:
    """The mapping that every object is; refuses anything else."""
    if obj.__class__ is dict or isinstance(obj, Mapping):
        return cast("Mapping[str, Any]", obj)
    shape = {type(None): "null", bool: "a truth value", str: "a text", int: "a number", float: "a number"}
    raise InvalidObject(f"is {shape.get(type(obj), 'a list')}, not an object")


def check_key(obj: object, *, namespace: str, name: str) -> None:
    """Refuse an object whose name or namespace differs from its key's (empty = not asked)."""
    metadata = mapping(checked_object(obj), "metadata")
    found = text(metadata, "name", METADATA)
    if name and found != name:
        raise InvalidObject(f"metadata.name is {found[:300]!r}, in its key {name[:300]!r}")
    found = text(metadata, "namespace", METADATA)
    if namespace and found not in ("", namespace):
        raise InvalidObject(f"metadata.namespace is {found[:300]!r}, in its key {namespace[:300]!r}")


def object_name(metadata: Mapping[str, Any]) -> str:
    """`metadata.name`, a DNS subdomain."""
    name = text(metadata, "name", METADATA)
    if not name:
        raise InvalidObject("metadata.name is missing")
    if not is_dns_subdomain(name):
        raise InvalidObject(f"metadata.name {name[:80]!r} is no DNS subdomain")
    return name


def object_namespace(metadata: Mapping[str, Any], default: str) -> str:
    """`metadata.namespace`, a DNS label; `default` when absent."""
    namespace = text(metadata, "namespace", METADATA) or default
    if not is_dns_label(namespace):
        raise InvalidObject(f"metadata.namespace {namespace[:80]!r} is no DNS label")
    return namespace


def object_uid(metadata: Mapping[str, Any]) -> str:
    """`metadata.uid`, which becomes part of a workflow id; empty when absent."""
    uid = text(metadata, "uid", METADATA)
    if len(uid) > UID_LIMIT:
        raise InvalidObject(f"metadata.uid is longer than {UID_LIMIT} characters")
    if uid and not (uid.isascii() and uid.isprintable() and " " not in uid):
        raise InvalidObject("metadata.uid holds other characters than printable ASCII without blanks")
    return uid


def attempt_of(obj: object) -> str:
    """`<workflow id>@<run id>` of what bound a stored pod; empty for a pod, or an object, without that annotation."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    found = annotations.get(ATTEMPT_ANNOTATION) if isinstance(annotations, Mapping) else None
    return found if isinstance(found, str) and len(found) <= ATTEMPT_LIMIT else ""


def condition_met(obj: object, kind: str) -> Mapping[str, Any]:
    """The condition of that type in `status.conditions`, where its status is True; empty for none."""
    status = obj.get("status") if isinstance(obj, Mapping) else None
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for one in conditions if isinstance(conditions, list) else ():
        if isinstance(one, Mapping) and (one.get("type"), one.get("status")) == (kind, "True"):
            return one
    return {}
