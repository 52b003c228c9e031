"""The cluster at one revision as plugins see it: rows (NodeInfos) and columns (arrays) over the nodes.

Immutable; made by `cache`, or from other snapshots. Two snapshots share whatever did not change between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from wharfinger.framework.columns import BoolColumn, IntColumn, NodeColumns, PodColumns, RowNumbers, Rows
from wharfinger.framework.interned import Interned
from wharfinger.framework.node_info import NodeInfo
from wharfinger.objects.model.node import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Node
from wharfinger.objects.model.pod import HostPort, Pod
from wharfinger.objects.model.selectors import Taint
from wharfinger.objects.model.surroundings import NOTHING_AROUND, Surroundings
from wharfinger.objects.model.volume_matching import storage_with

Nominations: TypeAlias = "Mapping[str, tuple[Pod, ...]]"
_ALWAYS = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})
NO_NOMINATIONS: Nominations = MappingProxyType({})


@dataclass(slots=True, eq=False, repr=False)
class Snapshot:
    """All nodes with the pods counted on them. Rows stand in the order in which the nodes appeared."""

    revision: int
    """Of etcd: everything up to it is in here."""
    rows: Rows[NodeInfo]
    node_columns: NodeColumns
    stamps: IntColumn
    """Each row's `NodeInfo.stamp`."""
    summed: SummedPods
    surroundings: Surroundings = NOTHING_AROUND
    """Namespaces, pod collections and disruption budgets."""
    nominated: Nominations = field(default_factory=lambda: NO_NOMINATIONS)
    """By node: pending pods that preemption made room for there, highest priority first."""
    _difference: tuple[IntColumn, RowNumbers] | None = field(default=None, init=False)

    @classmethod
    def of(
        cls,
        infos: Iterable[NodeInfo],
        revision: int = 0,
        *,
        surroundings: Surroundings = NOTHING_AROUND,
        nominated: Nominations = NO_NOMINATIONS,
    ) -> Snapshot:
        """A snapshot made from nothing."""
        rows = Rows(infos)
        stamps = np.fromiter((info.stamp for info in rows), dtype=np.int64, count=len(rows))
        return cls(revision, rows, NodeColumns.of(rows), stamps, SummedPods(), surroundings, nominated)

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
        """What the pods on each node request; for `pods`, how many they are. 0 for a resource that no node offers."""
        if resource not in _ALWAYS and not self.allocatable(resource).any():
            return self.node_columns.names.zeros  # there may be a column still, of a node that is gone
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

    @property
    def pod_columns(self) -> PodColumns:
        """What the pods on each node sum up to; brought up to date on request."""
        return self.summed.columns(self)

    def changed_since(self, stamps: IntColumn) -> RowNumbers:
        """The rows that are not what they were when these were the stamps (of the same node names)."""
        if self._difference is None or self._difference[0] is not stamps:
            self._difference = stamps, (self.stamps != stamps).nonzero()[0]
        return self._difference[1]

    def at(
        self,
        revision: int,
        *,
        surroundings: Surroundings | None = None,
        nominated: Nominations | None = None,
    ) -> Snapshot:
        """The same nodes and pods, known to hold at another revision, perhaps among other surroundings."""
        around = self.surroundings if surroundings is None else surroundings
        promised = self.nominated if nominated is None else nominated
        same = replace(self, revision=revision, surroundings=around, nominated=promised)
        same._difference = self._difference
        return same

    def with_pods_changed(self, changes: Mapping[int, NodeInfo]) -> Snapshot:
        """With other pods on the nodes of some rows."""
        changed = replace(self, rows=self.rows.replaced(changes), stamps=self._restamped(changes))
        moved = sorted(row for row, info in changes.items() if info.stamp != self.rows[row].stamp)
        changed._difference = self.stamps, np.array(moved, dtype=np.intp)  # known without comparing all rows
        return changed

    def with_nodes_changed(self, changes: Mapping[int, NodeInfo]) -> Snapshot:
        """With other states of the nodes of some rows, and perhaps other pods."""
        rows = self.rows.replaced(changes)
        columns = self.node_columns.replaced(changes)
        return replace(self, rows=rows, node_columns=columns, stamps=self._restamped(changes))

    def resized(self, gone: Collection[int], added: Sequence[NodeInfo]) -> Snapshot:
        """Without the nodes of some rows, and with more nodes behind the others."""
        keep = np.delete(np.arange(len(self.rows), dtype=np.intp), list(gone))
        rows = Rows([info for row, info in enumerate(self.rows) if row not in gone] + list(added))
        stamps = np.concatenate([self.stamps[keep], np.array([info.stamp for info in added], dtype=np.int64)])
        summed = SummedPods((stamps, self.pod_columns.resized(keep, added)))
        columns = self.node_columns.resized(keep, added)
        return replace(self, rows=rows, node_columns=columns, stamps=stamps, summed=summed)

    def _restamped(self, changes: Mapping[int, NodeInfo]) -> IntColumn:
        stamps = self.stamps.copy()
        for row, info in changes.items():
            stamps[row] = info.stamp
        return stamps

    def place(self, pod: Pod, node_name: str) -> Snapshot:
        """As if the pod were on this node too, with the volumes it gets there; KeyError when there is no such node."""
        row = self.index[node_name]
        return self.with_pods_changed({row: self.rows[row].with_pod(pod)}).with_volumes_of(pod, node_name)

    def with_volumes_of(self, pod: Pod, node_name: str) -> Snapshot:
        """As if the volumes that the pod gets on this node were kept for its claims; itself for one without claims."""
        if not pod.claims:
            return self
        storage = storage_with(pod, self.rows[self.index[node_name]].node, self.surroundings.storage)
        return self.at(self.revision, surroundings=self.surroundings.with_storage(storage))

    def only(self, node_name: str) -> Snapshot:
        """That one node alone; empty when there is none of this name."""
        row = self.index.get(node_name)
        infos = () if row is None else (self.rows[row],)
        return Snapshot.of(infos, self.revision, surroundings=self.surroundings, nominated=self.nominated)


class SummedPods:
    """The pod columns of a family of snapshots with the same nodes: those asked for last, and how to get to others.

    Most decisions look at no column, only at rows that changed; so columns are not copied at every placement.
    """

    __slots__ = ("_columns", "_offered", "_stamps")

    def __init__(self, known: tuple[IntColumn, PodColumns] | None = None) -> None:
        self._stamps: IntColumn | None = None
        self._columns: PodColumns | None = None
        self._offered: Mapping[str, IntColumn] | None = None
        """The resources that are known to have a column: nodes may offer very many, and a pod ask for as many."""
        if known is not None:
            self._stamps, self._columns = known

    def columns(self, snapshot: Snapshot) -> PodColumns:
        """The columns of that snapshot."""
        offered, known = snapshot.node_columns.allocatable, self._columns
        if known is None or self._stamps is None or not self._has(known, offered):
            known = PodColumns.of(snapshot.rows, offered)
        elif self._stamps is not snapshot.stamps:
            changed = snapshot.changed_since(self._stamps).tolist()
            known = known.replaced({row: snapshot.rows[row] for row in changed})
        self._columns, self._stamps, self._offered = known, snapshot.stamps, offered
        return known

    def _has(self, columns: PodColumns, offered: Mapping[str, IntColumn]) -> bool:
        return offered is self._offered or offered.keys() <= columns.requested.keys()
