"""Scopes of ResourceQuotas: which pods and claims a quota counts.

As in Kubernetes 1.36 (`pkg/quota/v1/evaluator/core`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.manifests.fields import choice, mapping, mappings, text, texts
from wharfinger.whatif.admission.amounts import best_effort

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_OF_PODS = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
)
_OF_CLAIMS = ("VolumeAttributesClass",)
_AFFINITIES = ("podAffinity", "podAntiAffinity")
_TERMS = (
    ("requiredDuringSchedulingIgnoredDuringExecution", ""),
    ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
)


@dataclass(frozen=True, slots=True)
class Scope:
    """One demand on the objects that a quota counts."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def matches(self, kind: str, obj: Mapping[str, Any]) -> bool:
        """Whether an object is within the scope; one of a kind that does not have the scope never is."""
        spec = mapping(obj, "spec")
        if kind == "PersistentVolumeClaim" and self.name in _OF_CLAIMS:
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
                return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in _terms(spec))
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
        name = choice(entry, "scopeName", path, (*_OF_PODS, *_OF_CLAIMS), None)
        operator = choice(entry, "operator", path, _OPERATORS, None)
        found.append(Scope(name, operator, texts(entry, "values", path)))
    return tuple(found)


def _terms(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    affinity = mapping(spec, "affinity", "spec.")
    for kind in _AFFINITIES:
        of_kind = mapping(affinity, kind, "spec.affinity.")
        for field, inner in _TERMS:
            for term in mappings(of_kind, field, f"spec.affinity.{kind}."):
                yield mapping(term, inner) if inner else term
