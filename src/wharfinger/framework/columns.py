"""Arrays over the nodes, row by row like the snapshot's NodeInfos, from which they are derived.

Two groups change at different speeds: what nodes say of themselves (rarely), and what their pods sum up to (at
every placement). A change copies the columns it touches and shares the others; nothing is written in place.
`NodeNames` has which node stands in which row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.interned import Interned
from wharfinger.framework.node_info import NO_PORTS, NodeInfo
from wharfinger.objects.model.node import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Node
from wharfinger.objects.model.pod import HostPort
from wharfinger.objects.model.selectors import Taint

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: spreads the bits of what it multiplies (Knuth's multiplicative hashing)."""


@lru_cache(maxsize=1 << 17)
def name_hash(name: str) -> int:
    """64 bits of a name, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


class NodeNames:
    """Which node stands in which row."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self.index: Mapping[str, int] = {name: row for row, name in enumerate(self.names)}
        self.zeros: NDArray[np.int64] = np.zeros(len(self.names), dtype=np.int64)
        self.zeros.flags.writeable = False

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """A hash of each name, for breaking ties."""
        return np.fromiter((name_hash(name) for name in self.names), dtype=np.uint64, count=len(self.names))

    def tie_break(self, rows: NDArray[np.intp], uid: str) -> NDArray[np.uint64]:
        """A number for each of these rows, of equal nodes the highest goes first.

        Made of the names and the pod's uid: the same on every machine, and spread evenly over the nodes.
        """
        numbers: NDArray[np.uint64] = (self.hashes[rows] ^ np.uint64(name_hash(uid))) * _MIX
        return numbers

    @cached_property
    def alphabetical(self) -> NDArray[np.intp]:
        """Rows in the order of their names."""
        return np.array(sorted(range(len(self.names)), key=self.names.__getitem__), dtype=np.intp)

    @cached_property
    def sorted_names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self.names))

    @cached_property
    def array(self) -> NDArray[np.object_]:
        """The names as an array, for picking many at once."""
        names = np.empty(len(self.names), dtype=object)
        names[:] = self.names
        return names


IntColumn = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]
RowNumbers = NDArray[np.intp]
NO_TAINTS: tuple[Taint, ...] = ()
_LABEL_COLUMNS = 128
"""Label keys whose columns are kept; pods may ask for any number of keys, so the oldest column is dropped."""
_LIMIT = 2**63 - 1
"""Sums are cut here. No single amount is larger, so a node whose sum was cut has no room left anyway."""


def bounded(amount: int) -> int:
    """The amount as columns hold it. Amounts are never negative, so two of them can be subtracted in int64."""
    return min(_LIMIT, amount)


def plus(column: IntColumn, amount: int) -> IntColumn:
    """The column with an amount added on every row, cut at int64 instead of wrapping around."""
    total: IntColumn = np.minimum(column, _LIMIT - amount) + amount
    return total


@dataclass(slots=True, eq=False, repr=False)
class NodeColumns:
    """What the nodes say of themselves."""

    names: NodeNames
    allocatable: Mapping[str, IntColumn]
    unschedulable: BoolColumn
    taints: Interned[tuple[Taint, ...]]
    labels: LabelColumns
    any_unschedulable: bool = field(init=False)
    scan_order: RowNumbers | None = field(default=None, init=False)
    """Rows in the order of a sampling search; made by `sampling` when first needed."""

    def __post_init__(self) -> None:
        self.any_unschedulable = bool(self.unschedulable.any())

    @classmethod
    def of(cls, rows: Rows[NodeInfo]) -> NodeColumns:
        """Columns of these rows, made from nothing."""
        nodes = [info.node for info in rows]
        resources = dict.fromkeys((CPU, MEMORY, EPHEMERAL_STORAGE, PODS))
        for node in nodes:
            resources.update(dict.fromkeys(node.allocatable))
        return cls(
            NodeNames(node.name for node in nodes),
            {
                resource: np.array([bounded(node.allocatable.get(resource, 0)) for node in nodes], dtype=np.int64)
                for resource in resources
            },
            np.array([node.unschedulable for node in nodes], dtype=np.bool_),
            Interned.of((node.taints for node in nodes), NO_TAINTS),
            LabelColumns(Rows(node.labels for node in nodes)),
        )

    def replaced(self, changes: Mapping[int, NodeInfo]) -> NodeColumns:
        """With other nodes (of the same names) in some rows."""
        unschedulable = self.unschedulable
        if any(info.node.unschedulable != unschedulable[row] for row, info in changes.items()):
            unschedulable = unschedulable.copy()
            unschedulable[list(changes)] = [info.node.unschedulable for info in changes.values()]
        return NodeColumns(
            self.names,
            _with_amounts(
                self._with_all_of([info.node for info in changes.values()]),
                {row: info.node.allocatable for row, info in changes.items()},
            ),
            unschedulable,
            self.taints.replaced({row: info.node.taints for row, info in changes.items()}),
            self.labels.replaced({row: info.node.labels for row, info in changes.items()}),
        )

    def resized(self, keep: RowNumbers, added: Sequence[NodeInfo]) -> NodeColumns:
        """The nodes of the rows in `keep`, then those added."""
        nodes = [info.node for info in added]
        names = self.names.array[keep].tolist() + [node.name for node in nodes]
        return NodeColumns(
            NodeNames(names),
            _resized(self.allocatable, keep, [node.allocatable for node in nodes], self._with_all_of(nodes)),
            np.concatenate([self.unschedulable[keep], np.array([node.unschedulable for node in nodes], np.bool_)]),
            self.taints.resized(keep, (node.taints for node in nodes)),
            self.labels.resized(keep, [node.labels for node in nodes]),
        )

    def _with_all_of(self, nodes: Iterable[Node]) -> Mapping[str, IntColumn]:
        """The columns of what is allocatable, and empty ones for what only these nodes offer."""
        new = {resource for node in nodes for resource in node.allocatable if resource not in self.allocatable}
        return {**self.allocatable, **dict.fromkeys(sorted(new), self.names.zeros)} if new else self.allocatable


class LabelColumns:
    """Label values by key; a key's column is made when it is first asked for.

    It holds the nodes' labels and not their NodeInfos: those would keep every pod of their time alive.
    """

    def __init__(
        self,
        labels: Rows[Mapping[str, str]],
        made: Mapping[str, Interned[str | None]] | None = None,
        *,
        known: frozenset[str] | None = None,
        absent: Interned[str | None] | None = None,
    ) -> None:
        self._labels = labels
        self._made: dict[str, Interned[str | None]] = dict(made or {})
        self._known = frozenset(key for each in labels for key in each) if known is None else known
        """Every key that a node has, and perhaps some that none has any more."""
        self._absent: Interned[str | None] = absent or Interned.of([None] * len(labels), None)

    def column(self, key: str) -> Interned[str | None]:
        """The label's value on every node, None where it is absent."""
        if key not in self._known:  # a pod may name thousands of keys that no node has
            return self._absent
        column = self._made.get(key)
        if column is None:
            column = Interned.of((each.get(key) for each in self._labels), None)
            if len(self._made) >= _LABEL_COLUMNS:
                del self._made[next(iter(self._made))]
            self._made[key] = column
        return column

    def replaced(self, changes: Mapping[int, Mapping[str, str]]) -> LabelColumns:
        """With other labels in some rows."""
        made = {
            key: column.replaced({row: each.get(key) for row, each in changes.items()})
            for key, column in self._made.items()
        }
        known = self._known.union(*changes.values())
        return LabelColumns(self._labels.replaced(changes), made, known=known, absent=self._absent)

    def resized(self, keep: RowNumbers, added: Sequence[Mapping[str, str]]) -> LabelColumns:
        """The nodes of the rows in `keep`, then those added."""
        made = {key: column.resized(keep, (each.get(key) for each in added)) for key, column in self._made.items()}
        labels = Rows([self._labels[row] for row in keep.tolist()] + list(added))
        return LabelColumns(labels, made)


@dataclass(slots=True, eq=False, repr=False)
class PodColumns:
    """What the pods on each node sum up to.

    Only of resources that some node offers: pods may ask for thousands that there are not, and those fit nowhere.
    """

    requested: Mapping[str, IntColumn]
    """Real requests by resource; `pods` = how many."""
    scoring: Mapping[str, IntColumn]
    """cpu and memory as scoring counts them."""
    host_ports: Interned[frozenset[HostPort]]

    @classmethod
    def of(cls, rows: Rows[NodeInfo], resources: Iterable[str]) -> PodColumns:
        """Columns of these rows, made from nothing."""
        infos = list(rows)
        return cls(
            {
                resource: np.array([bounded(info.requested.get(resource, 0)) for info in infos], dtype=np.int64)
                for resource in resources
            },
            {
                CPU: np.array([bounded(info.scoring_cpu) for info in infos], dtype=np.int64),
                MEMORY: np.array([bounded(info.scoring_memory) for info in infos], dtype=np.int64),
            },
            Interned.of((info.host_ports for info in infos), NO_PORTS),
        )

    def replaced(self, changes: Mapping[int, NodeInfo]) -> PodColumns:
        """With other pods in some rows."""
        ports = self.host_ports
        if not ports.plain or any(info.host_ports for info in changes.values()):
            ports = ports.replaced({row: info.host_ports for row, info in changes.items()})
        return PodColumns(
            _with_amounts(self.requested, {row: info.requested for row, info in changes.items()}),
            _with_amounts(self.scoring, {row: _scoring(info) for row, info in changes.items()}),
            ports,
        )

    def resized(self, keep: RowNumbers, added: Sequence[NodeInfo]) -> PodColumns:
        """The rows in `keep`, then those added."""
        return PodColumns(
            _resized(self.requested, keep, [info.requested for info in added], self.requested),
            _resized(self.scoring, keep, [_scoring(info) for info in added], self.scoring),
            self.host_ports.resized(keep, (info.host_ports for info in added)),
        )


def _scoring(info: NodeInfo) -> Mapping[str, int]:
    return {CPU: info.scoring_cpu, MEMORY: info.scoring_memory}


def _with_amounts(
    columns: Mapping[str, IntColumn], changes: Mapping[int, Mapping[str, int]]
) -> Mapping[str, IntColumn]:
    """Columns by resource with other amounts in some rows; untouched ones are shared, other resources left out."""
    result = dict(columns)
    for row, amounts in changes.items():
        for resource, column in result.items():
            amount = bounded(amounts.get(resource, 0))
            if column[row] != amount:
                if column is columns.get(resource):
                    column = column.copy()  # noqa: PLW2901 - the copy takes the column's place
                    result[resource] = column
                column[row] = amount
    return result


def _resized(
    columns: Mapping[str, IntColumn], keep: RowNumbers, added: Sequence[Mapping[str, int]], resources: Iterable[str]
) -> Mapping[str, IntColumn]:
    """Columns of these resources: the rows in `keep`, then those added."""
    nothing = np.zeros(len(keep), dtype=np.int64)
    return {
        resource: np.concatenate(
            [
                columns[resource][keep] if resource in columns else nothing,
                np.array([bounded(amounts.get(resource, 0)) for amounts in added], dtype=np.int64),
            ]
        )
        for resource in resources
    }


T = TypeVar("T")
_BITS = 6
_SIZE = 1 << _BITS
_MASK = _SIZE - 1


class Rows(Generic[T]):
    """An immutable sequence that is copied in pieces: changing one row of thousands copies one piece.

    The snapshot keeps its NodeInfos in it, so that taking a snapshot after one pod was assumed does not copy a pointer
    for every node. `replaced` shares every piece that it does not touch.
    """

    __slots__ = ("_length", "_pieces")

    def __init__(self, items: Iterable[T] = ()) -> None:
        flat = list(items)
        self._length = len(flat)
        self._pieces = [flat[start : start + _SIZE] for start in range(0, len(flat), _SIZE)]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> T:
        return self._pieces[row >> _BITS][row & _MASK]

    def __iter__(self) -> Iterator[T]:
        for piece in self._pieces:
            yield from piece

    def replaced(self, changes: Mapping[int, T]) -> Rows[T]:
        """The same sequence with other items in some rows."""
        result: Rows[T] = Rows()
        result._length = self._length
        pieces = list(self._pieces)
        owned: set[int] = set()
        for row, item in changes.items():
            number = row >> _BITS
            if number not in owned:
                pieces[number] = list(pieces[number])
                owned.add(number)
            pieces[number][row & _MASK] = item
        result._pieces = pieces
        return result
