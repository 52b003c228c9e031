"""How much room all nodes together have, by resource, and how much of it pods request.

Patched by the rows that changed since the last look: adding up 5,000 nodes twice a second is a tenth of what the page
costs. Its neighbour `node_map` tells the same of each node.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from wharfinger.framework.columns import Rows
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.model.node import CPU, MEMORY, PODS

MOST_RESOURCES = 8
_AT_LEAST = (CPU, MEMORY, PODS)


class RoomSums:
    """Remembers the sums of the last snapshot that it was asked about."""

    def __init__(self) -> None:
        self._snapshot = Snapshot.of(())
        self._rows: Rows[NodeInfo] = self._snapshot.rows
        self._offered: dict[str, int] = {}
        self._used: Counter[str] = Counter()

    def of(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        """`resource`, `allocatable` and `requested` of the first resources, in the units of `Node.allocatable`."""
        before, self._snapshot = self._snapshot, snapshot
        if snapshot.node_columns is not before.node_columns:
            self._count(snapshot)
        elif snapshot.stamps is not before.stamps:
            self._patch(snapshot, np.flatnonzero(snapshot.stamps != before.stamps).tolist())
        told = []
        for resource in dict.fromkeys((*_AT_LEAST, *sorted(self._offered))):
            offered = self._offered.get(resource, 0)
            if offered or resource in _AT_LEAST:
                told.append({"resource": resource, "allocatable": offered, "requested": self._used[resource]})
        return told[:MOST_RESOURCES]

    def _count(self, snapshot: Snapshot) -> None:
        self._rows = snapshot.rows
        columns = snapshot.node_columns.allocatable
        self._offered = {resource: int(column.sum()) for resource, column in columns.items()}
        self._used = Counter()
        for info in snapshot.rows:
            self._used.update(info.requested)

    def _patch(self, snapshot: Snapshot, changed: list[int]) -> None:
        used, rows, before = self._used, snapshot.rows, self._rows
        for row in changed:
            new, old = rows[row].requested, before[row].requested
            if new is old:
                continue
            for resource, amount in new.items():
                used[resource] += amount
            for resource, amount in old.items():
                used[resource] -= amount
        self._rows = rows
