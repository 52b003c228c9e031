"""Topology domains of one snapshot, marked or weighed, and what that means for its nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn, IntColumn
from wharfinger.framework.interface import RowSelection
from wharfinger.framework.snapshot import Snapshot

Marks = NDArray[np.int8]


class MarkedDomains:
    """Refusals by domain: of several for one node, the largest code holds."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._marks: dict[str, Marks] = {}

    def mark(self, topology_key: str, sums: IntColumn, code: int) -> None:
        """Domains where pods are counted; nodes without the label are in none."""
        marks = self._of(topology_key)[1 : len(sums)]
        np.maximum(marks, (sums[1:] > 0).view(np.int8) * np.int8(code), out=marks)

    def mark_lacking(self, topology_key: str, sums: IntColumn | None, code: int) -> None:
        """Nodes without the label, and domains where no pod is counted (None = any domain will do)."""
        marks = self._of(topology_key)
        marks[0] = max(int(marks[0]), code)
        if sums is not None:
            there = marks[1 : len(sums)]
            np.maximum(there, (sums[1:] <= 0).view(np.int8) * np.int8(code), out=there)

    def codes(self) -> Marks | None:
        """By row; None when no node lies in a marked domain."""
        codes: Marks | None = None
        for key, marks in self._marks.items():
            if marks.any():
                found = marks.take(self._snapshot.label(key).codes)
                codes = found if codes is None else np.maximum(codes, found)
        return codes if codes is not None and codes.any() else None

    def _of(self, topology_key: str) -> Marks:
        marks = self._marks.get(topology_key)
        if marks is None:
            marks = np.zeros(len(self._snapshot.label(topology_key).values), dtype=np.int8)
            self._marks[topology_key] = marks
        return marks


class WeighedDomains:
    """Numbers by domain; a node has the sum over the domains it lies in."""

    def __init__(self) -> None:
        self._weights: dict[str, IntColumn] = {}

    def weigh(self, snapshot: Snapshot, topology_key: str, sums: IntColumn, weight: int) -> None:
        """Add `weight` for every pod counted."""
        weights = self._weights.get(topology_key)
        if weights is None:
            weights = np.zeros(len(snapshot.label(topology_key).values), dtype=np.int64)
            self._weights[topology_key] = weights
        there = weights[1 : len(sums)]
        there += sums[1:] if weight == 1 else sums[1:] * weight

    @property
    def empty(self) -> bool:
        """Whether every domain weighs nothing."""
        return not any(weights.any() for weights in self._weights.values())

    def rows(self, snapshot: Snapshot, rows: RowSelection) -> IntColumn:
        """The selected nodes' sums."""
        total: IntColumn | None = None
        for key, weights in self._weights.items():
            found = weights.take(snapshot.label(key).codes[rows])
            total = found if total is None else total + found
        return snapshot.node_columns.names.zeros[rows] if total is None else total


def any_domain(sums: IntColumn) -> bool:
    """Whether a pod is counted in any domain at all."""
    present: BoolColumn = sums[1:] > 0
    return bool(present.any())
