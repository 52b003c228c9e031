"""What `apply` writes: a manifest laid over the stored object.

Metadata and spec are the manifest's; what the cluster itself wrote stays: uid, creation and deletion
time, status, the node of a bound pod and the annotation naming its attempt. What a fleet's manifest leaves out and
commands of their own set (replicas, paused, restartedAt) stays too; what is asked of a rollout is never a manifest's.
The generation of a placement or a member counts the changes of its spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.documents.kinds import COUNTING, FLEET, NODE, POD, Reference
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION

_KEPT_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_DROPPED_METADATA = ("resourceVersion", "selfLink", "managedFields")
"""What an API server adds to its answers; a stored object has no use for them."""


def created(manifest: Mapping[str, Any], about: Reference, *, uid: str, now: str) -> dict[str, Any]:
    """The object to store where there is none. `now` is RFC 3339 in UTC.

    `uid` and `now` are used where the manifest has no uid and no creation time.
    """
    obj = dict(manifest)
    metadata = obj["metadata"] = _metadata(manifest, about)
    if about.kind is FLEET:
        obj["spec"] = _fleet_spec({}, mapping(manifest, "spec"))
    if about.kind in COUNTING:
        metadata["generation"] = 1
        obj.pop("status", None)  # of another hub
    metadata["uid"] = metadata.get("uid") or uid
    metadata["creationTimestamp"] = metadata.get("creationTimestamp") or now
    return obj


def updated(stored: Mapping[str, Any], manifest: Mapping[str, Any], about: Reference) -> dict[str, Any]:
    """The object to store over `stored`; equal to it when nothing changes.

    Raises `InvalidObject` when a bound pod would move to another node.
    """
    obj = dict(manifest)
    obj["metadata"] = _kept_metadata(stored, _metadata(manifest, about))
    if about.kind is POD:
        obj["spec"] = _pod_spec(mapping(stored, "spec"), mapping(manifest, "spec"))
    elif about.kind is FLEET:
        obj["spec"] = _fleet_spec(mapping(stored, "spec"), mapping(manifest, "spec"))
    status = _status(stored, manifest, about)
    obj.pop("status", None)
    if status is not None:
        obj["status"] = status
    if about.kind in COUNTING and obj.get("spec") != stored.get("spec"):
        obj["metadata"]["generation"] = 1 + int(obj["metadata"].get("generation") or 0)
    return obj


def marked(stored: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The object, marked as being deleted; equal to it when it is already. `now` is RFC 3339 in UTC."""
    metadata = mapping(stored, "metadata")
    if metadata.get("deletionTimestamp"):
        return dict(stored)
    return {**stored, "metadata": {**metadata, "deletionTimestamp": now}}


def _metadata(manifest: Mapping[str, Any], about: Reference) -> dict[str, Any]:
    metadata = {key: value for key, value in mapping(manifest, "metadata").items() if key not in _DROPPED_METADATA}
    if about.kind is FLEET or about.kind in COUNTING:  # a new object that is marked as deleting would never run
        metadata.pop("deletionTimestamp", None)
    if about.namespace:
        metadata["namespace"] = about.namespace
    return metadata


def _kept_metadata(stored: Mapping[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    before = mapping(stored, "metadata")
    for key in _KEPT_METADATA:
        metadata.pop(key, None)
        if before.get(key) is not None:
            metadata[key] = before[key]
    # The attempt that bound the pod stays named, whatever the manifest has: `explain` finds its history by that.
    attempt = mapping(before, "annotations", "metadata.").get(ATTEMPT_ANNOTATION)
    if attempt is not None:
        metadata["annotations"] = {**mapping(metadata, "annotations", "metadata."), ATTEMPT_ANNOTATION: attempt}
    return metadata


def _pod_spec(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(given)
    node = stored.get("nodeName")
    if node:
        if given.get("nodeName") not in (None, "", node):
            raise InvalidObject(f"spec.nodeName: the pod is bound to {node!r} and cannot move")
        spec["nodeName"] = node
    return spec


def _fleet_spec(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    spec = {key: value for key, value in given.items() if key != "rollout"}
    # Commands of their own set these: to apply a manifest without them must not undo `fleet scale` or `fleet pause`.
    for key in ("replicas", "paused", "rollout"):
        if spec.get(key) is None and stored.get(key) is not None:
            spec[key] = stored[key]
    restarted = mapping(stored, "template", "spec.").get("restartedAt")
    template = mapping(given, "template", "spec.")
    if restarted is not None and template.get("restartedAt") is None:
        spec["template"] = {**template, "restartedAt": restarted}
    return spec


def _status(stored: Mapping[str, Any], manifest: Mapping[str, Any], about: Reference) -> Any:
    """The stored status; a node's manifest that brings allocatable is laid over it."""
    before, given = stored.get("status"), manifest.get("status")
    if not before:
        return given if about.kind is NODE else before
    if about.kind is NODE and isinstance(given, Mapping) and given.get("allocatable") is not None:
        return {**mapping(stored, "status"), **given}
    return before
