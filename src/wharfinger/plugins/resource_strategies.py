"""The three scoring strategies of NodeResourcesFit, over all nodes at once.

All arithmetic is int64 and truncates toward zero, as kube-scheduler's does (`noderesources/least_allocated.go`,
`most_allocated.go`, `requested_to_capacity_ratio.go`).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from wharfinger.framework.columns import BoolColumn, IntColumn
from wharfinger.plugins.resource_args import ScoringStrategy, ShapePoint, StrategyType

_LARGEST_FACTOR = (2**63 - 1) // 100
_SHAPE_SCALE = 10
"""Shape scores run to 10, node scores to 100."""


class Strategy(Protocol):
    """Scores one resource, then takes the mean over resources."""

    def scores(self, capacity: IntColumn, use: IntColumn) -> tuple[IntColumn, BoolColumn | None]:
        """0..100 a node, and where the resource counts in the mean (None = everywhere).

        A node without any of the resource (capacity 0) is left out and scores 0.
        """
        ...

    def mean(self, total: IntColumn, weights: IntColumn | int) -> IntColumn:
        """`total` over `weights`, 0 where nothing counted."""
        ...

    def score_one(self, capacity: int, use: int) -> tuple[int, bool]:
        """`scores` of one node."""
        ...

    def mean_one(self, total: int, weights: int) -> int:
        """`mean` of one node; `weights` above 0."""
        ...


class _Truncating:
    """The mean cut toward zero."""

    def mean(self, total: IntColumn, weights: IntColumn | int) -> IntColumn:
        """See Strategy."""
        return total // np.maximum(weights, 1)

    def mean_one(self, total: int, weights: int) -> int:
        """See Strategy."""
        return total // weights


class LeastAllocated(_Truncating):
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


class MostAllocated(_Truncating):
    """The fuller the better: 100 x what would be used."""

    def scores(self, capacity: IntColumn, use: IntColumn) -> tuple[IntColumn, BoolColumn | None]:
        """See Strategy."""
        present = _present(capacity)
        used = np.minimum(use, capacity)
        return percent(used, capacity if present is None else np.maximum(capacity, 1)), present

    def score_one(self, capacity: int, use: int) -> tuple[int, bool]:
        """See Strategy."""
        return (min(use, capacity) * 100 // capacity, True) if capacity else (0, False)


class RequestedToCapacityRatioStrategy:
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
