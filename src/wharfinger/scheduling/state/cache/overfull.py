"""Which nodes are overfull: their pods need more than is allocatable.

Asked once each second, at thousands of rows; so only rows whose stamp is another one are looked at again.
Neighbour: `state.cache.cache` asks, and counts the pods of etcd alone on those that are found.
"""

from __future__ import annotations

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot


class OverfullNodes:
    """The overfull rows, kept from one look to the next."""

    def __init__(self) -> None:
        self._stamps: IntColumn | None = None
        """Of all rows, at the last look."""
        self._full: set[int] = set()
        """The numbers of the rows that were overfull."""

    def names(self, snapshot: Snapshot) -> list[str]:
        """The nodes that are overfull in this snapshot, which must be no older than the last one."""
        rows, stamps, before = snapshot.rows, snapshot.stamps, self._stamps
        if before is None or len(before) != len(stamps):
            self._full = {number for number, info in enumerate(rows) if is_overfull(info)}
        else:
            for number in (stamps != before).nonzero()[0].tolist():
                (self._full.add if is_overfull(rows[number]) else self._full.discard)(number)
        self._stamps = stamps
        return [rows[number].node.name for number in self._full]


def is_overfull(info: NodeInfo) -> bool:
    """Whether the pods that count on the node need more than it offers."""
    offered = info.node.allocatable
    return any(amount > offered.get(resource, 0) for resource, amount in info.requested.items())
