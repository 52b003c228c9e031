"""Required rules across nodes, read plainly: pod by pod, as Kubernetes describes them.

A bind notices all other binds (`docs/decisions/0009`); it learns of changes that users make by the watch.
So a rule that was broken is excused when users changed what it reads so shortly before that a worker need not have
known: each breach says whether that is so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

from tests.faults.ledger import Ledger, Unguarded
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.selectors import PodAffinityTerm, SpreadConstraint, tolerates

Placed = list[tuple[Pod, Node]]


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule that does not hold for a pod that was just bound."""

    invariant: str
    text: str
    excused: bool


def breaches(ledger: Ledger, pod: Pod, since: float, without: Collection[PodKey] = ()) -> list[Breach]:
    """Rules that the pod broke where it is, as things are without some pods; `since`: what a worker may not know."""
    node = ledger.nodes.get(pod.node_name)
    if node is None:
        return []
    others = ledger.placed({*without, pod.key})
    found = _Rules(ledger, pod, node, others, ledger.changed_since(since))
    return [*found.anti_affinity(), *found.affinity(), *found.spread()]


@dataclass(frozen=True, slots=True)
class _Rules:
    ledger: Ledger
    pod: Pod
    node: Node
    others: Placed
    changes: list[Unguarded]

    def anti_affinity(self) -> Iterator[Breach]:
        """Nobody whom the pod keeps away from is near, nor anybody who keeps away from it."""
        for other, its_node in self.others:
            for one, two in ((self.pod, other), (other, self.pod)):
                for term in one.required_anti_affinity:
                    key = term.topology_key
                    near = key in self.node.labels and self.node.labels[key] == its_node.labels.get(key)
                    if near and self._selects(term, two):
                        text = f"{self.pod.key} on {self.node.name} beside {other.key} on {its_node.name} ({key})"
                        yield Breach("anti-affinity", text, self._moved(other, its_node))

    def affinity(self) -> Iterator[Breach]:
        """Each term finds a pod near that all terms mean; or there is none, and the pod is the first of its kind."""
        terms = self.pod.required_affinity
        if not terms:
            return
        meant = [(other, its_node) for other, its_node in self.others if self._all_select(terms, other)]
        counted = [
            (term.topology_key, its_node.labels[term.topology_key])
            for _, its_node in meant
            for term in terms
            if term.topology_key in its_node.labels
        ]
        first = not counted and self._all_select(terms, self.pod)
        for term in terms:
            value = self.node.labels.get(term.topology_key)
            if value is None or not (first or (term.topology_key, value) in counted):
                text = f"{self.pod.key} on {self.node.name} with none of its kind near ({term.topology_key}={value})"
                yield Breach("affinity", text, self._some_changed(partial(self._all_select, terms)))

    def spread(self) -> Iterator[Breach]:
        """No domain has more than `maxSkew` above the least."""
        hard = [constraint for constraint in self.pod.spread_constraints if constraint.hard]
        for constraint in hard:
            counts = self._counts(constraint, hard)
            value = self.node.labels.get(constraint.topology_key)
            least = min(counts.values()) if len(counts) >= constraint.min_domains else 0
            own = self._spreads_with(constraint, self.pod)
            if value is None or counts[value] + own - least > constraint.max_skew:
                text = f"{self.pod.key} on {self.node.name}: {dict(counts)} before ({constraint.topology_key}={value})"
                yield Breach("spread", text, self._some_changed(partial(self._spreads_with, constraint)))

    def _counts(self, constraint: SpreadConstraint, hard: list[SpreadConstraint]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for node in self.ledger.nodes.values():
            if all(each.topology_key in node.labels for each in hard) and self._takes_part(constraint, node):
                counts[node.labels[constraint.topology_key]] += 0
        for other, its_node in self.others:
            value = its_node.labels.get(constraint.topology_key)
            takes_part = all(each.topology_key in its_node.labels for each in hard)
            if value is not None and takes_part and self._takes_part(constraint, its_node):
                counts[value] += self._spreads_with(constraint, other) and not other.deletion_timestamp
        return counts

    def _takes_part(self, constraint: SpreadConstraint, node: Node) -> bool:
        chosen = not constraint.honor_node_affinity or selected(self.pod, node)
        return chosen and (not constraint.honor_node_taints or tolerated(self.pod, node))

    def _spreads_with(self, constraint: SpreadConstraint, other: Pod) -> bool:
        selector = constraint.selector
        return (
            selector is not None
            and other.namespace == self.pod.namespace
            and selector.matches(other.labels)
            and all(other.labels.get(key) == self.pod.labels.get(key) for key in constraint.match_label_keys)
        )

    def _selects(self, term: PodAffinityTerm, other: Pod) -> bool:
        return term.selects(other.namespace, self.ledger.spaces.get(other.namespace, {}), other.labels)

    def _all_select(self, terms: tuple[PodAffinityTerm, ...], other: Pod) -> bool:
        return all(self._selects(term, other) for term in terms)

    def _moved(self, other: Pod, its_node: Node) -> bool:
        """Users changed this pod or its node so late that a worker need not have known."""
        return any(
            its_node.name in change.nodes
            or any(
                pod is not None and pod.key == other.key for each in change.pods for pod in (each.before, each.after)
            )
            for change in self.changes
        )

    def _some_changed(self, meant: Callable[[Pod], bool]) -> bool:
        """Users changed a node, or a pod that is meant, so late that a worker need not have known."""
        return any(
            change.nodes or any(meant(pod) for each in change.pods for pod in each.states) for change in self.changes
        )


def selected(pod: Pod, node: Node) -> bool:
    """The pod's node selector and required node affinity allow the node."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    terms = pod.required_node_terms
    return terms is None or any(term.matches(node.name, node.labels) for term in terms)


def tolerated(pod: Pod, node: Node) -> bool:
    """The pod tolerates each taint of the node that keeps pods away."""
    return all(
        tolerates(pod.tolerations, taint) for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute")
    )
