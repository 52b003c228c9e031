"""What a placement delivers: objects as they go to members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.objects.documents.fields import boolean, mapping
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION

_HUB_METADATA = (
    "resourceVersion",
    "generation",
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "ownerReferences",
)
"""Only true on the hub. Finalizers and the grace period of a deletion stay, as in KubeFleet."""
_HUB_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    ATTEMPT_ANNOTATION,
)
_GENERATED_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
"""The API server puts them on a Job's selector and pods. They name the hub's Job."""


def sanitised(obj: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what is only true on the hub, as members get it.

    The input is not changed; the result shares with it what stays the same. Raises `InvalidObject`.
    """
    result = {key: value for key, value in obj.items() if key != "status"}
    metadata = mapping(obj, "metadata")
    annotations = mapping(metadata, "annotations", "metadata.")
    kept = {key: value for key, value in metadata.items() if key not in (*_HUB_METADATA, "annotations")}
    remaining = {key: value for key, value in annotations.items() if key not in _HUB_ANNOTATIONS}
    if remaining:
        kept["annotations"] = remaining
    result["metadata"] = kept
    match obj.get("apiVersion"), obj.get("kind"):
        case "v1", "Pod" if ATTEMPT_ANNOTATION in annotations:
            return _without(result, "spec", "nodeName")
        case "v1", "Service":
            return _service(result)
        case "batch/v1", "Job":
            return _job(result)
    return result


def _service(obj: dict[str, Any]) -> dict[str, Any]:
    """Without addresses and ports that the hub assigned. A headless Service stays headless."""
    spec = mapping(obj, "spec")
    address = spec.get("clusterIP")
    if isinstance(address, str) and address != "None":
        obj = _without(_without(obj, "spec", "clusterIP"), "spec", "clusterIPs")
    obj = _without(obj, "spec", "healthCheckNodePort")
    ports = spec.get("ports")
    if isinstance(ports, list):
        freed = [_without(port, "nodePort") if isinstance(port, Mapping) else port for port in ports]
        obj["spec"] = {**mapping(obj, "spec"), "ports": freed}
    return obj


def _job(obj: dict[str, Any]) -> dict[str, Any]:
    """Without the selector that the API server generated."""
    if boolean(mapping(obj, "spec"), "manualSelector", "spec."):
        return obj
    for label in _GENERATED_LABELS:
        obj = _without(obj, "spec", "selector", "matchLabels", label)
        obj = _without(obj, "spec", "template", "metadata", "labels", label)
    return _without(obj, "spec", "template", "metadata", "creationTimestamp")


def _without(obj: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """A copy without the field at the path; only what lies on the path is copied."""
    key, *rest = path
    if not rest:
        return {name: value for name, value in obj.items() if name != key}
    result = dict(obj)
    below = obj.get(key)
    if isinstance(below, Mapping):
        result[key] = _without(below, *rest)
    return result
