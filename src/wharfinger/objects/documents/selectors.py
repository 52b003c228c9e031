"""Selectors of nodes and of labels, tolerations and taints, and a pod's terms about other pods, read from objects.

Terms are inter-pod affinity and anti-affinity, and topology spread constraints. They are checked as the Kubernetes API
server checks them. As it does, matchLabelKeys and mismatchLabelKeys of affinity terms are merged into the selectors;
those of spread constraints stay apart, for plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import EMPTY, choice, integer, mapping, mappings, text, text_map, texts
from wharfinger.objects.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    PreferredTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
    WeightedPodAffinityTerm,
    parse_integer,
)

_AFFINITY = "spec.affinity.nodeAffinity."
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = {operator.value: operator for operator in Operator}
_FIELD_OPERATORS = (Operator.IN, Operator.NOT_IN)
_INTEGER_OPERATORS = (Operator.GT, Operator.LT)
_TOLERATION_OPERATORS = ("Exists", "Equal", "Lt", "Gt")
"""Kubernetes has the last two behind a gate. Pods with them are read, and tolerate nothing by them."""
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def required_node_terms(affinity: Mapping[str, Any]) -> tuple[NodeSelectorTerm, ...] | None:
    """The required terms of a `nodeAffinity`; None when it requires nothing."""
    if affinity.get(_REQUIRED) is None:
        return None
    return node_selector(mapping(affinity, _REQUIRED, _AFFINITY), f"{_AFFINITY}{_REQUIRED}.")


def preferred_node_terms(affinity: Mapping[str, Any]) -> tuple[PreferredTerm, ...]:
    """The weighted preferences of a `nodeAffinity`."""
    terms = []
    for index, entry in enumerate(mappings(affinity, _PREFERRED, _AFFINITY)):
        where = f"{_AFFINITY}{_PREFERRED}[{index}]."
        weight = integer(entry, "weight", where, low=0, high=100)
        terms.append(PreferredTerm(weight or 0, node_selector_term(mapping(entry, "preference", where), where)))
    return tuple(terms)


def node_selector(selector: Mapping[str, Any], where: str) -> tuple[NodeSelectorTerm, ...]:
    """The terms of a `v1.NodeSelector`, ORed."""
    return tuple(
        [
            node_selector_term(entry, f"{where}nodeSelectorTerms[{index}].")
            for index, entry in enumerate(mappings(selector, "nodeSelectorTerms", where))
        ]
    )


def node_selector_term(term: Mapping[str, Any], where: str) -> NodeSelectorTerm:
    """One `v1.NodeSelectorTerm`."""
    if not term:
        return NodeSelectorTerm()
    expressions = mappings(term, "matchExpressions", where)
    fields = mappings(term, "matchFields", where)
    return NodeSelectorTerm(
        tuple([requirement(entry, f"{where}matchExpressions[{i}].") for i, entry in enumerate(expressions)]),
        tuple([_field(entry, f"{where}matchFields[{i}].") for i, entry in enumerate(fields)]),
    )


def requirement(entry: Mapping[str, Any], where: str) -> Requirement:
    """One expression: key, operator, values, as many values as the operator takes."""
    key = text(entry, "key", where)
    if not key:
        raise InvalidObject(f"{where}key is missing")
    name = text(entry, "operator", where)
    operator = _OPERATORS.get(name)
    if operator is None:
        raise InvalidObject(f"{where}operator {name[:40]!r} is none of {', '.join(_OPERATORS)}")
    values = texts(entry, "values", where)
    match operator:
        case Operator.IN | Operator.NOT_IN if not values:
            raise InvalidObject(f"{where}values are missing, {operator} needs some")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if values:
            raise InvalidObject(f"{where}values are given, {operator} takes none")
        case Operator.GT | Operator.LT if len(values) != 1 or parse_integer(values[0]) is None:
            raise InvalidObject(f"{where}values: {operator} takes exactly one integer")
    return Requirement(key, operator, values)


def label_selector(obj: Mapping[str, Any], key: str, where: str = "") -> LabelSelector | None:
    """A `metav1.LabelSelector`; None when absent, which is not the same as empty. Equal ones read equal."""
    if obj.get(key) is None:
        return None
    selector = mapping(obj, key, where)
    where = f"{where}{key}."
    found = list(equalities(text_map(selector, "matchLabels", where)))
    for index, entry in enumerate(mappings(selector, "matchExpressions", where)):
        path = f"{where}matchExpressions[{index}]."
        expression = requirement(entry, path)
        if expression.operator in _INTEGER_OPERATORS:
            raise InvalidObject(f"{path}operator {expression.operator} is for nodes, not for labels")
        found.append(expression)
    return LabelSelector(tuple(found))


def equalities(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """These labels with these values, as requirements."""
    return tuple([Requirement(name, Operator.IN, (value,)) for name, value in sorted(labels.items())])


def _field(entry: Mapping[str, Any], where: str) -> Requirement:
    found = requirement(entry, where)
    if found.key != "metadata.name":
        raise InvalidObject(f"{where}key {found.key[:40]!r} is not metadata.name, the only field there is")
    if found.operator not in _FIELD_OPERATORS:
        raise InvalidObject(f"{where}operator {found.operator} is neither In nor NotIn")
    return found


def node_affinity(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """`spec.affinity.nodeAffinity`, empty when absent."""
    affinity = mapping(spec, "affinity", "spec.")
    return mapping(affinity, "nodeAffinity", "spec.affinity.") if affinity else EMPTY


def tolerations(spec: Mapping[str, Any], where: str = "spec.") -> tuple[Toleration, ...]:
    """The `tolerations` of a pod, or of what has them elsewhere."""
    found = []
    at = where
    for index, entry in enumerate(mappings(spec, "tolerations", at)):
        where = f"{at}tolerations[{index}]."
        found.append(
            Toleration(
                text(entry, "key", where),
                choice(entry, "operator", where, _TOLERATION_OPERATORS, "") or "Equal",
                text(entry, "value", where),
                choice(entry, "effect", where, _EFFECTS, ""),
                _seconds(entry.get("tolerationSeconds")),
            )
        )
    return tuple(found)


def _seconds(written: object) -> int | None:
    """Only evictions read it: a value that is no integer tolerates without end, and the pod stays readable."""
    return written if isinstance(written, int) and not isinstance(written, bool) else None


def taints(spec: Mapping[str, Any]) -> tuple[Taint, ...]:
    """`spec.taints` of a node."""
    found = []
    for index, entry in enumerate(mappings(spec, "taints", "spec.")):
        where = f"spec.taints[{index}]."
        key = text(entry, "key", where)
        if not key:
            raise InvalidObject(f"{where}key is missing")
        added = entry.get("timeAdded")
        time_added = added if isinstance(added, str) else ""
        found.append(Taint(key, text(entry, "value", where), text(entry, "effect", where), time_added))
    return tuple(found)


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
