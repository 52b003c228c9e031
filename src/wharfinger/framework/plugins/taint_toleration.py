"""TaintToleration: nodes repel pods by taints, pods go there anyway by tolerations.

Refuses on NoSchedule and NoExecute; counts PreferNoSchedule against a node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    EventHint,
    Filter,
    Local,
    NodeFilter,
    NodeScore,
    Normalization,
    QueueingHints,
    RowSelection,
    Score,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unresolvable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import Taint, Toleration, tolerates

_REPELLING = ("NoSchedule", "NoExecute")
_PREFER = "PreferNoSchedule"
_PAIRS = 256
"""Comparisons that cost less than making sets."""
_UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")


def tolerated(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> bool:
    """Whether every taint that repels outright is tolerated."""
    is_tolerated = _test(tolerations, len(taints))
    return all(taint.effect not in _REPELLING or is_tolerated(taint) for taint in taints)


def unpreferred(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> int:
    """How many PreferNoSchedule taints are not tolerated.

    Only tolerations for that effect, or for every effect, count.
    """
    fitting = tuple(toleration for toleration in tolerations if toleration.effect in ("", _PREFER))
    is_tolerated = _test(fitting, len(taints))
    return sum(taint.effect == _PREFER and not is_tolerated(taint) for taint in taints)


def _test(tolerations: tuple[Toleration, ...], taints: int) -> Callable[[Taint], bool]:
    """Whether a taint is tolerated, asked for so many of them: thousands against thousands are looked up."""
    if len(tolerations) * taints <= _PAIRS:
        return lambda taint: tolerates(tolerations, taint)
    values = {
        (each.key, each.value, each.effect) for each in tolerations if each.key and each.operator in ("Equal", "")
    }
    keys = {(each.key, each.effect) for each in tolerations if each.operator == "Exists"}

    def is_tolerated(taint: Taint) -> bool:
        return any(
            (taint.key, taint.value, effect) in values or (taint.key, effect) in keys or ("", effect) in keys
            for effect in ("", taint.effect)
        )

    return is_tolerated


class TaintToleration(Filter, NodeFilter, Score, NodeScore, Local, QueueingHints):
    """Compares the node's taints with the pod's tolerations, once per distinct set of taints."""

    name = names.TAINT_TOLERATION
    normalization = Normalization.LOWEST

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """Refuses nodes with an untolerated NoSchedule or NoExecute taint."""
        if snapshot.taints.plain:
            return None
        refused = snapshot.taints.map(lambda taints: not tolerated(pod.tolerations, taints), np.bool_)
        return Verdicts.refuse(refused, _UNTOLERATED)

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:  # noqa: ARG002
        """Untolerated PreferNoSchedule taints of each node."""
        if snapshot.taints.plain:
            return snapshot.node_columns.names.zeros[rows]
        counts: IntColumn = snapshot.taints.map(lambda taints: unpreferred(pod.tolerations, taints), np.int64)[rows]
        return counts

    def signature(self, pod: Pod) -> Hashable:
        """The tolerations."""
        return pod.tolerations

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """The same, of one node."""
        taints = node.node.taints
        return SUCCESS if not taints or tolerated(pod.tolerations, taints) else _UNTOLERATED

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:  # noqa: ARG002
        """The same, of one node."""
        taints = node.node.taints
        return unpreferred(pod.tolerations, taints) if taints else 0

    def queueing_hints(self) -> Sequence[EventHint]:
        """A node that is tolerated now and was not before; the pod's own tolerations."""
        return (
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, _tolerated_now),
            EventHint(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION),
        )


def _tolerated_now(pod: Pod, event: ClusterEvent) -> bool:
    if not isinstance(event.new, Node) or not tolerated(pod.tolerations, event.new.taints):
        return False
    return not isinstance(event.old, Node) or not tolerated(pod.tolerations, event.old.taints)
