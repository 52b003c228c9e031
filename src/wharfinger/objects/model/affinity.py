"""A pod's terms about other pods: inter-pod affinity and topology spread.

Semantics as in Kubernetes (`v1.PodAffinityTerm`, `v1.TopologySpreadConstraint`); matchLabelKeys of affinity terms are
merged into the selectors already, as the Kubernetes API server does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wharfinger.objects.model.selectors import LabelSelector


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
