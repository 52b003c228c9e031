"""PodTopologySpread: keeps matching pods evenly spread over the domains of a topology (zones, hosts, ...).

Hard constraints refuse nodes. With count = matching pods in the node's domain, least = the smallest count of any domain
that takes part (0 where there are fewer domains than `minDomains`), a node is refused when
count + self - least > maxSkew, and when it has no value for the topology key. The first constraint that refuses gives
the reason.

Soft ones score the feasible nodes. A node's cost is the sum over the constraints whose topology key it has of
count x ln(domains + 2) + maxSkew - 1, rounded half away from zero; the score is
100 x (highest + lowest - cost) div highest. For the hostname key the count is the node's own.

Formulas and hints: kube-scheduler 1.36, `plugins/podtopologyspread`. Counts are kept between decisions
(`spread_constraints`), so only nodes that changed are looked at again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

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
    PreFilter,
    PreFilterResult,
    PreScore,
    QueueingHints,
    RowSelection,
    Score,
)
from wharfinger.framework.interned import Interned
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import HOSTNAME, PodTopologySpreadArgs
from wharfinger.framework.plugins.spread_constraints import PodSpreads, Spread, SpreadCounts
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.surroundings import Surroundings

_HARD = "PodTopologySpread/hard"
_SOFT = "PodTopologySpread/soft"


class PodTopologySpread(PreFilter, Filter, PreScore, Score, QueueingHints):
    """The pod's own constraints, or the profile's defaults for a pod without any that belongs to something."""

    name = names.POD_TOPOLOGY_SPREAD

    def __init__(self, args: PodTopologySpreadArgs) -> None:
        self._system = args.system
        constraints = args.constraints()
        self._hard_defaults = any(each.hard for each in constraints)
        self._spreads = PodSpreads(constraints)
        self._counts = SpreadCounts()

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        """Skip for a pod without hard constraints."""
        if not (pod.spread_constraints or self._hard_defaults):
            return SKIPS
        spreads = self._spreads.of(pod, snapshot.surroundings, hard=True)
        state.write(_HARD, spreads)
        return PASSES if spreads else SKIPS

    def spreads_hard(self, pod: Pod, surroundings: Surroundings) -> bool:
        """Whether hard constraints hold for the pod: its bind then has to look at its whole namespace."""
        asked = pod.spread_constraints or self._hard_defaults
        return bool(asked and self._spreads.of(pod, surroundings, hard=True))

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:
        """Refuses domains that would have too many pods, and nodes without a topology key."""
        spreads: tuple[Spread, ...] | None = state.read(_HARD)
        if spreads is None:
            spreads = self._spreads.of(pod, snapshot.surroundings, hard=True)
        return verdicts(self._counts, pod, spreads, snapshot) if spreads else None

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> Status:  # noqa: ARG002
        """Skip for a pod without soft constraints."""
        spreads = self._spreads.of(pod, snapshot.surroundings, hard=False)
        state.write(_SOFT, spreads)
        return SUCCESS if spreads else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:
        """Fewer matching pods in the node's domains are better; 0..100 already."""
        spreads: tuple[Spread, ...] | None = state.read(_SOFT)
        if spreads is None:
            spreads = self._spreads.of(pod, snapshot.surroundings, hard=False)
        if not spreads:
            zeros: IntColumn = snapshot.node_columns.names.zeros[rows]
            return zeros
        # Nodes without a zone are spread over by host, but only by the built-in defaults.
        every_key = bool(pod.spread_constraints) or not self._system
        return SpreadScores(self._counts, pod, snapshot, rows, every_key=every_key).scores(spreads)

    def queueing_hints(self) -> Sequence[EventHint]:
        """Pods that count, nodes that take part, and what the pod itself says."""
        return (
            EventHint(Resource.ASSIGNED_POD, POD_ACTIONS, self._pod_helps),
            EventHint(Resource.UNSCHEDULED_POD, POD_ACTIONS, self._pod_helps),
            EventHint(Resource.NODE, NODE_ACTIONS, self._node_helps),
        )

    def _pod_helps(self, pod: Pod, event: ClusterEvent) -> bool:
        own = event.resource is Resource.UNSCHEDULED_POD and isinstance(event.new, Pod) and event.new.uid == pod.uid
        waiting = event.new if own and isinstance(event.new, Pod) else pod
        return pod_helps(waiting, self._hard(waiting, event), event)

    def _node_helps(self, pod: Pod, event: ClusterEvent) -> bool:
        return node_helps(self._hard(pod, event), event)

    def _hard(self, pod: Pod, event: ClusterEvent) -> tuple[Spread, ...]:
        return self._spreads.of(pod, event.surroundings, hard=True)


_MISMATCH = "node(s) didn't match pod topology spread constraints"
_STATUSES = (SUCCESS, unschedulable(_MISMATCH), unresolvable(f"{_MISMATCH} (missing required label)"))
_TOO_MANY, _NO_LABEL = 1, 2


def verdicts(counts: SpreadCounts, pod: Pod, spreads: tuple[Spread, ...], snapshot: Snapshot) -> Verdicts | None:
    """Verdicts by row; None = no node is refused, which most often needs no look at the rows."""
    keys = tuple([spread.constraint.topology_key for spread in spreads])
    complete = counts.having(snapshot, keys).among is None
    codes: NDArray[Any] | None = None
    for spread in spreads:
        refused = _refused_domains(counts, pod, spread, snapshot, keys)
        if refused is None and complete:
            continue
        labels = snapshot.label(spread.constraint.topology_key)
        by_code = np.zeros(len(labels.values), dtype=np.int8)
        if refused is not None:
            by_code[: len(refused)][refused] = _TOO_MANY
        by_code[0] = _NO_LABEL
        by_row = by_code.take(labels.codes)
        codes = by_row if codes is None else np.where(codes, codes, by_row)
    return None if codes is None else Verdicts(codes, _STATUSES)


def _refused_domains(
    counts: SpreadCounts, pod: Pod, spread: Spread, snapshot: Snapshot, keys: tuple[str, ...]
) -> BoolColumn | None:
    """By code of the topology label: whether the domain has too many pods; None = no domain has."""
    constraint = spread.constraint
    nodes = counts.nodes(snapshot, pod, spread, keys)
    sums = counts.sums(snapshot, pod, spread, nodes)
    if sums is None:
        return None  # 0 + self never exceeds a skew, which is 1 at least
    allowed = constraint.max_skew - spread.matches_itself
    highest = int(sums.max())
    if highest <= allowed:
        return None  # whatever the smallest count is
    domains = nodes.domains(snapshot, constraint.topology_key)
    # With fewer domains than minDomains, kube-scheduler takes the smallest count for 0, so that new domains are used.
    if len(domains) >= constraint.min_domains:
        allowed += int(sums.take(domains).min())
    return sums > allowed if highest > allowed else None


class SpreadScores:
    """Scores the feasible nodes (`rows`) of one snapshot for one pod."""

    def __init__(
        self, counts: SpreadCounts, pod: Pod, snapshot: Snapshot, rows: RowSelection, *, every_key: bool
    ) -> None:
        """`every_key`: nodes that lack a topology key get 0 and are left out of everything; else they are kept."""
        self._counts = counts
        self._pod = pod
        self._snapshot = snapshot
        self._rows = rows
        self._every_key = every_key

    def scores(self, spreads: tuple[Spread, ...]) -> IntColumn:
        """0..100 for each selected row."""
        keys = tuple([spread.constraint.topology_key for spread in spreads]) if self._every_key else ()
        having = self._counts.having(self._snapshot, keys).among
        kept = None if having is None else having[self._rows]
        if len(spreads) == 1 and spreads[0].constraint.topology_key != HOSTNAME:
            return self._by_domain(spreads[0], keys, kept)
        costs = self._costs(spreads, keys, kept)
        if kept is None:
            return normalized(costs, int(costs.max()), int(costs.min())) if len(costs) else costs
        scores = np.zeros(len(costs), dtype=np.int64)
        if kept.any():
            of_kept = costs[kept]
            scores[kept] = normalized(of_kept, int(of_kept.max()), int(of_kept.min()))
        return scores

    def _by_domain(self, spread: Spread, keys: tuple[str, ...], kept: BoolColumn | None) -> IntColumn:
        """With one constraint all nodes of a domain score the same: reckoned per domain, then spread over the rows."""
        labels = self._labels(spread)
        domains = self._domains(spread, keys, kept)
        costs = rounded(self._cost_by_code(spread, keys, len(domains)))
        among = costs.take(domains)
        if len(among):
            costs = normalized(costs, int(among.max()), int(among.min()))
        if self._every_key:
            costs[0] = 0
        scores: IntColumn = costs.take(labels.codes[self._rows])
        return scores

    def _costs(self, spreads: tuple[Spread, ...], keys: tuple[str, ...], kept: BoolColumn | None) -> IntColumn:
        total: NDArray[np.float64] | None = None
        for spread in spreads:
            if spread.constraint.topology_key == HOSTNAME:
                part = self._own_costs(spread, kept)
            else:
                by_code = self._cost_by_code(spread, keys, len(self._domains(spread, keys, kept)))
                part = by_code.take(self._labels(spread).codes[self._rows])
            total = part if total is None else total + part
        assert total is not None
        return rounded(total)

    def _own_costs(self, spread: Spread, kept: BoolColumn | None) -> NDArray[np.float64]:
        """For the hostname key, by selected row."""
        own = self._counts.rows(self._snapshot, self._pod, spread)[self._rows]
        size = len(own) if kept is None else int(np.count_nonzero(kept))
        costs = own * np.float64(math.log(size + 2))
        costs += spread.constraint.max_skew - 1
        if self._counts.having(self._snapshot, (HOSTNAME,)).among is not None:
            costs[self._labels(spread).codes[self._rows] == 0] = 0.0
        return costs

    def _cost_by_code(self, spread: Spread, keys: tuple[str, ...], size: int) -> NDArray[np.float64]:
        """By code of the topology label; nothing where it is absent."""
        nodes = self._counts.nodes(self._snapshot, self._pod, spread, keys)
        sums = self._counts.sums(self._snapshot, self._pod, spread, nodes)
        labels = self._labels(spread)
        if sums is None:
            sums = np.zeros(len(labels.values), dtype=np.int64)
        elif not self._every_key and 0 < labels.code("") < len(sums):
            sums = sums.copy()  # a missing label is the same domain as an empty one
            sums[labels.code("")] += sums[0]
        costs = sums * np.float64(math.log(size + 2))
        costs += spread.constraint.max_skew - 1
        costs[0] = 0.0
        return costs

    def _domains(self, spread: Spread, keys: tuple[str, ...], kept: BoolColumn | None) -> NDArray[np.intp]:
        """Codes of the label's values on the feasible nodes that are not left out; 0 is one where some lack it."""
        labels = self._labels(spread)
        if isinstance(self._rows, slice):
            codes = self._counts.having(self._snapshot, keys).domains(self._snapshot, spread.constraint.topology_key)
        else:
            of_rows = labels.codes[self._rows]
            codes = np.flatnonzero(np.bincount(of_rows if kept is None else of_rows[kept]))
        if not self._every_key and len(codes) and codes[0] == 0 and labels.code("") in codes:
            codes = codes[1:]
        return codes

    def _labels(self, spread: Spread) -> Interned[str | None]:
        return self._snapshot.label(spread.constraint.topology_key)


def rounded(costs: NDArray[np.float64]) -> IntColumn:
    """Half away from zero; costs are 0 or at least ln 2, where floor(x + 1/2) is just that."""
    whole: IntColumn = np.floor(costs + 0.5).astype(np.int64)
    return whole


def normalized(costs: IntColumn, highest: int, lowest: int) -> IntColumn:
    """The lowest cost becomes the best score."""
    if highest == 0:
        return np.full_like(costs, MAX_NODE_SCORE)
    scores: IntColumn = (highest + lowest - costs) * MAX_NODE_SCORE // highest
    return scores


def pod_helps(waiting: Pod, spreads: tuple[Spread, ...], event: ClusterEvent) -> bool:
    """A pod that counts in a constraint comes or goes or changes sides; the waiting pod's own labels or tolerations."""
    old = event.old if isinstance(event.old, Pod) else None
    new = event.new if isinstance(event.new, Pod) else None
    if any(pod is not None and not _involved(pod, waiting) for pod in (old, new)):
        return False
    if old is None or new is None:
        pod = new or old
        return pod is not None and any(spread.matches(pod.labels) for spread in spreads)
    honors_taints = any(spread.constraint.honor_node_taints for spread in spreads)
    if honors_taints and old.tolerations != new.tolerations and new.uid == waiting.uid:
        return True
    return old.labels != new.labels and any(
        spread.matches(old.labels) is not spread.matches(new.labels) for spread in spreads
    )


def node_helps(spreads: tuple[Spread, ...], event: ClusterEvent) -> bool:
    """A node with all topology keys comes or goes, gets or loses one, gets another value, or other taints."""
    keys = [spread.constraint.topology_key for spread in spreads]
    old = event.old if isinstance(event.old, Node) else None
    new = event.new if isinstance(event.new, Node) else None
    before = old is not None and all(key in old.labels for key in keys)
    after = new is not None and all(key in new.labels for key in keys)
    if old is None or new is None:
        return before or after
    if before is not after:
        return True
    return after and (old.taints != new.taints or any(old.labels[key] != new.labels[key] for key in keys))


def _involved(pod: Pod, waiting: Pod) -> bool:
    return pod.uid == waiting.uid or (pod.bound and pod.namespace == waiting.namespace)


POD_ACTIONS = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
NODE_ACTIONS = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
