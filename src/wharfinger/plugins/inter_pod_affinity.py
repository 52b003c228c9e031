"""InterPodAffinity: pods near pods, or far from them, in topologies that node labels span.

Required terms refuse nodes, those of placed pods too (whom a pod repels may not join it later); preferences, and
placed pods' required affinity, sum up to a score. Formulas, order of checks and words: kube-scheduler 1.36,
`plugins/interpodaffinity`. Pods are counted by `inter_pod_affinity_census`, over any number of decisions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    MAX_NODE_SCORE,
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
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.model.affinity import PodAffinityTerm
from wharfinger.model.pod import Pod
from wharfinger.plugins import names
from wharfinger.plugins.inter_pod_affinity_args import InterPodAffinityArgs
from wharfinger.plugins.inter_pod_affinity_census import Census, Role
from wharfinger.plugins.inter_pod_affinity_counts import Counts
from wharfinger.plugins.inter_pod_affinity_domains import MarkedDomains, WeighedDomains, any_domain
from wharfinger.plugins.inter_pod_affinity_hints import hints
from wharfinger.plugins.inter_pod_affinity_terms import Resolver, Selections

_REPELLED, _REPELS, _ALONE = 1, 2, 3
"""Codes of verdicts; what is checked first has the larger one."""
_STATUSES = (
    SUCCESS,
    unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
    unschedulable("node(s) didn't match pod anti-affinity rules"),
    unresolvable("node(s) didn't match pod affinity rules"),
)
_SKIP = PreFilterResult(SKIP)
_PASS = PreFilterResult()
_NOBODY = Counts()


class InterPodAffinity(PreFilter, Filter, PreScore, Score, Normalize, QueueingHints):
    """Looks at who is where, by domain."""

    name = names.INTER_POD_AFFINITY

    def __init__(self, args: InterPodAffinityArgs) -> None:
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_preferences = args.ignore_preferred_terms_of_existing_pods
        self._resolver = Resolver()
        self._censuses = (Census(), Census())

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:  # noqa: ARG002
        """Skip for a pod without required terms whom nobody repels."""
        if pod.required_affinity or pod.required_anti_affinity or self._census(snapshot).repelling(pod, snapshot):
            return _PASS
        return _SKIP

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
        """Nodes where a term of the pod's affinity finds nobody.

        Every term is about the same pods: those that satisfy all of them. Where there is none in the whole cluster
        and the pod satisfies its own terms, it is the first of a series and needs nobody.
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
        return _NOBODY if selections is None else self._census(snapshot).selected(selections, snapshot)
