"""Which of several topology domains suits a gang best: kube-scheduler's rule, in whole numbers.

The score of a domain is the sum of two parts of at most 100 points, as PodGroupPodsCount and NodeResourcesFit give them
to a placement with their default weights: how many members it takes, and how full it would be with them (MostAllocated
over cpu and memory of all its nodes). `gang_domains` orders the domains by it, and `gangs` compares what tries came to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import CPU, MEMORY
from wharfinger.objects.model.pod import Pod

_ALL_POINTS = 100
_RESOURCES: Mapping[str, Callable[[Pod], int]] = {
    CPU: lambda pod: pod.scoring_cpu,
    MEMORY: lambda pod: pod.scoring_memory,
}
"""Resources by whose use it is judged how full a domain is, and what a pod counts for."""


class Packing:
    """Scores for all domains of one decision."""

    def __init__(
        self, snapshot: Snapshot, codes: NDArray[np.int32], size: int, members: Sequence[Pod], *, packs: bool
    ) -> None:
        """`codes`: each node's domain, below `size`. `packs`: whether it counts how full a domain would be."""
        self._most = 1
        self._resources = [
            _Resource(
                request,
                members,
                capacity=_sums(snapshot.allocatable(name), codes, size),
                used=_sums(snapshot.requested_for_scoring(name), codes, size),
            )
            for name, request in (_RESOURCES.items() if packs else ())
        ]

    def take_most(self, most: int) -> None:
        """Set the number of members that counts as all points: the most that any domain can take."""
        self._most = max(1, most)

    def score(self, code: int, placed: Sequence[Pod]) -> int:
        """The points of a domain with these members."""
        shares = [one.share(code, sum(map(one.request, placed))) for one in self._resources if one.capacity[code] > 0]
        full = sum(shares) // len(shares) if shares else 0
        return _ALL_POINTS * len(placed) // self._most + full

    def bounds(self, counts: IntColumn) -> IntColumn:
        """By domain: the points that it has at most with so many of the members, whichever they are."""
        points = np.zeros_like(counts)
        offered = np.zeros_like(counts)
        for one in self._resources:
            there = one.capacity > 0
            use = np.minimum(one.used + one.largest[counts], one.capacity)
            points += np.where(there, _ALL_POINTS * use // np.maximum(one.capacity, 1), 0)
            offered += there
        return _ALL_POINTS * counts // self._most + points // np.maximum(offered, 1)


class _Resource:
    """One resource, summed over each domain."""

    def __init__(
        self, request: Callable[[Pod], int], members: Sequence[Pod], *, capacity: IntColumn, used: IntColumn
    ) -> None:
        """`request`: what a pod counts for. `capacity` and `used`: by domain."""
        self.request = request
        self.largest: IntColumn = np.cumsum([0, *sorted(map(request, members), reverse=True)], dtype=np.int64)
        """By number of members: what so many request at most."""
        self.capacity = capacity
        self.used = used

    def share(self, code: int, request: int) -> int:
        """Percent of the capacity in use with this request, rounded down; at most 100."""
        capacity = int(self.capacity[code])
        return _ALL_POINTS * min(int(self.used[code]) + request, capacity) // capacity


def _sums(column: IntColumn, codes: NDArray[np.int32], size: int) -> IntColumn:
    sums: IntColumn = np.zeros(size, dtype=np.int64)
    np.add.at(sums, codes, column)
    return sums
