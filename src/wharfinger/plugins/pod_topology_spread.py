"""PodTopologySpread: keeps matching pods evenly spread over the domains of a topology (zones, hosts, ...).

Hard constraints refuse nodes (`spread_filtering`), soft ones score them (`spread_scoring`). Counts are kept between
decisions (`spread_counting`): only nodes that changed are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    EventHint,
    Filter,
    PreFilter,
    PreFilterResult,
    PreScore,
    QueueingHints,
    RowSelection,
    Score,
)
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Status
from wharfinger.framework.verdicts import Verdicts
from wharfinger.model.events import ClusterEvent, Resource
from wharfinger.model.pod import Pod
from wharfinger.model.surroundings import Surroundings
from wharfinger.plugins import names
from wharfinger.plugins.pod_topology_spread_args import PodTopologySpreadArgs
from wharfinger.plugins.spread_constraints import PodSpreads, Spread
from wharfinger.plugins.spread_counting import SpreadCounts
from wharfinger.plugins.spread_filtering import verdicts
from wharfinger.plugins.spread_hints import NODE_ACTIONS, POD_ACTIONS, node_helps, pod_helps
from wharfinger.plugins.spread_scoring import SpreadScores

_SKIP = PreFilterResult(SKIP)
_PASS = PreFilterResult()
_HARD = "PodTopologySpread/hard"
_SOFT = "PodTopologySpread/soft"


class PodTopologySpread(PreFilter, Filter, PreScore, Score, QueueingHints):
    """The pod's own constraints, or the profile's defaults for a pod without any that belongs to something."""

    name = names.POD_TOPOLOGY_SPREAD

    def __init__(self, args: PodTopologySpreadArgs) -> None:
        self._system = args.system
        self._spreads = PodSpreads(args.constraints())
        self._counts = SpreadCounts()

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        """Skip for a pod without hard constraints."""
        spreads = self._spreads.of(pod, snapshot.surroundings, hard=True)
        state.write(_HARD, spreads)
        return _PASS if spreads else _SKIP

    def spreads_hard(self, pod: Pod, surroundings: Surroundings) -> bool:
        """Whether hard constraints hold for the pod: its bind then has to look at its whole namespace."""
        return bool(self._spreads.of(pod, surroundings, hard=True))

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
