"""Plugins that compare fields of a pod with one node: NodeName, NodeUnschedulable and NodePorts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    PASSES,
    SKIPS,
    EventHint,
    Filter,
    Local,
    NodeFilter,
    PreFilter,
    PreFilterResult,
    QueueingHints,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unresolvable, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import HostPort, Pod
from wharfinger.objects.model.selectors import Taint, tolerates

_OTHER = unresolvable("node(s) didn't match the requested node name")


class NodeName(Filter, NodeFilter, Local, QueueingHints):
    """A pod that names its node (`spec.nodeName`) goes there or nowhere."""

    name = names.NODE_NAME

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """Refuses every node but the named one."""
        if not pod.node_name:
            return None
        refused = np.ones(len(snapshot), dtype=np.bool_)
        row = snapshot.index.get(pod.node_name)
        if row is not None:
            refused[row] = False
        return Verdicts.refuse(refused, _OTHER)

    def signature(self, pod: Pod) -> Hashable:
        """The name."""
        return pod.node_name

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """The same, of one node."""
        return SUCCESS if pod.node_name in ("", node.node.name) else _OTHER

    def queueing_hints(self) -> Sequence[EventHint]:
        """Every new node."""
        return (EventHint(Resource.NODE, Action.ADD),)


_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_CORDONED = unresolvable("node(s) were unschedulable")


class NodeUnschedulable(Filter, NodeFilter, Local, QueueingHints):
    """A cordoned node (`spec.unschedulable`) takes only pods that tolerate being there."""

    name = names.NODE_UNSCHEDULABLE

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """Refuses cordoned nodes unless the pod tolerates the cordon's taint."""
        if not snapshot.any_unschedulable or tolerates(pod.tolerations, _CORDON):
            return None
        return Verdicts.refuse(snapshot.unschedulable, _CORDONED)

    def signature(self, pod: Pod) -> Hashable:
        """Whether the cordon is tolerated."""
        return bool(pod.tolerations) and tolerates(pod.tolerations, _CORDON)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """The same, of one node."""
        return _CORDONED if node.node.unschedulable and not tolerates(pod.tolerations, _CORDON) else SUCCESS

    def queueing_hints(self) -> Sequence[EventHint]:
        """A node that is, or became, schedulable; tolerations that now cover the cordon."""
        return (
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, _became_schedulable),
            EventHint(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION, _tolerates_now),
        )


def _became_schedulable(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    if not isinstance(event.new, Node) or event.new.unschedulable:
        return False
    return not isinstance(event.old, Node) or event.old.unschedulable


def _tolerates_now(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    return isinstance(event.new, Pod) and tolerates(event.new.tolerations, _CORDON)


_TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")


def conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether any wanted port is taken: same protocol and port, and the same address or 0.0.0.0 on either side."""
    # By port first: a pod may have thousands, and a node as many.
    by_port: dict[tuple[str, int], list[HostPort]] = {}
    for port in taken:
        by_port.setdefault((port.protocol, port.port), []).append(port)
    return any(port.conflicts(other) for port in wanted for other in by_port.get((port.protocol, port.port), ()))


class NodePorts(PreFilter, Filter, NodeFilter, Local, QueueingHints):
    """A host port of a node is given once. Wanted ports are compared once per distinct set of taken ports."""

    name = names.NODE_PORTS

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:  # noqa: ARG002
        """Skip for a pod without host ports."""
        return PASSES if pod.host_ports else SKIPS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """Refuses nodes where a wanted port is taken."""
        if snapshot.host_ports.plain:
            return None
        refused = snapshot.host_ports.map(lambda taken: conflict(pod.host_ports, taken), np.bool_)
        return Verdicts.refuse(refused, _TAKEN)

    def signature(self, pod: Pod) -> Hashable:
        """The ports."""
        return pod.host_ports

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """The same, of one node."""
        return _TAKEN if node.host_ports and conflict(pod.host_ports, node.host_ports) else SUCCESS

    def queueing_hints(self) -> Sequence[EventHint]:
        """Every new node; the end of a pod that held a wanted port."""
        return (
            EventHint(Resource.NODE, Action.ADD),
            EventHint(Resource.ASSIGNED_POD, Action.DELETE, _frees_a_port),
        )


def _frees_a_port(pod: Pod, event: ClusterEvent) -> bool:
    gone = event.old
    if not isinstance(gone, Pod) or not (gone.node_name or gone.nominated_node_name):
        return False
    return conflict(pod.host_ports, gone.host_ports)
