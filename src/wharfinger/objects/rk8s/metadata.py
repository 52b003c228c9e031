"""What pods and nodes of rk8s say of themselves, and how a document of another format is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s.fields import boolean, mapping, mappings, needed_text, one_of, text, text_map

METADATA = "metadata."
NAMESPACE = "default"
"""Of every pod: keys have no namespace, so two pods of one name are one pod whatever `metadata.namespace` says."""
_OWNERS = ("Pod", "Service", "Deployment", "ReplicaSet", "Endpoint", "Job", "Unknown")


def check_head(obj: object, kind: str, name: str) -> Mapping[str, Any]:
    """The document of that kind, which its key calls `name` (empty = not asked). Raises `InvalidObject`."""
    if not isinstance(obj, dict):
        raise InvalidObject("is no mapping")
    for field in ("apiVersion", "kind"):
        needed_text(obj, field)
    if obj["kind"] != kind:
        raise InvalidObject(f"kind is {obj['kind'][:40]!r}, not {kind!r}")
    for field in ("metadata", "spec"):
        if obj.get(field) is None:
            raise InvalidObject(f"{field} is missing")
    found = text(mapping(obj, "metadata"), "name", METADATA) or ""
    if name and found != name:
        raise InvalidObject(f"metadata.name is {found[:300]!r}, in its key {name[:300]!r}")
    return obj


def metadata(given: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    """`metadata` as Kubernetes has it, as far as scheduling reads it; no uid: the create revision of the key tells pods
    of one name apart, and a document without a uid gets another one whenever rk8s reads it.
    """
    found: dict[str, Any] = {
        "name": needed_text(given, "name", METADATA),
        "labels": text_map(given, "labels", METADATA),
        "annotations": text_map(given, "annotations", METADATA),
    }
    if namespace:
        found["namespace"] = namespace
    for field in ("creationTimestamp", "deletionTimestamp"):
        value = text(given, field, METADATA)
        if value:
            found[field] = value
    owners = [_owner(entry, where) for where, entry in mappings(given, "ownerReferences", METADATA)]
    if owners:
        found["ownerReferences"] = owners
    return found


def _owner(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {
        "kind": one_of(entry, "kind", where, _OWNERS),
        "name": needed_text(entry, "name", where),
        "controller": boolean(entry, "controller", where),
    }


def refuse_foreign(obj: Mapping[str, Any], theirs: Mapping[str, str], where: str) -> None:
    """Raise `InvalidObject` for a mapping with a field of Kubernetes' spelling; `theirs`: such fields, and rk8s'.

    rk8s ignores them, so the pod would be placed as if it had not asked. An empty text: rk8s has no such field.
    """
    for field, own in theirs.items():
        if field in obj:
            instead = f"it has {own} instead" if own else "it has no such field"
            raise InvalidObject(f"{where}{field} is Kubernetes', and this cluster's objects are rk8s': {instead}")
