"""Whether an object that was applied is available on its member cluster. The rules are KubeFleet's; Pods are added.

A rollout waits until objects are available. An object whose availability cannot be tracked counts after a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import integer, mapping, sequence, text

_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_NETWORKING = "networking.k8s.io"
_DATA = frozenset(
    {
        ("", "Namespace"),
        ("", "Secret"),
        ("", "ConfigMap"),
        ("", "ServiceAccount"),
        ("", "LimitRange"),
        ("", "ResourceQuota"),
        (_RBAC, "Role"),
        (_RBAC, "ClusterRole"),
        (_RBAC, "RoleBinding"),
        (_RBAC, "ClusterRoleBinding"),
        (_NETWORKING, "NetworkPolicy"),
        (_NETWORKING, "IngressClass"),
        (_STORAGE, "CSIDriver"),
        (_STORAGE, "CSINode"),
        (_STORAGE, "StorageClass"),
        (_STORAGE, "CSIStorageCapacity"),
        ("apps", "ControllerRevision"),
        ("scheduling.k8s.io", "PriorityClass"),
    }
)
"""Kinds that are available as soon as they exist."""
_NEED_CONTROLLERS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("", "Service"),
        ("policy", "PodDisruptionBudget"),
    }
)
"""Kinds whose status a controller writes."""


class Availability(StrEnum):
    """Whether an object is available."""

    AVAILABLE = "Available"
    NOT_YET_AVAILABLE = "NotYetAvailable"
    NOT_TRACKABLE = "NotTrackable"
    FAILED = "Failed"
    """The object is malformed, so its availability cannot be judged."""


def availability(
    obj: Mapping[str, Any], group: str, kind: str, *, runs_workloads: bool = False
) -> tuple[Availability, str]:
    """Whether an object is available, and why, in one line.

    Args:
        obj: the object as the member has it.
        group: its API group, empty for the core one.
        kind: its kind.
        runs_workloads: whether controllers run on the member. Without them no status is ever written, so workloads
            without a status cannot be tracked.
    """
    if (group, kind) in _DATA:
        return Availability.AVAILABLE, f"a {kind} is available as soon as it exists"
    if not runs_workloads and (group, kind) in _NEED_CONTROLLERS and not obj.get("status"):
        return Availability.NOT_TRACKABLE, f"no controller on this member writes the status of a {kind}"
    tracker = _TRACKERS.get((group, kind))
    if tracker is None:
        return Availability.NOT_TRACKABLE, f"the availability of a {kind} cannot be tracked"
    try:
        return tracker(obj)
    except InvalidObject as error:
        return Availability.FAILED, str(error)


def _deployment(obj: Mapping[str, Any]) -> tuple[Availability, str]:
    status, replicas = mapping(obj, "status"), _replicas(obj)
    available = _count(status, "availableReplicas")
    updated = _count(status, "updatedReplicas")
    unavailable = _count(status, "unavailableReplicas")
    if stale := _stale(obj, status):
        return stale
    counts = f"{available} of {replicas} replicas available, {updated} updated, {unavailable} unavailable"
    return _judged(available == replicas and updated == replicas and unavailable == 0, counts)


def _stateful_set(obj: Mapping[str, Any]) -> tuple[Availability, str]:
    status, replicas = mapping(obj, "status"), _replicas(obj)
    available = _count(status, "availableReplicas")
    current, updated = _count(status, "currentReplicas"), _count(status, "updatedReplicas")
    one_revision = text(status, "currentRevision") == text(status, "updateRevision")
    if stale := _stale(obj, status):
        return stale
    counts = f"{available} of {replicas} replicas available, {current} current, {updated} updated"
    if not one_revision:
        return _judged(False, f"{counts}; the update revision is not the current one yet")
    return _judged(available == replicas and current == updated, counts)


def _daemon_set(obj: Mapping[str, Any]) -> tuple[Availability, str]:
    status = mapping(obj, "status")
    available, desired = _count(status, "numberAvailable"), _count(status, "desiredNumberScheduled")
    current, updated = _count(status, "currentNumberScheduled"), _count(status, "updatedNumberScheduled")
    if stale := _stale(obj, status):
        return stale
    counts = f"{available} of {desired} pods available, {current} current, {updated} updated"
    return _judged(available == desired and current == updated, counts)


def _service(obj: Mapping[str, Any]) -> tuple[Availability, str]:
    spec = mapping(obj, "spec")
    type_ = text(spec, "type") or "ClusterIP"
    if type_ in ("ClusterIP", "NodePort"):
        addresses = sequence(spec, "clusterIPs")
        assigned = bool(addresses) and addresses[0] not in ("", None)
        return _judged(assigned, "a cluster IP is assigned" if assigned else "no cluster IP is assigned yet")
    if type_ == "LoadBalancer":
        ingress = sequence(mapping(mapping(obj, "status"), "loadBalancer", "status."), "ingress")
        first = ingress[0] if ingress else {}
        if not isinstance(first, Mapping):
            raise InvalidObject("status.loadBalancer.ingress has an entry that is no mapping")
        ready = bool(text(first, "ip") or text(first, "hostname"))
        return _judged(ready, "the load balancer has an address" if ready else "the load balancer has no address yet")
    return Availability.NOT_TRACKABLE, f"the availability of a Service of type {type_[:40]} cannot be tracked"


def _definition(obj: Mapping[str, Any]) -> tuple[Availability, str]:
    status = mapping(obj, "status")
    for condition in ("Established", "NamesAccepted"):
        if text(_condition(status, condition), "status") != "True":
            return _judged(False, f"the condition {condition} is not True yet")
    return _judged(True, "the conditions Established and NamesAccepted are True")


def _disruption_budget(obj: Mapping[str, Any]) -> tuple[Availability, str]:
    status = mapping(obj, "status")
    condition = _condition(status, "DisruptionAllowed")
    allowed = _count(status, "disruptionsAllowed")
    if stale := _stale(obj, status):
        return stale
    expected = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
    fits = (text(condition, "status"), text(condition, "reason")) == expected
    counts = f"{allowed} disruptions allowed"
    return _judged(fits, counts if fits else f"{counts}; the condition DisruptionAllowed is not up to date")


def _pod(obj: Mapping[str, Any]) -> tuple[Availability, str]:
    status = mapping(obj, "status")
    if text(status, "phase") == "Failed":
        return _judged(False, f"the pod failed{_because(status)}")
    ready = _condition(status, "Ready")
    if ready:
        if text(ready, "status") == "True":
            return _judged(True, "the pod is ready")
        return _judged(False, f"the pod is not ready{_because(ready)}")
    node = text(mapping(obj, "spec"), "nodeName")
    if node:
        return _judged(True, "the pod is bound to a node; no kubelet reports whether it is ready")
    return _judged(False, "the pod is not bound to a node yet")


_TRACKERS: Mapping[tuple[str, str], Callable[[Mapping[str, Any]], tuple[Availability, str]]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("", "Service"): _service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
    ("", "Pod"): _pod,
}


def _judged(available: bool, why: str) -> tuple[Availability, str]:
    return (Availability.AVAILABLE if available else Availability.NOT_YET_AVAILABLE), why


def _stale(obj: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[Availability, str] | None:
    observed, generation = _count(status, "observedGeneration"), _count(mapping(obj, "metadata"), "generation")
    if observed == generation:
        return None
    return _judged(False, f"the status is of generation {observed}, the object of generation {generation}")


def _because(status: Mapping[str, Any]) -> str:
    """Reason and message, however long, on one line."""
    given = [status.get(name) or "" for name in ("reason", "message")]
    if not all(isinstance(part, str) for part in given):
        raise InvalidObject("reason or message is no text")
    message = ": ".join(" ".join(part.split()) for part in given if part)[:200]
    return f" ({message})" if message else ""


def _condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """The first condition of a type; empty if there is none."""
    for one in sequence(status, "conditions"):
        if isinstance(one, Mapping) and one.get("type") == type_:
            return one
    return {}


def _replicas(obj: Mapping[str, Any]) -> int:
    spec = mapping(obj, "spec")
    return 1 if spec.get("replicas") is None else _count(spec, "replicas")


def _count(within: Mapping[str, Any], name: str) -> int:
    return integer(within, name, "", low=-(2**63), high=2**63 - 1) or 0
