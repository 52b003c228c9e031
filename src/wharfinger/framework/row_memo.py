"""Numbers per node that are kept in step with the snapshots they are asked for.

Between two decisions a few rows change. Whatever is derived row by row (how many pods match a selector, which filter
refuses) is kept from one decision to the next, and only rows with another stamp are derived anew. Any snapshot will
do, older ones and branches too: stamps tell what differs. Values are copied before they are changed, so what was
handed out earlier stays true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from wharfinger.framework.columns import IntColumn, NodeNames, RowNumbers
from wharfinger.framework.interned import Interned
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot


class RowMemo:
    """Remembers for which states of the rows something was derived."""

    __slots__ = ("_names", "_stamps")

    def __init__(self) -> None:
        self._names: NodeNames | None = None
        self._stamps: IntColumn | None = None

    def moved(self, snapshot: Snapshot) -> RowNumbers | None:
        """The rows to derive anew for this snapshot; None = all of them. From now on they count as derived."""
        names, stamps = self._names, self._stamps
        self._names, self._stamps = snapshot.node_columns.names, snapshot.stamps
        if names is not snapshot.node_columns.names or stamps is None:
            return None
        return _NONE if stamps is snapshot.stamps else snapshot.changed_since(stamps)


class Tally:
    """A number for each node, made of its pods, and its sums over topology domains.

    `count` must read nothing but the NodeInfo (and values that never change while the tally lives).
    """

    def __init__(self, count: Callable[[NodeInfo], int]) -> None:
        self._count = count
        self._memo = RowMemo()
        self._rows: IntColumn = np.zeros(0, dtype=np.int64)
        self._sums: dict[str, tuple[Interned[str | None], IntColumn]] = {}
        """By topology key: the label column that the sums were made for, and the sums by its codes."""

    def rows(self, snapshot: Snapshot) -> IntColumn:
        """The number of each row. Not to be written to."""
        moved = self._memo.moved(snapshot)
        count = self._count
        if moved is None:
            self._rows = np.fromiter(
                (count(info) if info.pods else 0 for info in snapshot.rows), dtype=np.int64, count=len(snapshot)
            )
            self._sums.clear()
        elif len(moved):
            self._move({row: count(snapshot.rows[row]) for row in moved.tolist()})
        return self._rows

    def sums(self, snapshot: Snapshot, topology_key: str) -> IntColumn:
        """By code of `snapshot.label(topology_key)`: the sum over the nodes with that value.

        Code 0 (nodes without the label) sums up to something too; it is no domain. Not to be written to.
        """
        rows = self.rows(snapshot)
        labels = snapshot.label(topology_key)
        known = self._sums.get(topology_key)
        if known is not None and known[0] is labels:
            return known[1]
        sums = np.bincount(labels.codes, weights=rows, minlength=len(labels.values)).astype(np.int64)
        self._sums[topology_key] = labels, sums
        return sums

    def _move(self, counts: Mapping[int, int]) -> None:
        differing = {row: number for row, number in counts.items() if number != self._rows[row]}
        if not differing:
            return
        old, new = self._rows, self._rows.copy()
        for row, number in differing.items():
            new[row] = number
        self._rows = new
        for key, (labels, sums) in self._sums.items():
            moved = sums.copy()
            for row, number in differing.items():
                moved[labels.codes[row]] += number - old[row]
            self._sums[key] = labels, moved


_NONE: RowNumbers = np.empty(0, dtype=np.intp)
