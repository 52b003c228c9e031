"""A pod's terms about other pods: inter-pod affinity and anti-affinity, topology spread constraints.

Checked as the Kubernetes API server checks them. As it does, matchLabelKeys and mismatchLabelKeys of affinity terms
are merged into the selectors; those of spread constraints stay apart, for plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import choice, integer, mapping, mappings, text, texts
from wharfinger.objects.documents.selectors import label_selector
from wharfinger.objects.model.affinity import PodAffinityTerm, SpreadConstraint, WeightedPodAffinityTerm
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
AFFINITY = "podAffinity"
ANTI_AFFINITY = "podAntiAffinity"
HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
_HONOR, _IGNORE = "Honor", "Ignore"
_WHERE = "spec.affinity."
_MAX_WEIGHT = 100
_INT32 = 2**31 - 1


class PodTerms:
    """Reads the inter-pod terms of one pod, of this namespace and with these labels."""

    def __init__(self, spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> None:
        self._affinity = mapping(spec, "affinity", "spec.")
        self._namespace = namespace
        self._labels = labels

    def required(self, kind: str) -> tuple[PodAffinityTerm, ...]:
        """The required terms of `podAffinity` or `podAntiAffinity`."""
        if not self._affinity:
            return ()
        where = f"{_WHERE}{kind}."
        entries = mappings(mapping(self._affinity, kind, _WHERE), REQUIRED, where)
        return tuple([self._term(entry, f"{where}{REQUIRED}[{index}].") for index, entry in enumerate(entries)])

    def preferred(self, kind: str) -> tuple[WeightedPodAffinityTerm, ...]:
        """The weighted terms of `podAffinity` or `podAntiAffinity`."""
        if not self._affinity:
            return ()
        where = f"{_WHERE}{kind}."
        entries = mappings(mapping(self._affinity, kind, _WHERE), PREFERRED, where)
        return tuple([self._weighted(entry, f"{where}{PREFERRED}[{index}].") for index, entry in enumerate(entries)])

    def _weighted(self, entry: Mapping[str, Any], where: str) -> WeightedPodAffinityTerm:
        weight = integer(entry, "weight", where, low=1, high=_MAX_WEIGHT)
        if weight is None:
            raise InvalidObject(f"{where}weight is missing")
        term = mapping(entry, "podAffinityTerm", where)
        return WeightedPodAffinityTerm(weight, self._term(term, f"{where}podAffinityTerm."))

    def _term(self, entry: Mapping[str, Any], where: str) -> PodAffinityTerm:
        namespaces = frozenset(texts(entry, "namespaces", where))
        namespace_selector = label_selector(entry, "namespaceSelector", where)
        if not namespaces and namespace_selector is None:
            namespaces = frozenset((self._namespace,))
        return PodAffinityTerm(
            _topology_key(entry, where),
            self._merged_selector(entry, where),
            namespaces,
            namespace_selector,
        )

    def _merged_selector(self, entry: Mapping[str, Any], where: str) -> LabelSelector | None:
        selector = label_selector(entry, "labelSelector", where)
        match, mismatch = texts(entry, "matchLabelKeys", where), texts(entry, "mismatchLabelKeys", where)
        if selector is None:
            if match or mismatch:
                raise InvalidObject(f"{where}matchLabelKeys and mismatchLabelKeys need a labelSelector")
            return None
        both = set(match) & set(mismatch)
        if both:
            raise InvalidObject(f"{where}matchLabelKeys and mismatchLabelKeys both name {min(both)[:80]!r}")
        wanted = [(key, Operator.IN) for key in match] + [(key, Operator.NOT_IN) for key in mismatch]
        requirements = list(selector.requirements)
        for key, operator in wanted:
            value = self._labels.get(key)
            if value is None:
                continue
            merged = Requirement(key, operator, (value,))
            if merged not in requirements:  # what an API server printed has them already
                requirements.append(merged)
        return LabelSelector(tuple(requirements))


def spread_constraints(spec: Mapping[str, Any]) -> tuple[SpreadConstraint, ...]:
    """`spec.topologySpreadConstraints`."""
    found: list[SpreadConstraint] = []
    seen: set[tuple[str, bool]] = set()
    for index, entry in enumerate(mappings(spec, "topologySpreadConstraints", "spec.")):
        where = f"spec.topologySpreadConstraints[{index}]."
        constraint = spread_constraint(entry, where)
        identity = constraint.topology_key, constraint.hard
        if identity in seen:
            raise InvalidObject(f"{where}topologyKey and whenUnsatisfiable are those of an earlier one")
        seen.add(identity)
        found.append(constraint)
    return tuple(found)


def spread_constraint(entry: Mapping[str, Any], where: str) -> SpreadConstraint:
    """One `v1.TopologySpreadConstraint`."""
    max_skew = integer(entry, "maxSkew", where, low=1, high=_INT32)
    if max_skew is None:
        raise InvalidObject(f"{where}maxSkew is missing")
    key = _topology_key(entry, where)
    hard = choice(entry, "whenUnsatisfiable", where, (HARD, SOFT), None) == HARD
    min_domains = integer(entry, "minDomains", where, low=1, high=_INT32)
    if min_domains is not None and not hard:
        raise InvalidObject(f"{where}minDomains goes with whenUnsatisfiable {HARD} only")
    selector = label_selector(entry, "labelSelector", where)
    match_label_keys = texts(entry, "matchLabelKeys", where)
    if match_label_keys and selector is None:
        raise InvalidObject(f"{where}matchLabelKeys need a labelSelector")
    return SpreadConstraint(
        max_skew,
        key,
        hard,
        selector,
        min_domains=1 if min_domains is None else min_domains,
        honor_node_affinity=choice(entry, "nodeAffinityPolicy", where, (_HONOR, _IGNORE), _HONOR) == _HONOR,
        honor_node_taints=choice(entry, "nodeTaintsPolicy", where, (_HONOR, _IGNORE), _IGNORE) == _HONOR,
        match_label_keys=match_label_keys,
    )


def _topology_key(entry: Mapping[str, Any], where: str) -> str:
    key = text(entry, "topologyKey", where)
    if not key:
        raise InvalidObject(f"{where}topologyKey is missing")
    return key
