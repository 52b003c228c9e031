"""Changing stored pods, volumes and claims: bytes in, bytes out, every field that is not ours kept.

Conditions are merged by type as Kubernetes does: `lastTransitionTime` moves only when the status does.
An object stored as YAML is written back as JSON. Raises `InvalidObject` for what is no object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.metadata import condition_met
from wharfinger.objects.documents.storage import BIND_COMPLETED
from wharfinger.objects.model.conditions import DISRUPTION_TARGET, POD_SCHEDULED, PREEMPTION
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""On the copy of a static pod, whose source is a file of the node."""


def bind_pod(raw: bytes, *, node_name: str, attempt: str, now: str) -> bytes:
    """The pod on its node: `spec.nodeName`, PodScheduled=True, and which attempt did it.

    `attempt` is `<workflow id>@<run id>`, `now` RFC 3339 in UTC. A nomination is cleared.
    """
    pod = _object(raw)
    spec = _part(pod, "spec")
    spec["nodeName"] = node_name
    annotations = _part(_part(pod, "metadata"), "annotations")
    annotations[ATTEMPT_ANNOTATION] = attempt
    status = _part(pod, "status")
    status.pop("nominatedNodeName", None)
    _set_condition(status, {"type": POD_SCHEDULED, "status": "True"}, now)
    return documents.to_json(pod)


def refuse_pod(
    raw: bytes, *, reason: str, message: str, now: str, nominated_node_name: str | None = None
) -> bytes | None:
    """The pod with PodScheduled=False, or None when that would change nothing.

    `nominated_node_name`: a node to nominate, an empty text to clear a nomination, None to leave it.
    """
    pod = _object(raw)
    status = _part(pod, "status")
    wanted = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message}
    changed = _set_condition(status, wanted, now)
    nominated = nominated_node_name is not None and _nominate(status, nominated_node_name)
    return documents.to_json(pod) if changed or nominated else None


def evict_pod(
    raw: bytes, *, message: str, now: str, deletion: tuple[str, int] | None = None, reason: str = PREEMPTION
) -> bytes:
    """The pod marked as a target of eviction, by default as a victim of preemption: condition DisruptionTarget.

    `deletion`: when it has to have ended (RFC 3339) and the seconds until then; None leaves it running.
    """
    pod = _object(raw)
    wanted = {"type": DISRUPTION_TARGET, "status": "True", "reason": reason, "message": message}
    _set_condition(_part(pod, "status"), wanted, now)
    if deletion is not None:
        metadata = _part(pod, "metadata")
        metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = deletion
    return documents.to_json(pod)


def made_anew(raw: bytes, *, uid: str, now: str) -> bytes | None:
    """The manifest of a new pod in the place of a bound pod: unbound, with an empty status and this uid.

    None where the pod must not be made anew: its controller makes another one, it is the copy of a static pod, or its
    deletion was asked for already.
    """
    pod = _object(raw)
    metadata, spec = _part(pod, "metadata"), _part(pod, "spec")
    annotations = _part(metadata, "annotations")
    owners = metadata.get("ownerReferences")
    owned = any(isinstance(owner, dict) and owner.get("controller") for owner in owners or ())
    if owned or MIRROR_ANNOTATION in annotations or metadata.get("deletionTimestamp"):
        return None
    annotations.pop(ATTEMPT_ANNOTATION, None)
    for name in ("resourceVersion", "managedFields", "deletionGracePeriodSeconds"):
        metadata.pop(name, None)
    metadata |= {"uid": uid, "creationTimestamp": now}
    spec.pop("nodeName", None)
    pod["status"] = {"phase": "Pending"}
    return documents.to_json(pod)


def scheduled_since(raw: bytes) -> str:
    """When the pod was bound, by its condition PodScheduled: RFC 3339; empty where it has none."""
    since = condition_met(_object(raw), POD_SCHEDULED).get("lastTransitionTime")
    return since if isinstance(since, str) else ""


def nominate_pod(raw: bytes, node_name: str) -> bytes | None:
    """The pod nominated to a node, or to none (an empty text); None when it is so already."""
    pod = _object(raw)
    return documents.to_json(pod) if _nominate(_part(pod, "status"), node_name) else None


def clear_nomination(raw: bytes, node_name: str) -> bytes | None:
    """The pod without its nomination to that node; None when it is not nominated there."""
    pod = _object(raw)
    status = _part(pod, "status")
    if status.get("nominatedNodeName") != node_name:
        return None
    del status["nominatedNodeName"]
    return documents.to_json(pod)


def _object(raw: bytes) -> dict[str, Any]:
    obj = documents.parse(raw)
    if not isinstance(obj, dict):
        raise InvalidObject("is no object")
    return obj


def _part(obj: dict[str, Any], key: str) -> dict[str, Any]:
    """A nested mapping of its own, made when absent or null.

    It is copied: YAML aliases may share it with another field, which must not change along.
    """
    part = obj.get(key)
    if part is not None and not isinstance(part, dict):
        raise InvalidObject(f"{key} is no mapping")
    obj[key] = own = dict(part or {})
    return own


def _nominate(status: dict[str, Any], node_name: str) -> bool:
    """Set the nomination, or clear it with an empty text; whether anything changed."""
    if (status.get("nominatedNodeName") or "") == node_name:
        return False
    status["nominatedNodeName"] = node_name
    if not node_name:
        del status["nominatedNodeName"]
    return True


def _set_condition(status: dict[str, Any], wanted: Mapping[str, str], now: str) -> bool:
    """Merge a condition into `status.conditions`; whether anything changed."""
    conditions = status.get("conditions")
    if conditions is not None and not isinstance(conditions, list):
        raise InvalidObject("status.conditions is no list")
    kept = list(conditions or ())
    place = next((i for i, c in enumerate(kept) if isinstance(c, dict) and c.get("type") == wanted["type"]), None)
    old: Mapping[str, Any] = {} if place is None else kept[place]
    if all((old.get(name) or "") == wanted.get(name, "") for name in ("type", "status", "reason", "message")):
        return False
    same_status = bool(old) and old.get("status") == wanted["status"]
    moved = (old.get("lastTransitionTime") if same_status else None) or now
    rest = {name: value for name, value in old.items() if name not in ("reason", "message")}
    condition = {**rest, "lastProbeTime": None, "lastTransitionTime": moved, **wanted}
    if place is None:
        kept.append(condition)
    else:
        kept[place] = condition
    status["conditions"] = kept
    return True


BOUND_BY = "pv.kubernetes.io/bound-by-controller"
BOUND = "Bound"


def bound_volume(volume: bytes, claim: bytes, *, now: str) -> bytes:
    """The stored volume, bound to the claim. `now`: RFC 3339. Raises `InvalidObject`."""
    obj, of = _volume_object(volume), _volume_object(claim)
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
    obj, of = _volume_object(claim), _volume_object(volume)
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


def _volume_object(value: bytes) -> dict[str, Any]:
    """A document whose `metadata` and `spec` may be changed."""
    obj = _object(value)
    for part in ("metadata", "spec"):
        if not isinstance(obj.get(part), dict):
            raise InvalidObject(f"{part} is no mapping")
        obj[part] = dict(obj[part])
    return obj
