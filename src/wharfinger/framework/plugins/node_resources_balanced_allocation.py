"""NodeResourcesBalancedAllocation: rather where the pod evens out the use of the resources.

Formula of kube-scheduler 1.36 (`noderesources/balanced_allocation.go`): the balance of the node with the pod against
the balance without it. Floats are taken in its order of operations; another order would flip a point now and then.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import IntColumn, bounded, plus
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    EventHint,
    Local,
    NodeScore,
    PreScore,
    QueueingHints,
    RowSelection,
    Score,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import NodeResourcesBalancedAllocationArgs
from wharfinger.framework.plugins.node_resources_fit import counts, real_request
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Status
from wharfinger.objects.model.pod import Pod

FloatColumn = NDArray[np.float64]
_PAIR = 2


class NodeResourcesBalancedAllocation(PreScore, Score, NodeScore, Local, QueueingHints):
    """75 is neutral; towards 100 the node becomes better balanced, towards 50 worse."""

    name = names.NODE_RESOURCES_BALANCED_ALLOCATION

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        self._resources = tuple(resource.name for resource in args.resources)

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> Status:  # noqa: ARG002
        """Skip when the pod requests none of the resources."""
        return SUCCESS if any(real_request(pod, resource) for resource in self._resources) else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:  # noqa: ARG002
        """50 + (50 + balance with the pod - balance without) div 2."""
        capacities: list[IntColumn] = []
        before: list[IntColumn] = []
        after: list[IntColumn] = []
        for resource in self._resources:
            request = real_request(pod, resource)
            if counts(resource, request):
                used = snapshot.requested(resource)[rows]
                capacities.append(snapshot.allocatable(resource)[rows])
                before.append(used)
                after.append(plus(used, request))
        gain = balance(capacities, after) - balance(capacities, before)
        score: IntColumn = 50 + (50 + gain) // 2
        return score

    def signature(self, pod: Pod) -> Hashable:
        """What the pod asks for."""
        return tuple(pod.requests.items())

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:  # noqa: ARG002
        """The same, of one node."""
        before: list[float] = []
        after: list[float] = []
        for resource in self._resources:
            request = real_request(pod, resource)
            capacity = float(bounded(node.allocatable(resource)))
            if capacity and counts(resource, request):
                used = bounded(node.requested.get(resource, 0))
                before.append(min(used / capacity, 1.0))
                after.append(min(float(bounded(used + request)) / capacity, 1.0))
        gain = balance_one(after) - balance_one(before)
        return 50 + (50 + gain) // 2

    def queueing_hints(self) -> Sequence[EventHint]:
        """Refuses nothing, so nothing helps."""
        return ()


def balance(capacities: Sequence[IntColumn], uses: Sequence[IntColumn]) -> IntColumn:
    """trunc((1 - deviation of the used fractions) x 100), 50..100; a resource with capacity 0 is left out."""
    present = [capacity != 0 for capacity in capacities]
    everywhere = all(column.all() for column in present)
    fractions = [
        np.minimum(use / (capacity if everywhere else np.maximum(capacity, 1)), 1.0)
        for capacity, use in zip(capacities, uses, strict=True)
    ]
    deviation = _deviation(fractions) if everywhere else _deviation_among(fractions, present)
    return ((1.0 - deviation) * 100.0).astype(np.int64)


def balance_one(fractions: Sequence[float]) -> int:
    """The same of one node, over the resources that it has."""
    deviation = 0.0
    if len(fractions) == _PAIR:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > _PAIR:
        mean = sum(fractions, 0.0) / len(fractions)
        squares = sum(((fraction - mean) * (fraction - mean) for fraction in fractions), 0.0)
        deviation = math.sqrt(squares / len(fractions))
    return int((1.0 - deviation) * 100.0)


def _deviation(fractions: Sequence[FloatColumn]) -> FloatColumn:
    if len(fractions) == _PAIR:
        pair: FloatColumn = np.abs((fractions[0] - fractions[1]) / 2)
        return pair
    if len(fractions) < _PAIR:
        return np.zeros_like(fractions[0])
    return _deviation_among(fractions, [np.ones(len(fractions[0]), dtype=np.bool_)] * len(fractions))


def _deviation_among(fractions: Sequence[FloatColumn], present: Sequence[NDArray[np.bool_]]) -> FloatColumn:
    """The same where each node may lack some of the resources. Sums run in the order of the resources."""
    number = np.sum(present, axis=0)
    total = np.zeros_like(fractions[0])
    for fraction, here in zip(fractions, present, strict=True):
        total = total + np.where(here, fraction, 0.0)
    mean = total / np.maximum(number, 1)
    squares = np.zeros_like(total)
    for fraction, here in zip(fractions, present, strict=True):
        squares = squares + np.where(here, (fraction - mean) * (fraction - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(number, 1))
    return np.where(number > _PAIR, deviation, np.where(number == _PAIR, _half_difference(fractions, present), 0.0))


def _half_difference(fractions: Sequence[FloatColumn], present: Sequence[NDArray[np.bool_]]) -> FloatColumn:
    """Half the difference of a node's two fractions; meaningful where there are two."""
    difference = np.zeros_like(fractions[0])
    sign = np.ones_like(difference)
    for fraction, here in zip(fractions, present, strict=True):
        difference = difference + np.where(here, sign * fraction, 0.0)
        sign = np.where(here, -sign, sign)
    half: FloatColumn = np.abs(difference / 2)
    return half
