"""Numbers per node that are kept in step with the snapshots they are asked for.

Between two decisions a few rows change. Whatever is derived row by row (how many pods match a selector, which filter
refuses) is kept from one decision to the next, and only rows with another stamp are derived anew. Any snapshot will
do, older ones and branches too: stamps show what differs. Values are copied before they are changed, so what was
handed out earlier stays true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from wharfinger.framework.columns import BoolColumn, IntColumn, NodeNames, RowNumbers
from wharfinger.framework.interned import Interned
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot


class RowMemo:
    """Remembers for which states of the rows something was derived."""

    __slots__ = ("_names", "_stamps")

    def __init__(self) -> None:
        self._names: NodeNames | None = None
        self._stamps: IntColumn | None = None

    @property
    def stamps(self) -> IntColumn | None:
        """The states derived for last, by row; None = none yet."""
        return self._stamps

    def moved(self, snapshot: Snapshot) -> RowNumbers | None:
        """The rows to derive anew for this snapshot; None = all of them. From now on they count as derived."""
        names, stamps = self._names, self._stamps
        self._names, self._stamps = snapshot.node_columns.names, snapshot.stamps
        if names is not snapshot.node_columns.names or stamps is None:
            return None
        return _NONE if stamps is snapshot.stamps else snapshot.changed_since(stamps)


_KEPT_SUMS = 8
"""Sums that a tally keeps, by topology key and nodes taken part; the oldest goes."""


@dataclass(slots=True)
class _Sums:
    """Sums over the domains of one topology, and for which nodes they were made."""

    labels: Interned[str | None]
    among: BoolColumn | None
    by_code: IntColumn


class DomainSums:
    """A number for each node, made of its pods, and its sums over topology domains.

    `count` must read nothing but the NodeInfo (and values that never change while the tally lives), and answer 0 for
    a node without pods.
    """

    def __init__(self, count: Callable[[NodeInfo], int]) -> None:
        self._count = count
        self._memo = RowMemo()
        self._rows: IntColumn = np.zeros(0, dtype=np.int64)
        self._sums: dict[tuple[str, int], _Sums] = {}
        """By topology key and identity of the nodes taken part."""

    def rows(self, snapshot: Snapshot) -> IntColumn:
        """The number of each row. Not to be written to."""
        before = self._memo.stamps
        moved = self._memo.moved(snapshot)
        if moved is None:
            self._rows = self._for_other_nodes(snapshot, before)
            self._sums.clear()
        elif len(moved):
            self._move({row: self._count(snapshot.rows[row]) for row in moved.tolist()})
        return self._rows

    def sums(self, snapshot: Snapshot, topology_key: str, among: BoolColumn | None = None) -> IntColumn:
        """By code of `snapshot.label(topology_key)`: the sum over the nodes with that value. Not to be written to.

        `among` marks the rows that take part, None = all; sums are kept for the very array, so give the same one as
        long as the same rows take part. Code 0 (nodes without the label) sums up to something too; it is no domain.
        """
        rows = self.rows(snapshot)
        labels = snapshot.label(topology_key)
        known = self._sums.get((topology_key, id(among)))
        if known is not None and known.labels is labels:
            return known.by_code
        numbers = rows if among is None else rows * among
        by_code = np.bincount(labels.codes, weights=numbers, minlength=len(labels.values)).astype(np.int64)
        if known is None and len(self._sums) >= _KEPT_SUMS:
            del self._sums[next(iter(self._sums))]
        self._sums[topology_key, id(among)] = _Sums(labels, among, by_code)
        return by_code

    def _for_other_nodes(self, snapshot: Snapshot, before: IntColumn | None) -> IntColumn:
        """The numbers on other nodes; of a node that was there before, in the same state, it is known."""
        rows = np.zeros(len(snapshot), dtype=np.int64)
        fresh = np.ones(len(snapshot), dtype=np.bool_)
        if before is not None and len(before) and len(rows):
            order = np.argsort(before)
            places = order[np.minimum(np.searchsorted(before, snapshot.stamps, sorter=order), len(before) - 1)]
            fresh = before[places] != snapshot.stamps
            rows = np.where(fresh, 0, self._rows[places])
        count = self._count
        if fresh.all():
            return np.fromiter((count(i) if i.pods else 0 for i in snapshot.rows), dtype=np.int64, count=len(rows))
        for row in np.flatnonzero(fresh).tolist():
            rows[row] = count(snapshot.rows[row])
        return rows

    def _move(self, counts: Mapping[int, int]) -> None:
        differing = {row: number for row, number in counts.items() if number != self._rows[row]}
        if not differing:
            return
        old, new = self._rows, self._rows.copy()
        for row, number in differing.items():
            new[row] = number
        self._rows = new
        for sums in self._sums.values():
            among, codes, moved = sums.among, sums.labels.codes, sums.by_code.copy()
            for row, number in differing.items():
                if among is None or among[row]:
                    moved[codes[row]] += number - old[row]
            sums.by_code = moved


_NONE: RowNumbers = np.empty(0, dtype=np.intp)
