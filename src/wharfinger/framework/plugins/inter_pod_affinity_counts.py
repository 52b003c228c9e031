"""Pods counted by node, and summed over topology domains.

Kept by node name, so that nodes may come and go; sums lie by code of the snapshot's label columns and are moved by
the difference when a pod comes or goes.
"""

from __future__ import annotations

import numpy as np

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.interned import Interned
from wharfinger.framework.snapshot import Snapshot

_KEYS = 8
"""Topology keys whose sums are kept for one count; the oldest goes."""
_FEW = 64
"""Below so many nodes, sums are made when asked and not kept: they are an array over all domains."""


class Counts:
    """How many pods of some kind each node has."""

    __slots__ = ("_sums", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        """By node name; no zeros."""
        self._sums: dict[str, tuple[Interned[str | None], IntColumn]] = {}

    def add(self, node: str, row: int, number: int) -> None:
        """More pods (fewer below 0) on a node that stands in this row of the snapshots that sums were made for."""
        left = self.nodes.get(node, 0) + number
        if left:
            self.nodes[node] = left
        else:
            self.nodes.pop(node, None)
        for labels, sums in self._sums.values():
            sums[labels.codes[row]] += number

    def renumber(self) -> None:
        """Nodes stand in other rows now."""
        self._sums.clear()

    def sums(self, snapshot: Snapshot, topology_key: str) -> IntColumn:
        """By code of `snapshot.label(topology_key)`: the sum over the nodes with that value.

        The snapshot must be the one that was counted last. Code 0 (nodes without the label) is no domain, whatever
        its sum. Valid until the next `add`; not to be written to; may be shorter than the column's table of values.
        """
        labels = snapshot.label(topology_key)
        known = self._sums.get(topology_key)
        if known is not None and known[0] is labels:
            return known[1]
        sums = np.zeros(len(labels.values), dtype=np.int64)
        if self.nodes:
            index = snapshot.index
            rows = np.fromiter((index[name] for name in self.nodes), dtype=np.intp, count=len(self.nodes))
            numbers = np.fromiter(self.nodes.values(), dtype=np.int64, count=len(self.nodes))
            np.add.at(sums, labels.codes[rows], numbers)
        if len(self.nodes) >= _FEW:
            if known is None and len(self._sums) >= _KEYS:
                del self._sums[next(iter(self._sums))]
            self._sums[topology_key] = labels, sums
        return sums
