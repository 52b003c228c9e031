"""Which pods are on which node, for terms about other pods: kept in step with snapshots, pod by pod.

Two questions are answered for any snapshot: which pods carry terms of their own (every distinct term is kept once,
with the number of its carriers on each node), and how many pods a selection means on each node (kept for the
selections asked for lately). A bind between two decisions costs one look at the pods of one node.
Counts are kept by node name, so that nodes may come and go; sums over topology domains lie by code of the snapshot's
label columns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import islice
from operator import is_
from typing import NamedTuple

import numpy as np

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.interned import Interned
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.inter_pod_affinity_terms import Selections, SelectorIndex
from wharfinger.framework.plugins.pod_counting import label_test
from wharfinger.framework.row_memo import RowMemo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import PodAffinityTerm

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


_SELECTIONS = 1024
"""Selections whose counts are kept; that of the least recent decision is dropped first."""
_NUMBERS = 1_000_000
"""Numbers of nodes that are kept at most, in all selections together (about 100 MB)."""


class Role(IntEnum):
    """What a term of a placed pod does to others."""

    REPELS = 0
    """Required anti-affinity."""
    REQUIRES = 1
    """Required affinity."""
    PREFERS = 2
    """Preferred affinity, or anti-affinity with a weight below 0."""


class CarriedTerm(NamedTuple):
    """A term that placed pods carry."""

    role: Role
    weight: int
    """Of preferences, below 0 for anti-affinity; otherwise 0."""
    term: PodAffinityTerm


class Census:
    """The counts for one set of nodes, or for sets that grow out of one another."""

    def __init__(self) -> None:
        self._terms = _Following(lambda info: info.pods_with_terms)
        self._pods = _Following(lambda info: info.pods.values())
        self._repelling = _Carriers(_repelling_terms)
        self._attracting = _Carriers(_attracting_terms)
        self._counts: OrderedDict[Selections, Counts] = OrderedDict()
        self._index: SelectorIndex[Selections] = SelectorIndex()
        self._kinds = Kinds()

    @property
    def nodes(self) -> int:
        """How many nodes were counted last."""
        return self._terms.size

    def counted(self, snapshot: Snapshot) -> bool:
        """Whether this set of nodes is the one counted last."""
        return self._terms.names is snapshot.node_columns.names

    def repelling(self, pod: Pod, snapshot: Snapshot) -> list[tuple[CarriedTerm, Counts]]:
        """Required anti-affinity terms of placed pods that select this pod, and where they are carried."""
        self._follow_terms(snapshot)
        return self._repelling.selecting(pod, snapshot)

    def attracting(self, pod: Pod, snapshot: Snapshot) -> list[tuple[CarriedTerm, Counts]]:
        """Required affinity and preferences of placed pods that select this pod, and where they are carried."""
        self._follow_terms(snapshot)
        return self._attracting.selecting(pod, snapshot)

    def selected(self, selections: Selections, snapshot: Snapshot) -> Counts:
        """How many pods each node has that all the selections mean."""
        self._follow_pods(snapshot)
        counts = self._counts.get(selections)
        if counts is not None:
            self._counts.move_to_end(selections)
            return counts
        self._index.add(selections, [selection.selector for selection in selections])
        counts = self._counts[selections] = self._kinds.counts(selections)
        if len(self._counts) > max(1, min(_SELECTIONS, _NUMBERS // max(1, len(snapshot)))):
            oldest, _ = self._counts.popitem(last=False)
            self._index.remove(oldest)
        return counts

    def _follow_terms(self, snapshot: Snapshot) -> None:
        if self._terms.up_to_date(snapshot):
            return
        renumbered, changes = self._terms.changes(snapshot)
        if renumbered:
            self._repelling.renumber()
            self._attracting.renumber()
        for name, row, pod, number in changes:
            self._repelling.count(pod, name, row, number)
            self._attracting.count(pod, name, row, number)

    def _follow_pods(self, snapshot: Snapshot) -> None:
        if self._pods.up_to_date(snapshot):
            return
        renumbered, changes = self._pods.changes(snapshot)
        if renumbered:
            for counts in self._counts.values():
                counts.renumber()
        for name, row, pod, number in changes:
            self._kinds.count(pod, name, number)
            for selections in self._index.candidates(pod.labels):
                if all(selection.selects(pod) for selection in selections):
                    self._counts[selections].add(name, row, number)


class Kinds:
    """Pods with equal labels in one namespace, by node: what a selection means is asked once for each kind."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, tuple[Pod, Counts]] = {}
        """One pod of the kind, and how many each node has."""

    def count(self, pod: Pod, name: str, number: int) -> None:
        """One more (1) or one less (-1) on the node."""
        key = pod.namespace, tuple(pod.labels.items())
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = pod, Counts()
        kind[1].add(name, 0, number)  # in whichever row, because no sums are asked for
        if not kind[1].nodes:
            del self._kinds[key]

    def counts(self, selections: Selections) -> Counts:
        """How many pods each node has that all the selections mean."""
        counts = Counts()
        tests = [(selection.namespaces, label_test(selection.selector)) for selection in selections]
        total = counts.nodes
        for pod, kind in self._kinds.values():
            if all((spaces is None or pod.namespace in spaces) and test(pod.labels) for spaces, test in tests):
                for name, number in kind.nodes.items():
                    total[name] = total.get(name, 0) + number
        return counts


class _Carriers:
    """Distinct terms with the number of pods that carry them, by node."""

    def __init__(self, terms_of: Callable[[Pod], Iterable[CarriedTerm]]) -> None:
        self._terms_of = terms_of
        self._counts: dict[CarriedTerm, Counts] = {}
        self._index: SelectorIndex[CarriedTerm] = SelectorIndex()

    def count(self, pod: Pod, name: str, row: int, number: int) -> None:
        for carried in self._terms_of(pod):
            selector = carried.term.selector
            if selector is None:  # matches no pod
                continue
            counts = self._counts.get(carried)
            if counts is None:
                counts = self._counts[carried] = Counts()
                self._index.add(carried, (selector,))
            counts.add(name, row, number)
            if not counts.nodes:
                del self._counts[carried]
                self._index.remove(carried)

    def renumber(self) -> None:
        for counts in self._counts.values():
            counts.renumber()

    def selecting(self, pod: Pod, snapshot: Snapshot) -> list[tuple[CarriedTerm, Counts]]:
        if not self._counts:
            return []
        space, labels = pod.namespace, pod.labels
        space_labels = snapshot.surroundings.namespace_labels(space)
        return [
            (carried, self._counts[carried])
            for carried in self._index.candidates(labels)
            if carried.term.selects(space, space_labels, labels)
        ]


class _Following:
    """What of the pods came and went between the snapshots it is asked about, whatever their order."""

    def __init__(self, pods_of: Callable[[NodeInfo], Collection[Pod]]) -> None:
        self._pods_of = pods_of
        self._memo = RowMemo()
        self._held: dict[str, NodeInfo] = {}
        self._last: Snapshot | None = None

    @property
    def names(self) -> object:
        return None if self._last is None else self._last.node_columns.names

    @property
    def size(self) -> int:
        return 0 if self._last is None else len(self._last)

    def up_to_date(self, snapshot: Snapshot) -> bool:
        return self._last is snapshot

    def changes(self, snapshot: Snapshot) -> tuple[bool, list[tuple[str, int, Pod, int]]]:
        """Whether nodes stand in other rows than before; node, row, pod, and 1 (came) or -1 (went)."""
        moved = self._memo.moved(snapshot)
        self._last = snapshot
        found: list[tuple[str, int, Pod, int]] = []
        if moved is None:
            self._drop_others(snapshot.index, found)
        rows = range(len(snapshot)) if moved is None else moved.tolist()
        for row in rows:
            self._compare(row, snapshot.rows[row], found)
        return moved is None, found

    def _drop_others(self, index: Mapping[str, int], found: list[tuple[str, int, Pod, int]]) -> None:
        for name in [name for name in self._held if name not in index]:
            found.extend((name, 0, pod, -1) for pod in self._pods_of(self._held.pop(name)))

    def _compare(self, row: int, info: NodeInfo, found: list[tuple[str, int, Pod, int]]) -> None:
        name = info.node.name
        before = self._held.get(name)
        if before is info:
            return
        new = self._pods_of(info)
        old = () if before is None else self._pods_of(before)
        if new:
            self._held[name] = info
        elif before is not None:
            del self._held[name]
        if not new and not old:
            return
        gone, come = _difference(old, new)
        found.extend((name, row, pod, -1) for pod in gone)
        found.extend((name, row, pod, 1) for pod in come)


def _difference(old: Collection[Pod], new: Collection[Pod]) -> tuple[Collection[Pod], Collection[Pod]]:
    """Pods only in the old ones, pods only in the new ones; an older state of a pod is another one."""
    if old is new:
        return (), ()
    if len(new) >= len(old) and all(map(is_, old, new)):  # as at every bind: some were added behind the others
        return (), list(islice(new, len(old), None))
    before, after = {id(pod): pod for pod in old}, {id(pod): pod for pod in new}
    return (
        [pod for key, pod in before.items() if key not in after],
        [pod for key, pod in after.items() if key not in before],
    )


def _repelling_terms(pod: Pod) -> Iterator[CarriedTerm]:
    for term in pod.required_anti_affinity:
        yield CarriedTerm(Role.REPELS, 0, term)


def _attracting_terms(pod: Pod) -> Iterator[CarriedTerm]:
    for term in pod.required_affinity:
        yield CarriedTerm(Role.REQUIRES, 0, term)
    for preferred in pod.preferred_affinity:
        yield CarriedTerm(Role.PREFERS, preferred.weight, preferred.term)
    for preferred in pod.preferred_anti_affinity:
        yield CarriedTerm(Role.PREFERS, -preferred.weight, preferred.term)
