"""The cluster at one revision as plugins see it: rows (NodeInfos) and columns (arrays) over the nodes.

Immutable; made by `cache`, or from other snapshots. Two snapshots share whatever did not change between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from wharfinger.framework.columns import BoolColumn, IntColumn, NodeColumns, PodColumns
from wharfinger.framework.interned import Interned
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.rows import Rows
from wharfinger.model.node import Node
from wharfinger.model.pod import HostPort, Pod
from wharfinger.model.selectors import Taint


class Snapshot:
    """All nodes with the pods counted on them. Rows stand in the order in which the nodes appeared."""

    __slots__ = ("node_columns", "pod_columns", "revision", "rows")

    def __init__(self, revision: int, rows: Rows[NodeInfo], node_columns: NodeColumns, pod_columns: PodColumns) -> None:
        self.revision = revision
        """Of etcd: everything up to it is in here."""
        self.rows = rows
        self.node_columns = node_columns
        self.pod_columns = pod_columns

    @classmethod
    def of(cls, infos: Iterable[NodeInfo], revision: int = 0) -> Snapshot:
        """A snapshot made from nothing."""
        rows = Rows(infos)
        return cls(revision, rows, NodeColumns.of(rows), PodColumns.of(rows))

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, node_name: object) -> bool:
        return node_name in self.index

    @property
    def names(self) -> tuple[str, ...]:
        """Node names, by row."""
        return self.node_columns.names.names

    @property
    def index(self) -> Mapping[str, int]:
        """Row by node name."""
        return self.node_columns.names.index

    def info(self, node_name: str) -> NodeInfo:
        """One node with its pods; KeyError when there is none of this name."""
        return self.rows[self.index[node_name]]

    def node(self, node_name: str) -> Node | None:
        """One node, None when there is none of this name."""
        row = self.index.get(node_name)
        return None if row is None else self.rows[row].node

    def allocatable(self, resource: str) -> IntColumn:
        """What each node offers (milli-cpu, bytes, pieces); 0 where it does not name the resource."""
        return self.node_columns.allocatable.get(resource, self.node_columns.names.zeros)

    def requested(self, resource: str) -> IntColumn:
        """What the pods on each node request; for `pods`, how many they are."""
        return self.pod_columns.requested.get(resource, self.node_columns.names.zeros)

    def requested_for_scoring(self, resource: str) -> IntColumn:
        """The same, but containers without a cpu or memory request count 100 milli-cpu and 200 MiB."""
        column = self.pod_columns.scoring.get(resource)
        return self.requested(resource) if column is None else column

    @property
    def unschedulable(self) -> BoolColumn:
        """Which nodes are cordoned."""
        return self.node_columns.unschedulable

    @property
    def any_unschedulable(self) -> bool:
        """Whether any node is cordoned."""
        return self.node_columns.any_unschedulable

    @property
    def taints(self) -> Interned[tuple[Taint, ...]]:
        """Each node's taints."""
        return self.node_columns.taints

    @property
    def host_ports(self) -> Interned[frozenset[HostPort]]:
        """The host ports taken on each node."""
        return self.pod_columns.host_ports

    def label(self, key: str) -> Interned[str | None]:
        """The label's value on each node, None where it is absent."""
        return self.node_columns.labels.column(key)

    def at(self, revision: int) -> Snapshot:
        """The same content, known to hold at another revision."""
        return Snapshot(revision, self.rows, self.node_columns, self.pod_columns)

    def with_pods_changed(self, changes: Mapping[int, NodeInfo]) -> Snapshot:
        """With other pods on the nodes of some rows."""
        return Snapshot(
            self.revision, self.rows.replaced(changes), self.node_columns, self.pod_columns.replaced(changes)
        )

    def with_nodes_changed(self, changes: Mapping[int, NodeInfo]) -> Snapshot:
        """With other states of the nodes of some rows, and perhaps other pods."""
        rows = self.rows.replaced(changes)
        return Snapshot(
            self.revision, rows, self.node_columns.replaced(changes, rows), self.pod_columns.replaced(changes)
        )

    def resized(self, gone: Collection[int], added: Sequence[NodeInfo]) -> Snapshot:
        """Without the nodes of some rows, and with more nodes behind the others."""
        keep = np.delete(np.arange(len(self.rows), dtype=np.intp), list(gone))
        rows = Rows([info for row, info in enumerate(self.rows) if row not in gone] + list(added))
        return Snapshot(
            self.revision,
            rows,
            self.node_columns.resized(keep, added, rows),
            self.pod_columns.resized(keep, added),
        )

    def place(self, pod: Pod, node_name: str) -> Snapshot:
        """As if the pod were on this node too; KeyError when there is no such node."""
        row = self.index[node_name]
        return self.with_pods_changed({row: self.rows[row].with_pod(pod)})

    def only(self, node_name: str) -> Snapshot:
        """That one node alone; empty when there is none of this name."""
        row = self.index.get(node_name)
        return Snapshot.of((), self.revision) if row is None else Snapshot.of((self.rows[row],), self.revision)
