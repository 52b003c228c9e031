"""Label and node selectors, tolerations and taints, inter-pod affinity and topology spread: who matches whom.

Semantics as in Kubernetes (`v1.NodeSelector`, `v1.Toleration`, `metav1.LabelSelector`, `v1.PodAffinityTerm`,
`v1.TopologySpreadConstraint`); matchLabelKeys of affinity terms are merged into the selectors already, as the
Kubernetes API server does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Operator(StrEnum):
    """Operators of selector requirements."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_INT64_DIGITS = 19


def parse_integer(text: str) -> int | None:
    """A base-10 int64 as Go's `strconv.ParseInt` reads it; None where that fails."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        return None
    significant = digits.lstrip("0")
    if len(significant) > _INT64_DIGITS:  # Python refuses to read thousands of digits
        return None
    value = int(significant or "0") * (-1 if text[0] == "-" else 1)
    return value if -(2**63) <= value < 2**63 else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a selector: key, operator, values."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels satisfies the requirement."""
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """Whether the label value (None = absent) satisfies the requirement.

        NotIn holds for an absent label; Gt and Lt need integers on both sides.
        """
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                if value is None or len(self.values) != 1:
                    return False
                left, right = parse_integer(value), parse_integer(self.values[0])
                if left is None or right is None:
                    return False
                return left > right if self.operator is Operator.GT else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A `metav1.LabelSelector` as requirements, ANDed; without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether all requirements hold for these labels."""
        return all(requirement.matches_value(labels.get(requirement.key)) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Requirements on a node's labels and on its name, ANDed; an empty term matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    """Over labels."""
    fields: tuple[Requirement, ...] = ()
    """Over `metadata.name`, the only field there is."""

    @property
    def empty(self) -> bool:
        """Whether the term has no requirement at all."""
        return not self.expressions and not self.fields

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name and these labels satisfies the term."""
        return (
            not self.empty
            and all(requirement.matches(labels) for requirement in self.expressions)
            and all(requirement.matches_value(name) for requirement in self.fields)
        )


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A weighted preference for nodes matching a term."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint; effect is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str
    time_added: str = field(default="", compare=False)
    """RFC 3339; empty where the node does not say it. No scheduling decision reads it."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; empty effect = every effect, empty key with Exists = every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = field(default=None, compare=False)
    """How long a NoExecute taint is tolerated; None = without end. No scheduling decision reads it."""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration matches the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        if self.operator in ("Equal", ""):
            # An empty key is only meaningful with Exists.
            return bool(self.key) and self.value == taint.value
        return False


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether any of the tolerations matches the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """Pods that match, near or far in the topology that the key spans."""

    topology_key: str
    selector: LabelSelector | None
    """None matches nothing; one without requirements matches everything."""
    namespaces: frozenset[str] = frozenset()
    """Always given by name: the owner's namespace where the term says nothing of namespaces."""
    namespace_selector: LabelSelector | None = None
    """More namespaces by their labels; None = no more, one without requirements = all."""

    def selects_namespace(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether pods of that namespace (with these labels) are meant."""
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(labels)

    def selects(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Whether a pod of that namespace with these labels matches."""
        return (
            self.selector is not None
            and self.selects_namespace(namespace, namespace_labels)
            and self.selector.matches(labels)
        )


@dataclass(frozen=True, slots=True)
class WeightedPodAffinityTerm:
    """A preference of weight 1 to 100."""

    weight: int
    term: PodAffinityTerm


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """How evenly matching pods must (hard) or should (soft) be spread over a topology."""

    max_skew: int
    topology_key: str
    hard: bool
    """DoNotSchedule; else ScheduleAnyway."""
    selector: LabelSelector | None = None
    """None matches nothing."""
    min_domains: int = 1
    honor_node_affinity: bool = True
    """Only nodes that the pod's node selector and affinity allow are counted."""
    honor_node_taints: bool = False
    """Only nodes whose taints the pod tolerates are counted."""
    match_label_keys: tuple[str, ...] = ()
    """Pods must also agree with this pod's values of these labels, those that it has."""
