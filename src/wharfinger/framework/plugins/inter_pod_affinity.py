"""InterPodAffinity: pods near pods, or far from them, in topologies that node labels span.

Required terms refuse nodes, those of placed pods too (whom a pod repels may not join it later); preferences, and
placed pods' required affinity, sum up to a score. Formulas, order of checks, words and hints: kube-scheduler 1.36,
`plugins/interpodaffinity`. Two hints go beyond it: a pod without terms of its own, refused because placed pods repel
it, hears of nodes that appear or change their labels; the first pod of a series of the end of the last one. Pods are
counted by `inter_pod_affinity_census`, over any number of decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn, IntColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    MAX_NODE_SCORE,
    PASSES,
    SKIPS,
    EventHint,
    Filter,
    Normalize,
    PreFilter,
    PreFilterResult,
    PreScore,
    QueueingHints,
    RowSelection,
    Score,
)
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import InterPodAffinityArgs
from wharfinger.framework.plugins.inter_pod_affinity_census import Census, Counts, Role
from wharfinger.framework.plugins.inter_pod_affinity_terms import Resolver, Selections
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import PodAffinityTerm
from wharfinger.objects.model.surroundings import Surroundings

_REPELLED, _REPELS, _ALONE = 1, 2, 3
"""Codes of verdicts; what is checked first has the larger one."""
_STATUSES = (
    SUCCESS,
    unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
    unschedulable("node(s) didn't match pod anti-affinity rules"),
    unresolvable("node(s) didn't match pod affinity rules"),
)
_NO_PODS = Counts()


class InterPodAffinity(PreFilter, Filter, PreScore, Score, Normalize, QueueingHints):
    """Counts the pods of each topology domain that terms select."""

    name = names.INTER_POD_AFFINITY

    def __init__(self, args: InterPodAffinityArgs) -> None:
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_preferences = args.ignore_preferred_terms_of_existing_pods
        self._resolver = Resolver()
        self._censuses = (Census(), Census())

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:  # noqa: ARG002
        """Skip for a pod without required terms that no pod repels."""
        if pod.required_affinity or pod.required_anti_affinity or self._census(snapshot).repelling(pod, snapshot):
            return PASSES
        return SKIPS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """First the pod's affinity, then its anti-affinity, then the anti-affinity of placed pods."""
        domains = MarkedDomains(snapshot)
        for carried, counts in self._census(snapshot).repelling(pod, snapshot):
            key = carried.term.topology_key
            domains.mark(key, counts.sums(snapshot, key), _REPELLED)
        for term in pod.required_anti_affinity:
            domains.mark(term.topology_key, self._sums(term, snapshot), _REPELS)
        if pod.required_affinity:
            self._mark_alone(domains, pod, snapshot)
        codes = domains.codes()
        return None if codes is None else Verdicts(codes, _STATUSES)

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> Status:  # noqa: ARG002
        """Skip when no preference, of the pod or of placed ones, says anything of any domain."""
        weighed = self._weigh(pod, snapshot)
        if weighed.empty:
            return SKIP
        state.write(self.name, weighed)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:
        """The sum of what weighs in each node's domains; may be negative."""
        weighed: WeighedDomains | None = state.read(self.name)
        return (self._weigh(pod, snapshot) if weighed is None else weighed).rows(snapshot, rows)

    def normalize(
        self,
        state: CycleState,  # noqa: ARG002
        pod: Pod,  # noqa: ARG002
        scores: IntColumn,
        snapshot: Snapshot,  # noqa: ARG002
        rows: RowSelection,  # noqa: ARG002
    ) -> IntColumn:
        """The lowest gets 0, the highest 100, cut to whole numbers; 0 for all when they are equal."""
        lowest = int(scores.min())
        spread = int(scores.max()) - lowest
        if spread == 0:
            return np.zeros_like(scores)
        # In exactly this order: another one differs in the last bit, and so by a whole point.
        scaled: IntColumn = (float(MAX_NODE_SCORE) * ((scores - lowest) / float(spread))).astype(np.int64)
        return scaled

    def queueing_hints(self) -> Sequence[EventHint]:
        """Pods that come to satisfy a term or cease to offend one; nodes that change a topology."""
        return hints()

    def _census(self, snapshot: Snapshot) -> Census:
        """The census of these nodes. The two differ in size: one of the cluster, one of parts that are looked at."""
        for census in self._censuses:
            if census.counted(snapshot):
                return census
        return min(self._censuses, key=lambda census: abs(census.nodes - len(snapshot)))

    def _mark_alone(self, domains: MarkedDomains, pod: Pod, snapshot: Snapshot) -> None:
        """Nodes where a term of the pod's affinity matches no pod.

        Every term is about the same pods: those that satisfy all of them. Where there is none in the whole cluster
        and the pod satisfies its own terms, it is the first of a series and needs no other pod.
        """
        selections = self._resolver.selections(pod.required_affinity, snapshot.surroundings)
        counts = self._counts(selections, snapshot)
        by_key = {term.topology_key: counts.sums(snapshot, term.topology_key) for term in pod.required_affinity}
        first = (
            selections is not None
            and not (counts.nodes and any(any_domain(sums) for sums in by_key.values()))
            and all(selection.selects(pod) for selection in selections)
        )
        for key, sums in by_key.items():
            domains.mark_lacking(key, None if first else sums, _ALONE)

    def _weigh(self, pod: Pod, snapshot: Snapshot) -> WeighedDomains:
        weighed = WeighedDomains()
        prefers = pod.preferred_affinity or pod.preferred_anti_affinity
        if self._ignore_preferences and not prefers:
            return weighed
        for preferred in pod.preferred_affinity:
            self._weigh_own(weighed, snapshot, preferred.term, preferred.weight)
        for preferred in pod.preferred_anti_affinity:
            self._weigh_own(weighed, snapshot, preferred.term, -preferred.weight)
        for carried, counts in self._census(snapshot).attracting(pod, snapshot):
            weight = self._hard_weight if carried.role is Role.REQUIRES else carried.weight
            if weight:
                key = carried.term.topology_key
                weighed.weigh(snapshot, key, counts.sums(snapshot, key), weight)
        return weighed

    def _weigh_own(self, weighed: WeighedDomains, snapshot: Snapshot, term: PodAffinityTerm, weight: int) -> None:
        weighed.weigh(snapshot, term.topology_key, self._sums(term, snapshot), weight)

    def _sums(self, term: PodAffinityTerm, snapshot: Snapshot) -> IntColumn:
        """By domain: the pods that one term of the pod to be placed means."""
        selections = self._resolver.selections((term,), snapshot.surroundings)
        return self._counts(selections, snapshot).sums(snapshot, term.topology_key)

    def _counts(self, selections: Selections | None, snapshot: Snapshot) -> Counts:
        return _NO_PODS if selections is None else self._census(snapshot).selected(selections, snapshot)


def hints() -> Sequence[EventHint]:
    """All of them."""
    pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
    return (
        EventHint(Resource.ASSIGNED_POD, pods, _pod_helps),
        EventHint(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL),
        EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, _node_helps),
        EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, _may_not_repel, beyond=True),
        EventHint(Resource.ASSIGNED_POD, Action.DELETE, _was_last_of_series, beyond=True),
    )


def _pod_helps(pod: Pod, event: ClusterEvent) -> bool:
    old, new, around = event.old, event.new, event.surroundings
    if not isinstance(old, Pod):
        return isinstance(new, Pod) and _satisfies(pod.required_affinity, new, around)
    if not isinstance(new, Pod):
        return _offended(pod, old, around)
    if _satisfies(pod.required_affinity, new, around) and not _satisfies(pod.required_affinity, old, around):
        return True
    terms = pod.required_anti_affinity
    return any(_selects(term, old, around) and not _selects(term, new, around) for term in terms)


def _offended(pod: Pod, gone: Pod, around: Surroundings) -> bool:
    """Whether one repels the other."""
    return any(_selects(term, gone, around) for term in pod.required_anti_affinity) or any(
        _selects(term, pod, around) for term in gone.required_anti_affinity
    )


def _was_last_of_series(pod: Pod, event: ClusterEvent) -> bool:
    """Whether the pod may be the first of a series that the gone one belonged to."""
    terms, around = pod.required_affinity, event.surroundings
    return isinstance(event.old, Pod) and _satisfies(terms, event.old, around) and _satisfies(terms, pod, around)


def _may_not_repel(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    """Whom placed pods repel does not know their topologies: any node may lie outside them now."""
    return not pod.required_affinity and not pod.required_anti_affinity


def _node_helps(pod: Pod, event: ClusterEvent) -> bool:
    old, new = event.old, event.new
    if not isinstance(new, Node):
        return False
    if not isinstance(old, Node):
        affinity = pod.required_affinity
        return bool(pod.required_anti_affinity) or any(term.topology_key in new.labels for term in affinity)
    for term in pod.required_affinity:
        value = new.labels.get(term.topology_key)
        if value is not None and value != old.labels.get(term.topology_key):
            return True
    for term in pod.required_anti_affinity:
        value = old.labels.get(term.topology_key)
        if value is not None and value != new.labels.get(term.topology_key):
            return True
    return False


def _satisfies(terms: Iterable[PodAffinityTerm], pod: Pod, around: Surroundings) -> bool:
    """Whether the pod is one that all the terms mean; no terms, no such pod."""
    wanted = tuple(terms)
    return bool(wanted) and all(_selects(term, pod, around) for term in wanted)


def _selects(term: PodAffinityTerm, pod: Pod, around: Surroundings) -> bool:
    return term.selects(pod.namespace, around.namespace_labels(pod.namespace), pod.labels)


Marks = NDArray[np.int8]


class MarkedDomains:
    """Refusals by domain: of several for one node, the largest code holds."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._marks: dict[str, Marks] = {}

    def mark(self, topology_key: str, sums: IntColumn, code: int) -> None:
        """Domains where pods are counted; nodes without the label are in none."""
        marks = self._of(topology_key)[1 : len(sums)]
        np.maximum(marks, (sums[1:] > 0).view(np.int8) * np.int8(code), out=marks)

    def mark_lacking(self, topology_key: str, sums: IntColumn | None, code: int) -> None:
        """Nodes without the label, and domains where no pod is counted (None = any domain will do)."""
        marks = self._of(topology_key)
        marks[0] = max(int(marks[0]), code)
        if sums is not None:
            there = marks[1 : len(sums)]
            np.maximum(there, (sums[1:] <= 0).view(np.int8) * np.int8(code), out=there)

    def codes(self) -> Marks | None:
        """By row; None when no node lies in a marked domain."""
        codes: Marks | None = None
        for key, marks in self._marks.items():
            if marks.any():
                found = marks.take(self._snapshot.label(key).codes)
                codes = found if codes is None else np.maximum(codes, found)
        return codes if codes is not None and codes.any() else None

    def _of(self, topology_key: str) -> Marks:
        marks = self._marks.get(topology_key)
        if marks is None:
            marks = np.zeros(len(self._snapshot.label(topology_key).values), dtype=np.int8)
            self._marks[topology_key] = marks
        return marks


class WeighedDomains:
    """Numbers by domain; a node has the sum over the domains it lies in."""

    def __init__(self) -> None:
        self._weights: dict[str, IntColumn] = {}

    def weigh(self, snapshot: Snapshot, topology_key: str, sums: IntColumn, weight: int) -> None:
        """Add `weight` for every pod counted."""
        weights = self._weights.get(topology_key)
        if weights is None:
            weights = np.zeros(len(snapshot.label(topology_key).values), dtype=np.int64)
            self._weights[topology_key] = weights
        there = weights[1 : len(sums)]
        there += sums[1:] if weight == 1 else sums[1:] * weight

    @property
    def empty(self) -> bool:
        """Whether every domain weighs nothing."""
        return not any(weights.any() for weights in self._weights.values())

    def rows(self, snapshot: Snapshot, rows: RowSelection) -> IntColumn:
        """The selected nodes' sums."""
        total: IntColumn | None = None
        for key, weights in self._weights.items():
            found = weights.take(snapshot.label(key).codes[rows])
            total = found if total is None else total + found
        return snapshot.node_columns.names.zeros[rows] if total is None else total


def any_domain(sums: IntColumn) -> bool:
    """Whether a pod is counted in any domain at all."""
    present: BoolColumn = sums[1:] > 0
    return bool(present.any())
