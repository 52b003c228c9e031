"""Which spread constraints hold for a pod (its own, or the profile's defaults), and how many pods count for each.

The default selector is what the services that select the pod, and the replication controller, replica set or stateful
set that owns it, ask for together, as in kube-scheduler 1.36 (`plugins/helper/spread.go`). A pod that names no owner
belongs to whatever selects it: platforms without Kubernetes' controllers write no owner references.

Which nodes take part, and over which domains they lie, depends on nodes alone (labels, taints) and not on pods. So it
is kept until one of the columns it was read from is another one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wharfinger.framework.columns import BoolColumn, IntColumn, NodeColumns, RowNumbers
from wharfinger.framework.interned import Interned
from wharfinger.framework.plugins.node_matching import matches_any_term, matches_labels
from wharfinger.framework.plugins.pod_counting import PodTallies, label_test
from wharfinger.framework.plugins.taint_toleration import tolerated
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    SpreadConstraint,
    Toleration,
)
from wharfinger.objects.model.surroundings import PodCollection, Surroundings

_NAMESPACES = 1024
"""Namespaces whose collections are kept sorted at most."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A constraint with the selector that holds for one pod."""

    constraint: SpreadConstraint
    selector: LabelSelector | None
    """None matches nothing; one without requirements matches everything, but counts nothing."""
    matches_itself: bool
    """Whether the pod adds to what it is counted in."""

    @property
    def counts(self) -> bool:
        """Whether any pod can be counted."""
        return self.selector is not None and bool(self.selector.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is meant."""
        return self.selector is not None and self.selector.matches(labels)


class PodSpreads:
    """Finds the constraints of pods."""

    def __init__(self, defaults: Sequence[SpreadConstraint]) -> None:
        self._defaults = {hard: tuple(each for each in defaults if each.hard is hard) for hard in (True, False)}
        self._owners = Owners()

    def of(self, pod: Pod, surroundings: Surroundings, *, hard: bool) -> tuple[Spread, ...]:
        """The pod's hard or soft constraints; the defaults only if it has no constraint at all of its own."""
        if pod.spread_constraints:
            return tuple(_own(each, pod) for each in pod.spread_constraints if each.hard is hard)
        defaults = self._defaults[hard]
        if not defaults:
            return ()
        selector = self._owners.selector(pod, surroundings)
        return () if selector is None else tuple(Spread(each, selector, matches_itself=True) for each in defaults)


def _own(constraint: SpreadConstraint, pod: Pod) -> Spread:
    selector = constraint.selector
    if selector is not None and constraint.match_label_keys:
        selector = _also(selector, constraint.match_label_keys, pod.labels)
    return Spread(constraint, selector, matches_itself=selector is not None and selector.matches(pod.labels))


def _also(selector: LabelSelector, keys: Sequence[str], labels: Mapping[str, str]) -> LabelSelector:
    """The selector, which must also agree with the values of these labels; missing labels are ignored.

    A newer API server has merged them into the selector already: that must not make it another selector.
    """
    merged = (Requirement(key, Operator.IN, (labels[key],)) for key in keys if key in labels)
    return LabelSelector(tuple(dict.fromkeys((*selector.requirements, *merged))))


class Owners:
    """Finds the collections that a pod belongs to without asking all of its namespace.

    Most of them ask for one value of some label, so they are sorted by one such pair.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Sorted] = {}

    def selector(self, pod: Pod, surroundings: Surroundings) -> LabelSelector | None:
        """What all collections of the pod ask for together; None when it belongs to none."""
        collections = surroundings.collections.get(pod.namespace)
        if not collections:
            return None
        known = self._known.get(pod.namespace)
        if known is None or known.collections is not collections:
            if len(self._known) >= _NAMESPACES:
                self._known.clear()
            known = self._known[pod.namespace] = _Sorted(collections)
        selectors = known.selecting(pod)
        if len(selectors) < 2:
            return selectors[0] if selectors else None
        requirements = dict.fromkeys(requirement for each in selectors for requirement in each.requirements)
        return LabelSelector(tuple(requirements))


class _Sorted:
    """The collections of one namespace."""

    def __init__(self, collections: tuple[PodCollection, ...]) -> None:
        self.collections = collections
        self._tests = [label_test(each.selector) for each in collections]
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []
        for place, collection in enumerate(collections):
            pair = _pair(collection.selector)
            (self._others if pair is None else self._by_label.setdefault(pair, [])).append(place)

    def selecting(self, pod: Pod) -> list[LabelSelector]:
        """Selectors of the collections that the pod belongs to, in their order."""
        labels = pod.labels
        places = list(self._others)
        for pair in labels.items():
            places += self._by_label.get(pair, ())
        places.sort()
        return [
            self.collections[place].selector
            for place in places
            if self._tests[place](labels) and _may_own(self.collections[place], pod)
        ]


def _may_own(collection: PodCollection, pod: Pod) -> bool:
    return collection.kind == "Service" or pod.controller in (None, (collection.kind, collection.name))


def _pair(selector: LabelSelector) -> tuple[str, str] | None:
    """A label and the one value that the selector allows for it."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


_CHOICES = 256
"""Choices of nodes that are kept; those asked for least recently are dropped."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """What a node must be to be counted. Equal choices choose the same nodes."""

    keys: tuple[str, ...] = ()
    """Labels it must have."""
    selector: frozenset[tuple[str, str]] = frozenset()
    """Labels it must have with these values."""
    terms: tuple[NodeSelectorTerm, ...] | None = None
    """Terms of which it must match one; None = no requirement."""
    tolerations: tuple[Toleration, ...] | None = None
    """Its taints must be tolerated by these; None = taints do not matter."""

    @classmethod
    def of(cls, pod: Pod, keys: tuple[str, ...], *, honor_affinity: bool, honor_taints: bool) -> NodeChoice:
        """All topology keys, and what the constraint's inclusion policies ask for on behalf of the pod."""
        tolerations = pod.tolerations if honor_taints else None
        if not honor_affinity or (not pod.node_selector and pod.required_node_terms is None):
            return cls(keys, tolerations=tolerations)
        return cls(keys, frozenset(pod.node_selector.items()), pod.required_node_terms, tolerations)

    def columns(self, snapshot: Snapshot) -> tuple[object, ...]:
        """Everything the choice is read from: as long as these are the same objects, it holds."""
        keys = [*self.keys, *(key for key, _ in self.selector)]
        for term in self.terms or ():
            keys += [requirement.key for requirement in term.expressions]
        read: list[object] = [snapshot.node_columns.names, *(snapshot.label(key) for key in keys)]
        if self.tolerations is not None:
            read.append(snapshot.taints)
        return tuple(read)

    def mask(self, snapshot: Snapshot) -> BoolColumn:
        """The chosen nodes by row."""
        chosen = matches_labels(snapshot, dict(self.selector))
        for key in self.keys:
            chosen &= snapshot.label(key).codes != 0
        if self.terms is not None:
            chosen &= matches_any_term(snapshot, self.terms)
        tolerations = self.tolerations
        if tolerations is not None and not snapshot.taints.plain:
            chosen &= snapshot.taints.map(lambda taints: tolerated(tolerations, taints), np.bool_)
        return chosen


@dataclass(slots=True)
class CountedNodes:
    """The nodes chosen, in one state of all nodes."""

    among: BoolColumn | None
    """By row; None = all. The same array as long as the choice holds."""
    columns: tuple[object, ...] = ()
    seen: int = -1
    """When it last held, in changes of node columns: the quick way to see that nothing changed since."""
    _domains: dict[str, tuple[Interned[str | None], RowNumbers]] = field(default_factory=dict)
    """By key: the column that was looked at, and its codes."""

    def domains(self, snapshot: Snapshot, key: str) -> RowNumbers:
        """Codes of the label's values on the chosen nodes, ascending; 0 is one of them where some lack the label."""
        labels = snapshot.label(key)
        known = self._domains.get(key)
        if known is None or known[0] is not labels:
            codes = labels.codes if self.among is None else labels.codes[self.among]
            known = self._domains[key] = labels, np.flatnonzero(np.bincount(codes))
        return known[1]


class NodeChoices:
    """Chosen nodes by what was asked of them."""

    def __init__(self) -> None:
        self._known: OrderedDict[NodeChoice, CountedNodes] = OrderedDict()
        self._node_columns: NodeColumns | None = None
        """Of the snapshot that was looked at last; only these are held, for columns of old would add up."""
        self._changes = 0

    def counted(self, snapshot: Snapshot, choice: NodeChoice) -> CountedNodes:
        """The nodes of this snapshot that the choice allows."""
        if self._node_columns is not snapshot.node_columns:
            self._node_columns = snapshot.node_columns
            self._changes += 1
        known = self._known.get(choice)
        if known is not None:
            self._known.move_to_end(choice)
            if known.seen == self._changes:
                return known
        columns = choice.columns(snapshot)
        if known is not None and _same(known.columns, columns):
            known.seen = self._changes
            return known
        mask = choice.mask(snapshot)
        chosen = CountedNodes(None if mask.all() else mask, columns, self._changes)
        if len(snapshot) > 1:  # one node alone is looked at once and gone
            self._known[choice] = chosen
            self._known.move_to_end(choice)
            if len(self._known) > _CHOICES:
                self._known.popitem(last=False)
        return chosen


def _same(known: tuple[object, ...], columns: tuple[object, ...]) -> bool:
    return len(known) == len(columns) and all(one is other for one, other in zip(known, columns, strict=True))


class SpreadCounts:
    """What is kept between decisions: tallies of pods and choices of nodes. Right for any snapshot, in any order."""

    def __init__(self) -> None:
        self._tallies = PodTallies()
        self._choices = NodeChoices()

    def having(self, snapshot: Snapshot, keys: tuple[str, ...]) -> CountedNodes:
        """The nodes that have all these labels."""
        return self._choices.counted(snapshot, NodeChoice(keys))

    def nodes(self, snapshot: Snapshot, pod: Pod, spread: Spread, keys: tuple[str, ...]) -> CountedNodes:
        """The nodes that take part: they have all these labels, and the constraint's policies let them in."""
        constraint = spread.constraint
        choice = NodeChoice.of(
            pod, keys, honor_affinity=constraint.honor_node_affinity, honor_taints=constraint.honor_node_taints
        )
        return self._choices.counted(snapshot, choice)

    def rows(self, snapshot: Snapshot, pod: Pod, spread: Spread) -> IntColumn:
        """Matching pods on each node, whether it takes part or not. Not to be written to."""
        if spread.selector is None or not spread.counts:
            return snapshot.node_columns.names.zeros
        return self._tallies.tally(snapshot, pod.namespace, spread.selector).rows(snapshot)

    def sums(self, snapshot: Snapshot, pod: Pod, spread: Spread, nodes: CountedNodes) -> IntColumn | None:
        """Matching pods by code of the topology label, over the nodes that take part; None = nothing is counted."""
        if spread.selector is None or not spread.counts:
            return None
        tally = self._tallies.tally(snapshot, pod.namespace, spread.selector)
        return tally.sums(snapshot, spread.constraint.topology_key, nodes.among)
