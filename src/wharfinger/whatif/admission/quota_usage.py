"""What an object uses of a ResourceQuota, in nano-units.

As in Kubernetes 1.36 (`pkg/quota/v1/evaluator/core`: pods and claims; of other kinds only the number counts).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.manifests.fields import mapping, quantities, text
from wharfinger.manifests.kinds import KINDS
from wharfinger.manifests.storage import CLASS_ANNOTATION
from wharfinger.model.node import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from wharfinger.model.quantities import NANO, round_up
from wharfinger.whatif.admission.amounts import Amounts, each_container, is_native, pod_limits, pod_requests

POD, CLAIM = "Pod", "PersistentVolumeClaim"
_COMPUTE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_REQUESTS, _LIMITS = "requests.", "limits."
_HUGE_PAGES = "hugepages-"
_STORAGE = "requests.storage"
_CLAIMS = "persistentvolumeclaims"
_BY_CLASS = ".storageclass.storage.k8s.io/"
DEMANDED = tuple(f"{prefix}{name}" for name in (CPU, MEMORY) for prefix in ("", _REQUESTS, _LIMITS))
"""Where a quota has one of these, each container of a pod has to specify it."""
_OF_PODS = frozenset({PODS, "count/pods", *DEMANDED})
_OF_PODS_STORAGE = frozenset(f"{prefix}{EPHEMERAL_STORAGE}" for prefix in ("", _REQUESTS, _LIMITS))
_PLURALS = {kind.name: f"{kind.plural}.{kind.group}" if kind.group else kind.plural for kind in KINDS}
_PLAIN_COUNTS = {"ReplicationController": "replicationcontrollers", "Service": "services"}
"""Kinds whose number a quota may also limit without the prefix `count/`."""


def is_counted_for(kind: str, resource: str) -> bool:
    """Whether the resource of a quota counts objects of the kind."""
    if kind == POD:
        extended = resource.startswith(_REQUESTS) and not is_native(resource)
        huge = resource.startswith((_HUGE_PAGES, f"{_REQUESTS}{_HUGE_PAGES}"))
        return resource in _OF_PODS or resource in _OF_PODS_STORAGE or extended or huge
    if kind == CLAIM:
        plain = resource.rpartition(_BY_CLASS)[2]
        return resource == f"count/{_CLAIMS}" or plain in (_CLAIMS, _STORAGE)
    return resource in _number_of(kind)


def usage_of(kind: str, obj: Mapping[str, Any]) -> Amounts:
    """All that the object uses, by the names that quotas have for it. Raises `InvalidObject`."""
    if kind == POD:
        return _of_pod(obj)
    return _of_claim(obj) if kind == CLAIM else dict.fromkeys(_number_of(kind), NANO)


def missing_resources(kind: str, obj: Mapping[str, Any], demanded: Iterable[str]) -> str:
    """What containers of a pod do not specify although a quota counts it; empty for nothing. Raises `InvalidObject`."""
    spec = mapping(obj, "spec")
    if kind != POD or mapping(spec, "resources", "spec."):
        return ""
    found = []
    for resource in sorted(demanded):
        lacking = sorted(
            name for name, _, requests, limits in each_container(spec) if resource not in _compute(requests, limits)
        )
        if lacking:
            found.append(f"{resource} for: {','.join(lacking)}")
    return "; ".join(found)


def _number_of(kind: str) -> tuple[str, ...]:
    plain = _PLAIN_COUNTS.get(kind)
    return (f"count/{_PLURALS.get(kind, kind)}", *([plain] if plain else []))


def _of_pod(obj: Mapping[str, Any]) -> Amounts:
    number = {"count/pods": NANO}
    if mapping(obj, "status").get("phase") in ("Succeeded", "Failed"):
        return number
    spec = mapping(obj, "spec")
    amounts = _compute(pod_requests(spec, overhead=True), pod_limits(spec, overhead=True))
    return {**number, PODS: NANO, **amounts}


def _compute(requests: Amounts, limits: Amounts) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE_PAGES):
            found[name] = found[f"{_REQUESTS}{name}"] = amount
        elif not is_native(name):
            found[f"{_REQUESTS}{name}"] = amount
    found.update({f"{_LIMITS}{name}": amount for name, amount in limits.items() if name in _COMPUTE})
    return found


def _of_claim(obj: Mapping[str, Any]) -> Amounts:
    spec = mapping(obj, "spec")
    requests = quantities(mapping(spec, "resources", "spec."), "requests", "spec.resources.")
    found = {_CLAIMS: NANO}
    if "storage" in requests:
        found[_STORAGE] = round_up(requests["storage"]) * NANO
    annotated = mapping(mapping(obj, "metadata"), "annotations", "metadata.").get(CLASS_ANNOTATION)
    storage_class = annotated if isinstance(annotated, str) else text(spec, "storageClassName", "spec.")
    if storage_class:
        found.update({f"{storage_class}{_BY_CLASS}{name}": amount for name, amount in list(found.items())})
    return {**found, f"count/{_CLAIMS}": NANO}
