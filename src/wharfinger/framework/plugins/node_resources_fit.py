"""NodeResourcesFit: a pod goes where its requests fit, and rather where the strategy says.

Order of reasons and integer rules: kube-scheduler 1.36, `plugins/noderesources` (`fit.go`, `least_allocated.go`,
`most_allocated.go`, `requested_to_capacity_ratio.go`). All arithmetic is int64 and truncates toward zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn, IntColumn, bounded, plus
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    EventHint,
    Filter,
    Local,
    NodeFilter,
    NodeScore,
    QueueingHints,
    RowSelection,
    Score,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import NodeResourcesFitArgs, ScoringStrategy, ShapePoint, StrategyType
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.node import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Node
from wharfinger.objects.model.pod import Pod

STANDARD = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Looked at in this order, before all others; every pod is taken to use them."""


def wanted(pod: Pod) -> list[tuple[str, int]]:
    """What the pod requests more than nothing of, the standard resources first."""
    standard = [(resource, bounded(pod.requests.get(resource, 0))) for resource in STANDARD]
    others = [
        (resource, bounded(amount))
        for resource, amount in pod.requests.items()
        if resource not in STANDARD and resource != PODS
    ]
    return [(resource, amount) for resource, amount in standard + others if amount > 0]


def is_extended(resource: str) -> bool:
    """Whether the resource is one that Kubernetes itself does not know."""
    return "/" in resource and "kubernetes.io/" not in resource


def counts(resource: str, request: int) -> bool:
    """Whether scoring looks at the resource: scalar resources that the pod does not request drop out."""
    return request != 0 or resource in STANDARD


def real_request(pod: Pod, resource: str) -> int:
    """The pod's request."""
    return bounded(pod.requests.get(resource, 0))


def scoring_request(pod: Pod, resource: str) -> int:
    """The request, with 100 milli-cpu and 200 MiB for each container that names none."""
    if resource == CPU:
        return bounded(pod.scoring_cpu)
    if resource == MEMORY:
        return bounded(pod.scoring_memory)
    return real_request(pod, resource)


def scoring_use(node: NodeInfo, resource: str) -> int:
    """What the pods on the node count for in scoring."""
    if resource == CPU:
        return node.scoring_cpu
    if resource == MEMORY:
        return node.scoring_memory
    return node.requested.get(resource, 0)


_TOO_MANY = "Too many pods"
_FULL = unschedulable(_TOO_MANY)
_UNRESOLVABLE_BIT = 62
_REASON_BITS = 60
"""A node's code has a bit per reason; a pod lacking more than 60 resources shares the last one among the rest."""


@dataclass(frozen=True, slots=True)
class _Lack:
    """One reason and the nodes it holds for."""

    reason: str
    nodes: BoolColumn
    never: BoolColumn | None = None
    """Where the request alone is more than the node has, so that evicting pods would not help."""


@dataclass(frozen=True, slots=True)
class _Reasons:
    """Statuses by code: a bit for each reason."""

    reasons: tuple[str, ...]

    def __getitem__(self, code: int) -> Status:
        held = tuple(reason for bit, reason in enumerate(self.reasons) if code >> min(bit, _REASON_BITS) & 1)
        never = code >> _UNRESOLVABLE_BIT & 1
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE if never else Code.UNSCHEDULABLE, held)


class NodeResourcesFit(Filter, NodeFilter, Score, NodeScore, Local, QueueingHints):
    """Looks at the number of pods and at every requested resource."""

    name = names.NODE_RESOURCES_FIT

    def __init__(self, args: NodeResourcesFitArgs) -> None:
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._strategy = strategy(args.scoring_strategy)
        self._resources = tuple((resource.name, resource.weight) for resource in args.scoring_strategy.resources)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """Refuses full nodes; names every resource that is short."""
        lacks: list[_Lack] = []
        full = snapshot.requested(PODS) >= snapshot.allocatable(PODS)
        if full.any():
            lacks.append(_Lack(_TOO_MANY, full))
        for resource, amount in self._looked_at(pod):
            allocatable = snapshot.allocatable(resource)
            short = allocatable - snapshot.requested(resource) < amount
            if short.any():
                lacks.append(_Lack(f"Insufficient {resource}", short, allocatable < amount))
        return _verdicts(lacks, len(snapshot)) if lacks else None

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:  # noqa: ARG002
        """Weighted mean over the resources of what the strategy makes of their use with the pod."""
        total = np.zeros_like(snapshot.node_columns.names.zeros[rows])
        weights: IntColumn | int = 0
        for resource, weight in self._resources:
            request = scoring_request(pod, resource)
            if not counts(resource, request):
                continue
            capacity = snapshot.allocatable(resource)[rows]
            use = plus(snapshot.requested_for_scoring(resource)[rows], request)
            scores, looked_at = self._strategy.scores(capacity, use)
            total += scores * weight
            weights = weights + (weight if looked_at is None else looked_at * np.int64(weight))
        return self._strategy.mean(total, weights)

    def signature(self, pod: Pod) -> Hashable:
        """What the pod asks for."""
        return tuple(pod.requests.items()), pod.scoring_cpu, pod.scoring_memory

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """The same, of one node."""
        looked_at = state.read(self.name)
        if looked_at is None:
            looked_at = self._looked_at(pod)
            state.write(self.name, looked_at)
        allocatable, requested = node.node.allocatable, node.requested
        full = len(node.pods) >= allocatable.get(PODS, 0)
        for resource, amount in looked_at:
            if bounded(allocatable.get(resource, 0)) - requested.get(resource, 0) < amount:
                return _lack(looked_at, node, full)
        return _FULL if full else SUCCESS

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:  # noqa: ARG002
        """The same, of one node."""
        total = weights = 0
        for resource, weight in self._resources:
            request = scoring_request(pod, resource)
            if counts(resource, request):
                use = scoring_use(node, resource) + request
                score, looked_at = self._strategy.score_one(bounded(node.allocatable(resource)), use)
                if looked_at:
                    total += score * weight
                    weights += weight
        return self._strategy.mean_one(total, weights) if weights else 0

    def queueing_hints(self) -> Sequence[EventHint]:
        """Room that appears: pods that end or shrink, nodes that come or grow."""
        return (
            EventHint(Resource.ASSIGNED_POD, Action.DELETE, _was_placed),
            EventHint(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN, self._shrinks_usefully),
            EventHint(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_SCALE_DOWN),
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, self._node_fits_now),
        )

    def _looked_at(self, pod: Pod) -> list[tuple[str, int]]:
        found = wanted(pod)
        if not self._ignored and not self._ignored_groups:
            return found
        return [(resource, amount) for resource, amount in found if not self._is_ignored(resource)]

    def _is_ignored(self, resource: str) -> bool:
        if not is_extended(resource):
            return False
        return resource in self._ignored or resource.partition("/")[0] in self._ignored_groups

    def _shrinks_usefully(self, pod: Pod, event: ClusterEvent) -> bool:
        if not isinstance(event.old, Pod) or not isinstance(event.new, Pod) or not event.new.node_name:
            return False
        before, after = event.old.requests, event.new.requests
        return any(after.get(resource, 0) < before.get(resource, 0) for resource, _ in self._looked_at(pod))

    def _node_fits_now(self, pod: Pod, event: ClusterEvent) -> bool:
        if not isinstance(event.new, Node):
            return False
        room = event.new.allocatable
        looked_at = self._looked_at(pod)
        if room.get(PODS, 0) < 1 or any(room.get(resource, 0) < amount for resource, amount in looked_at):
            return False
        if not isinstance(event.old, Node):
            return True
        before = event.old.allocatable
        return any(room.get(resource, 0) > before.get(resource, 0) for resource in (PODS, *dict(looked_at)))


def _lack(looked_at: Sequence[tuple[str, int]], node: NodeInfo, full: bool) -> Status:
    """The refusal of one node: everything that is short."""
    reasons = [_TOO_MANY] if full else []
    never = False
    for resource, amount in looked_at:
        room = bounded(node.allocatable(resource))
        if room - node.requested.get(resource, 0) < amount:
            reasons.append(f"Insufficient {resource}")
            never = never or room < amount
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE if never else Code.UNSCHEDULABLE, tuple(reasons))


def _verdicts(lacks: Sequence[_Lack], length: int) -> Verdicts:
    codes: NDArray[np.int64] = np.zeros(length, dtype=np.int64)
    for bit, lack in enumerate(lacks):
        codes |= lack.nodes * np.int64(1 << min(bit, _REASON_BITS))
        if lack.never is not None and lack.never.any():
            codes |= lack.never * np.int64(1 << _UNRESOLVABLE_BIT)
    return Verdicts(codes, _Reasons(tuple(lack.reason for lack in lacks)))


def _was_placed(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    gone = event.old
    return isinstance(gone, Pod) and bool(gone.node_name or gone.nominated_node_name)


_LARGEST_FACTOR = (2**63 - 1) // 100
_SHAPE_SCALE = 10
"""Shape scores run to 10, node scores to 100."""


class Strategy(ABC):
    """Scores one resource, then takes the mean over resources, cut toward zero."""

    @abstractmethod
    def scores(self, capacity: IntColumn, use: IntColumn) -> tuple[IntColumn, BoolColumn | None]:
        """0..100 a node, and where the resource counts in the mean (None = everywhere).

        A node without any of the resource (capacity 0) is left out and scores 0.
        """

    @abstractmethod
    def score_one(self, capacity: int, use: int) -> tuple[int, bool]:
        """`scores` of one node."""

    def mean(self, total: IntColumn, weights: IntColumn | int) -> IntColumn:
        """`total` over `weights`, 0 where nothing counted."""
        return total // np.maximum(weights, 1)

    def mean_one(self, total: int, weights: int) -> int:
        """`mean` of one node; `weights` above 0."""
        return total // weights


class LeastAllocated(Strategy):
    """The emptier the better: 100 x what would stay free."""

    def scores(self, capacity: IntColumn, use: IntColumn) -> tuple[IntColumn, BoolColumn | None]:
        """See Strategy."""
        present = _present(capacity)
        free = np.maximum(capacity - use, 0)
        return percent(free, capacity if present is None else np.maximum(capacity, 1)), present

    def score_one(self, capacity: int, use: int) -> tuple[int, bool]:
        """See Strategy."""
        if not capacity:
            return 0, False
        return ((capacity - use) * 100 // capacity if use < capacity else 0), True


class MostAllocated(Strategy):
    """The fuller the better: 100 x what would be used."""

    def scores(self, capacity: IntColumn, use: IntColumn) -> tuple[IntColumn, BoolColumn | None]:
        """See Strategy."""
        present = _present(capacity)
        used = np.minimum(use, capacity)
        return percent(used, capacity if present is None else np.maximum(capacity, 1)), present

    def score_one(self, capacity: int, use: int) -> tuple[int, bool]:
        """See Strategy."""
        return (min(use, capacity) * 100 // capacity, True) if capacity else (0, False)


class RequestedToCapacityRatioStrategy(Strategy):
    """A broken line from use (percent) to score; resources that score 0 are left out of the mean."""

    def __init__(self, shape: tuple[ShapePoint, ...]) -> None:
        self._line = np.array([score_at(shape, percent) for percent in range(101)], dtype=np.int64)

    def scores(self, capacity: IntColumn, use: IntColumn) -> tuple[IntColumn, BoolColumn | None]:
        """See Strategy."""
        utilization = percent(np.minimum(use, capacity), np.maximum(capacity, 1))
        scores: IntColumn = np.where(capacity == 0, 0, self._line[utilization])
        return scores, scores > 0

    def mean(self, total: IntColumn, weights: IntColumn | int) -> IntColumn:
        """See Strategy; rounded half up (nothing here is negative)."""
        divisor = np.maximum(weights, 1)
        rounded: IntColumn = (2 * total + divisor) // (2 * divisor)
        return rounded

    def score_one(self, capacity: int, use: int) -> tuple[int, bool]:
        """See Strategy."""
        score = int(self._line[min(use, capacity) * 100 // capacity]) if capacity else 0
        return score, score > 0

    def mean_one(self, total: int, weights: int) -> int:
        """See Strategy."""
        return (2 * total + weights) // (2 * weights)


def percent(part: IntColumn, whole: IntColumn) -> IntColumn:
    """100 x part div whole (never 0), exact also where the product does not fit int64 (from 83 PiB up)."""
    if part.max(initial=0) > _LARGEST_FACTOR:
        exact: IntColumn = (part.astype(object) * 100 // whole.astype(object)).astype(np.int64)
        return exact
    return part * 100 // whole


def score_at(shape: tuple[ShapePoint, ...], percent: int) -> int:
    """The broken line at one point, 0..100; between two points the product is cut toward zero."""
    before: ShapePoint | None = None
    for point in shape:
        if percent <= point.utilization:
            if before is None:
                return point.score * _SHAPE_SCALE
            rise = (point.score - before.score) * _SHAPE_SCALE * (percent - before.utilization)
            run = point.utilization - before.utilization
            # Go's division truncates where Python's floors; it matters for falling lines.
            return before.score * _SHAPE_SCALE + (rise // run if rise >= 0 else -(-rise // run))
        before = point
    return shape[-1].score * _SHAPE_SCALE


def strategy(args: ScoringStrategy) -> Strategy:
    """The strategy that the arguments name."""
    match args.type:
        case StrategyType.LEAST_ALLOCATED:
            return LeastAllocated()
        case StrategyType.MOST_ALLOCATED:
            return MostAllocated()
        case StrategyType.REQUESTED_TO_CAPACITY_RATIO:
            assert args.requested_to_capacity_ratio is not None
            return RequestedToCapacityRatioStrategy(args.requested_to_capacity_ratio.shape)


def _present(capacity: IntColumn) -> BoolColumn | None:
    present: BoolColumn = capacity != 0
    return None if present.all() else present
