"""kube-scheduler's way to look at some of the nodes only: how many, in which order, from where.

Off unless a profile asks for it. Source: 1.36, `pkg/scheduler/schedule_one.go` (findNodesThatPassFilters,
numFeasibleNodesToFind) and `backend/cache/node_tree.go`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wharfinger.framework.columns import BoolColumn, RowNumbers
from wharfinger.framework.snapshot import Snapshot

EVERYTHING_BELOW = 100
"""Nodes; clusters smaller than this are looked at whole."""
FEWEST = 100
"""Feasible nodes that are looked for at least."""
ADAPTIVE = 0
"""The percentage that means: fewer per cent the larger the cluster."""
ZONE_LABELS = (
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
)
"""The old label wins over the new one."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Which nodes were looked at."""

    examined: BoolColumn
    """By row."""
    feasible: BoolColumn
    """By row: those that passed every filter, among the examined."""
    next_start: int
    """Where the next attempt begins."""


def wanted(nodes: int, percentage: int) -> int:
    """How many feasible nodes are looked for among so many.

    `percentage`: 0 = max(5, 50 - nodes div 125) per cent, else 1..100; never fewer than 100 nodes.
    """
    if nodes < EVERYTHING_BELOW:
        return nodes
    share = percentage or max(5, 50 - nodes // 125)
    return nodes if share >= 100 else max(FEWEST, nodes * share // 100)


def take(snapshot: Snapshot, alive: BoolColumn, among: BoolColumn | None, most: int, start: int) -> Sample:
    """The sample that a scan finds which begins at `start` and ends when it meets one feasible node too many.

    Args:
        snapshot: What is searched.
        alive: Rows that pass every filter.
        among: Rows that are searched at all (PreFilter named them), None = all.
        most: Feasible nodes that are kept.
        start: Position in the scan order, wrapped around its length.
    """
    order = scan_order(snapshot)
    if among is not None:
        order = order[among[order]]
    total = max(1, len(snapshot))
    if len(order) == 0:
        nothing = np.zeros(len(snapshot), dtype=np.bool_)
        return Sample(nothing, nothing, start % total)
    order = np.roll(order, -(start % len(order)))
    met = np.cumsum(alive[order])
    beyond = int(np.searchsorted(met, most + 1))  # where the one too many stands; the length when there is none
    looked_at = order[:beyond]
    examined = np.zeros(len(snapshot), dtype=np.bool_)
    examined[looked_at] = True
    return Sample(examined, examined & alive, (start + len(looked_at)) % total)


def scan_order(snapshot: Snapshot) -> RowNumbers:
    """Rows in kube-scheduler's order: one node of each zone in turn, zones and nodes as they appeared."""
    columns = snapshot.node_columns
    if columns.scan_order is None:
        columns.scan_order = _round_robin(snapshot)
    return columns.scan_order


def _round_robin(snapshot: Snapshot) -> RowNumbers:
    zones: dict[tuple[str, str], list[int]] = {}
    for row, info in enumerate(snapshot.rows):
        labels = info.node.labels
        zone, region = (labels.get(old) or labels.get(new, "") for old, new in ZONE_LABELS)
        zones.setdefault((region, zone), []).append(row)
    turns = [(turn, number, row) for number, rows in enumerate(zones.values()) for turn, row in enumerate(rows)]
    return np.array([row for _, _, row in sorted(turns)], dtype=np.intp)
