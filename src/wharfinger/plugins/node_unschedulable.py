"""NodeUnschedulable: a cordoned node takes only pods that tolerate being there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import EventHint, Filter, Local, NodeFilter, QueueingHints
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unresolvable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.model.events import Action, ClusterEvent, Resource
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod
from wharfinger.model.selectors import Taint, tolerates
from wharfinger.plugins import names

_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_CORDONED = unresolvable("node(s) were unschedulable")


class NodeUnschedulable(Filter, NodeFilter, Local, QueueingHints):
    """Looks at `spec.unschedulable` of the node."""

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
