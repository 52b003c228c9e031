"""What `apply` writes of a document of rk8s: as it was given where there is none, else laid over the stored one.

Labels, annotations and spec are the manifest's. What others wrote stays: uid, times, owners and finalizers, the node
and the status of a pod; a node's status changes only where its manifest has allocatable. Two documents are the same
when rk8s reads the same from them: null, an empty list and a default mean what an absent field means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.manifests import decode
from wharfinger.manifests.rk8s.edit import NODE_NAME
from wharfinger.manifests.rk8s.fields import mapping, text
from wharfinger.manifests.rk8s.given import GivenDocument, kubernetes_object
from wharfinger.manifests.rk8s.tree import Tagged, decoded, parse
from wharfinger.manifests.rk8s.writing import to_text, with_metadata

_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "generation")
_KEPT_UNLESS_GIVEN = ("ownerReferences", "finalizers")
_MAPS = frozenset(("labels", "annotations", "matchLabels"))
"""Mappings whose keys are users': there, an empty text is a value."""
_DEFAULTS = {
    "protocol": "TCP",
    "hostPort": "0",
    "tty": "false",
    "restart_policy": "Never",
    "phase": "Pending",
    "namespace": "default",
    "generation": "0",
    "same_value": "false",
}
_EQUAL = "Equal"
"""The operator of a toleration that names none; expressions have no such operator."""


def written_over(stored: bytes | None, given: GivenDocument, *, uid: str, now: str) -> bytes | None:
    """The value to store over this one (None = there is none); None when it stays as it is.

    `uid` and `now` (RFC 3339, UTC) are given to a new document that has none. Raises `InvalidObject` for a document
    that workers could not read, and for one that would move a bound pod.
    """
    check(given.tree)
    before = _readable(stored)
    if before is None:  # nothing there, or what is no document: nothing to keep
        metadata = {"uid": uid, "creationTimestamp": now}
        return with_metadata(given.text or to_text(given.tree), metadata).encode()
    after = laid_over(before, given.tree)
    if same(before, after):
        return None
    check(after)
    return to_text(after).encode()


def check(tree: object) -> None:
    """Raise `InvalidObject` for a document that workers could not read."""
    found = kubernetes_object(tree)
    if found["kind"] == "Node":
        decode.node_from_mapping(found)
    else:
        decode.pod_from_mapping(found)


def is_same(stored: bytes, given: GivenDocument) -> bool:
    """Whether writing the document over the stored one would change nothing."""
    before = _readable(stored)
    try:
        return before is not None and same(before, laid_over(before, given.tree))
    except InvalidObject:
        return False


def laid_over(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The stored document with what the manifest has. Raises `InvalidObject` when a bound pod would move."""
    after = {**before, **given}
    stored, metadata = mapping(before, "metadata"), dict(mapping(given, "metadata"))
    for name in (*_KEPT, *_KEPT_UNLESS_GIVEN):
        if name in _KEPT:
            metadata.pop(name, None)
        if metadata.get(name) is None and name in stored:
            metadata[name] = stored[name]
    after["metadata"] = metadata
    after.pop("status", None)
    status = mapping(before, "status")
    if before.get("kind") == "Pod":
        after["spec"] = _pod_spec(mapping(before, "spec"), mapping(given, "spec"))
    elif mapping(given, "status").get("allocatable") is not None:
        status = {**status, **mapping(given, "status")}
    if "status" in before or status:
        after["status"] = dict(status) if status else before.get("status")
    return after


def _pod_spec(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(given)
    bound, asked = text(stored, NODE_NAME), text(given, NODE_NAME)
    if bound and asked not in (None, "", bound):
        raise InvalidObject(f"spec.{NODE_NAME}: the pod is bound to {bound!r} and cannot move")
    if NODE_NAME in stored:
        spec[NODE_NAME] = stored[NODE_NAME]
    else:
        spec.pop(NODE_NAME, None)
    return spec


def same(one: Any, other: Any) -> bool:
    """Whether two documents mean the same to rk8s."""
    return bool(_meaning(one) == _meaning(other))


def _meaning(value: Any, key: str = "") -> Any:
    if isinstance(value, Tagged):
        return value.variant, _meaning(value.value)
    if isinstance(value, dict):
        if key in _MAPS:
            return dict(value)
        found = {name: _meaning(entry, name) for name, entry in value.items()}
        return {name: entry for name, entry in found.items() if not _is_default(name, entry)}
    if isinstance(value, list):
        return [_meaning(entry) for entry in value]
    return value


def _is_default(name: str, value: Any) -> bool:
    if value is None or value in ({}, [], ""):
        return True
    return value == _DEFAULTS.get(name) or (name == "operator" and value == _EQUAL)


def _readable(stored: bytes | None) -> dict[str, Any] | None:
    """The document that is stored; None for what is none."""
    if stored is None:
        return None
    try:
        found = parse(decoded(stored))
    except InvalidObject:
        return None
    parts = ("metadata", "spec", "status")
    if not isinstance(found, dict) or not all(isinstance(found.get(part), dict | None) for part in parts):
        return None
    return found
