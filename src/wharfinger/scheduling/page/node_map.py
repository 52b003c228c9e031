"""The cluster map: every node with its columns, and what changed of it since the last look.

Columns, not rows: 5,000 nodes are a few arrays, and labels and taints are numbers into lists of values. The whole is
asked for once; then only rows whose numbers changed are told, under the same `layout`. A node that comes, goes, or
has other labels, taints or room makes another layout, and viewers ask for the whole again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from wharfinger.framework.columns import Rows
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Node
from wharfinger.objects.model.selectors import LabelSelector
from wharfinger.page.follow.plain import text
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.objects import taint

MOST_RESOURCES = 12
MOST_KEYS = 150
"""Label keys that are told."""
_FIRST = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE)
MOST_LOST = 1000


class NodeMap:
    """Remembers what it told, to tell only differences."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self.layout = 0
        """Another number whenever the nodes themselves changed."""
        self._nodes: list[Node] = []
        self._resources: tuple[str, ...] = ()
        self._fixed: dict[str, Any] | None = None
        """What is the same under one layout; made when somebody asks."""
        self._restarts = -1
        self._told_layout = 0
        """As of the last tick."""
        self._stamps: np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None = None
        """Of the rows at the last tick."""
        self._rows: Rows[NodeInfo] = Rows(())
        self._changed: Sequence[int] | None = None
        """Rows that changed between the last two ticks; None = nothing did."""
        self._before: Rows[NodeInfo] = self._rows
        """The rows of the tick before."""
        self._changed_in: dict[str, list[int]] | None = None
        """Of these rows, those where pods of a namespace changed; made when somebody asks."""
        self._deltas: dict[str, dict[str, Any]] = {}

    def whole(self, namespace: str = "") -> dict[str, Any]:
        """Every node; `namespace`: counting only the pods of one."""
        cache = self._following.cache
        snapshot = cache.snapshot()
        self._look(snapshot)
        used = [_used(info, namespace, self._resources) for info in snapshot.rows]
        if self._fixed is None:
            self._fixed = _fixed(self._nodes, self._resources)
        return {
            "layout": self.layout,
            "revision": snapshot.revision,
            "namespace": namespace or None,
            "requested": {resource: [row[place] for row in used] for place, resource in enumerate(self._resources)},
            **self._fixed,
            "lost": [{"name": text(name), "pods": len(info.pods)} for name, info in cache.absent_nodes.items()][
                :MOST_LOST
            ],
        }

    def tick(self) -> None:
        """Look at the cluster; `changed` answers about the time between the last two ticks."""
        snapshot = self._following.cache.snapshot()
        before, stamps = self._stamps, snapshot.stamps
        self._look(snapshot)
        self._deltas = {}
        self._changed_in = None
        self._before, self._rows = self._rows, snapshot.rows
        if self.layout != self._told_layout or before is None or len(before) != len(stamps):
            self._changed = ()
        elif before is stamps:
            self._changed = None
        else:
            self._changed = np.flatnonzero(before != stamps).tolist() or None
        self._told_layout, self._stamps = self.layout, stamps

    def changed(self, namespace: str = "") -> dict[str, Any] | None:
        """The rows that changed, as `[row, requested ...]` in the order of `resources`; None for nothing.

        Under another layout without rows: everything has to be asked for again.
        """
        if self._changed is None:
            return None
        known = self._deltas.get(namespace)
        if known is None:
            changed = self._changed if not namespace or not self._changed else self._by_namespace().get(namespace)
            if changed is None:
                return None
            rows = [[row, *_used(self._rows[row], namespace, self._resources)] for row in changed]
            known = self._deltas[namespace] = {"layout": self.layout, "rows": rows}
        return known

    def _by_namespace(self) -> dict[str, list[int]]:
        """The rows that changed, by namespaces of the pods that came, left or changed there."""
        if self._changed_in is None:
            self._changed_in = {}
            for row in self._changed or ():
                new, old = self._rows[row].pods, self._before[row].pods
                found = {pod.namespace for identity, pod in new.items() if old.get(identity) is not pod}
                found.update([pod.namespace for identity, pod in old.items() if identity not in new])
                for namespace in found:
                    self._changed_in.setdefault(namespace, []).append(row)
        return self._changed_in

    def matching(self, selector: LabelSelector) -> dict[str, Any]:
        """Rows of the nodes whose labels a selector matches, under the present layout."""
        rows = self._following.cache.snapshot().rows
        return {
            "layout": self.layout,
            "rows": [row for row, info in enumerate(rows) if selector.matches(info.node.labels)],
        }

    def _look(self, snapshot: Snapshot) -> None:
        """Notice other nodes; the layout then is another one."""
        rows, stamps = snapshot.rows, self._stamps
        anew = self._restarts != self._following.restarts or len(rows) != len(self._nodes)
        if not anew:
            compared = stamps is not None and len(stamps) == len(rows)
            suspects = np.flatnonzero(snapshot.stamps != stamps).tolist() if compared else range(len(rows))
            anew = any(
                (node := rows[row].node) is not self._nodes[row] and node != self._nodes[row] for row in suspects
            )
        if anew:
            self.layout += 1
            self._restarts = self._following.restarts
            self._nodes = [info.node for info in rows]
            self._resources = _resources(self._nodes)
            self._fixed = None


def _fixed(nodes: Sequence[Node], resources: Sequence[str]) -> dict[str, Any]:
    return {
        "resources": list(resources),
        "names": [text(node.name) for node in nodes],
        "allocatable": {resource: [node.allocatable.get(resource, 0) for node in nodes] for resource in resources},
        "ready": [int(node.ready) for node in nodes],
        "unschedulable": [int(node.unschedulable) for node in nodes],
        "taints": _interned([", ".join(map(taint, node.taints)) for node in nodes]),
        "labels": _label_columns(nodes),
    }


def _resources(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Those that nodes offer, the usual ones first."""
    offered = {resource for node in nodes for resource, amount in node.allocatable.items() if amount}
    others = sorted(offered.difference(_FIRST))
    return tuple([one for one in _FIRST if one in offered] + others)[:MOST_RESOURCES]


def _used(info: NodeInfo, namespace: str, resources: Sequence[str]) -> list[int]:
    """What the pods there request, by resource."""
    if not namespace:
        return [info.requested.get(resource, 0) for resource in resources]
    pods = [pod for pod in info.pods.values() if pod.namespace == namespace]
    return [
        len(pods) if resource == PODS else sum(pod.requests.get(resource, 0) for pod in pods) for resource in resources
    ]


def _interned(values: Sequence[str]) -> dict[str, Any]:
    """Each value once, and by row which one."""
    codes: dict[str, int] = {}
    found = [codes.setdefault(value, len(codes)) for value in values]
    return {"values": list(codes), "codes": found}


def _label_columns(nodes: Sequence[Node]) -> dict[str, Any]:
    """Label key -> column; -1 where a node lacks it. Keys of most nodes go first where there are too many."""
    carried: dict[str, int] = {}
    for node in nodes:
        for key in node.labels:
            carried[key] = carried.get(key, 0) + 1
    chosen = sorted(sorted(carried, key=lambda key: (-carried[key], key))[:MOST_KEYS])
    columns: dict[str, Any] = {}
    for key in chosen:
        codes: dict[str, int] = {}
        rows = [codes.setdefault(node.labels[key], len(codes)) if key in node.labels else -1 for node in nodes]
        columns[text(key)] = {"values": [text(value) for value in codes], "codes": rows}
    return columns
