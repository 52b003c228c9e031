"""Binding a volume and a claim to each other in etcd, as Kubernetes' controller for them does."""

from __future__ import annotations

from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.storage import BIND_COMPLETED

BOUND_BY = "pv.kubernetes.io/bound-by-controller"
BOUND = "Bound"


def bound_volume(volume: bytes, claim: bytes, *, now: str) -> bytes:
    """The stored volume, bound to the claim. `now`: RFC 3339. Raises `InvalidObject`."""
    obj, of = _object(volume), _object(claim)
    metadata = of["metadata"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": metadata.get("name")}
    reference |= {key: metadata[key] for key in ("namespace", "uid") if metadata.get(key)}
    spec = obj["spec"]
    if spec.get("claimRef") is None:
        _annotate(obj, BOUND_BY)
    spec["claimRef"] = reference
    obj["status"] = {**(obj.get("status") or {}), "phase": BOUND, "lastPhaseTransitionTime": now}
    return documents.to_json(obj)


def bound_claim(claim: bytes, volume: bytes) -> bytes:
    """The stored claim, bound to the volume. Raises `InvalidObject`."""
    obj, of = _object(claim), _object(volume)
    spec = obj["spec"]
    if not spec.get("volumeName"):
        _annotate(obj, BOUND_BY)
    spec["volumeName"] = of["metadata"].get("name")
    _annotate(obj, BIND_COMPLETED)
    status = {
        "phase": BOUND,
        "accessModes": of["spec"].get("accessModes") or [],
        "capacity": of["spec"].get("capacity") or {},
    }
    obj["status"] = {**(obj.get("status") or {}), **status}
    return documents.to_json(obj)


def _annotate(obj: dict[str, Any], name: str) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), name: "yes"}


def _object(value: bytes) -> dict[str, Any]:
    """A document whose `metadata` and `spec` may be changed."""
    obj = documents.parse(value)
    if not isinstance(obj, dict):
        raise InvalidObject("is no object")
    for part in ("metadata", "spec"):
        if not isinstance(obj.get(part), dict):
            raise InvalidObject(f"{part} is no mapping")
        obj[part] = dict(obj[part])
    return obj
