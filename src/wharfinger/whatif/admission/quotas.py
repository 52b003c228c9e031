"""ResourceQuotas: what a namespace may have at most, which objects count, and what these use of that.

As in Kubernetes 1.36 (`apiserver/pkg/admission/plugin/resourcequota`, `pkg/quota/v1`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wharfinger.objects.documents.fields import choice, mapping, mappings, quantities, text, texts
from wharfinger.objects.documents.kinds import KINDS
from wharfinger.objects.documents.storage import CLASS_ANNOTATION
from wharfinger.objects.model.node import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from wharfinger.objects.model.quantities import NANO, round_up
from wharfinger.whatif.admission import NotMade
from wharfinger.whatif.admission.amounts import (
    Amounts,
    best_effort,
    each_container,
    is_native,
    pod_limits,
    pod_requests,
    shown,
)
from wharfinger.whatif.inventory import affinity_terms

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
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_POD_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
)
_CLAIM_SCOPES = ("VolumeAttributesClass",)


@dataclass(frozen=True, slots=True)
class Scope:
    """One demand on the objects that a quota counts."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def matches(self, kind: str, obj: Mapping[str, Any]) -> bool:
        """Whether an object is within the scope; one of a kind that does not have the scope never is."""
        spec = mapping(obj, "spec")
        if kind == "PersistentVolumeClaim" and self.name in _CLAIM_SCOPES:
            return self._selects(text(spec, "volumeAttributesClassName", "spec."))
        if kind != "Pod":
            return False
        match self.name:
            case "Terminating" | "NotTerminating":
                return (spec.get("activeDeadlineSeconds") is not None) is (self.name == "Terminating")
            case "BestEffort" | "NotBestEffort":
                return best_effort(spec) is (self.name == "BestEffort")
            case "PriorityClass":
                return self._selects(text(spec, "priorityClassName", "spec."))
            case "CrossNamespacePodAffinity":
                terms = affinity_terms(spec)
                return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)
        return False

    def _selects(self, name: str) -> bool:
        match self.operator:
            case "In":
                return name in self.values
            case "NotIn":
                return name not in self.values
            case "DoesNotExist":
                return not name
        return bool(name)


def scopes_of(spec: Mapping[str, Any]) -> tuple[Scope, ...]:
    """`spec.scopes` and `spec.scopeSelector` of a quota; all of them have to match. Raises `InvalidObject`."""
    found = [Scope(name) for name in texts(spec, "scopes", "spec.")]
    where = "spec.scopeSelector."
    for index, entry in enumerate(mappings(mapping(spec, "scopeSelector", "spec."), "matchExpressions", where)):
        path = f"{where}matchExpressions[{index}]."
        name = choice(entry, "scopeName", path, (*_POD_SCOPES, *_CLAIM_SCOPES), None)
        operator = choice(entry, "operator", path, _OPERATORS, None)
        found.append(Scope(name, operator, texts(entry, "values", path)))
    return tuple(found)


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
    """All that the object uses, in nano-units, by the names that quotas have for it. Raises `InvalidObject`.

    As in Kubernetes 1.36 (`pkg/quota/v1/evaluator/core`: pods and claims; of other kinds only the number counts).
    """
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


@dataclass(slots=True)
class Quota:
    """A ResourceQuota, with what is used of it."""

    name: str
    hard: Amounts
    scopes: tuple[Scope, ...]
    stated: Amounts
    """`status.used`: what the cluster counted; objects that are not given may be among it."""
    counted: dict[str, int] = field(default_factory=dict)

    def concerns(self, kind: str, obj: Mapping[str, Any]) -> bool:
        """Whether the quota counts the object. Raises `InvalidObject`."""
        counts = any(is_counted_for(kind, resource) for resource in self.hard)
        return counts and all(scope.matches(kind, obj) for scope in self.scopes)

    def used(self, resource: str) -> int:
        """Nano-units in use."""
        return max(self.counted.get(resource, 0), self.stated.get(resource, 0))

    def add(self, usage: Amounts) -> None:
        """Count the usage of an object."""
        for resource, amount in usage.items():
            if resource in self.hard:
                self.counted[resource] = self.used(resource) + amount


def quota(obj: Mapping[str, Any]) -> Quota:
    """Read a ResourceQuota. Raises `InvalidObject`."""
    spec = mapping(obj, "spec")
    return Quota(
        text(mapping(obj, "metadata"), "name", "metadata."),
        quantities(spec, "hard", "spec."),
        scopes_of(spec),
        quantities(mapping(obj, "status"), "used", "status."),
    )


def count(quotas: Iterable[Quota], kind: str, obj: Mapping[str, Any]) -> None:
    """Count an object that is there already, in the quotas of its namespace. Raises `InvalidObject`."""
    for one in quotas:
        if one.concerns(kind, obj):
            for resource, amount in usage_of(kind, obj).items():
                one.counted[resource] = one.counted.get(resource, 0) + amount


def charge(quotas: Iterable[Quota], kind: str, obj: Mapping[str, Any]) -> NotMade | None:
    """Count a new object in the quotas of its namespace, or answer why it is not made; then nothing is counted.

    Raises `InvalidObject`.
    """
    concerned = [one for one in quotas if one.concerns(kind, obj)]
    if not concerned:
        return None
    for one in concerned:
        missing = missing_resources(kind, obj, [name for name in one.hard if name in DEMANDED])
        if missing:
            return NotMade(f"failed quota {one.name}: must specify {missing}")
    usage = {resource: amount for resource, amount in usage_of(kind, obj).items() if amount}
    for one in concerned:
        over = [name for name, amount in usage.items() if name in one.hard and one.used(name) + amount > one.hard[name]]
        if over:
            return NotMade(f"exceeded quota {one.name}, {_balance(one, usage, sorted(over))}")
    for one in concerned:
        one.add(usage)
    return None


def _balance(one: Quota, usage: Amounts, over: Iterable[str]) -> str:
    parts = {"requested": usage.__getitem__, "used": one.used, "limited": one.hard.__getitem__}
    return ", ".join(
        f"{what}: {','.join(f'{name}={shown(name, amount(name))}' for name in over)}" for what, amount in parts.items()
    )
