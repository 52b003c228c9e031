"""NodeDeclaredFeatures: a pod that cannot run without some features goes only to nodes that declare them.

Rules and message: kube-scheduler 1.36, `plugins/nodedeclaredfeatures`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

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
from wharfinger.framework.status import SUCCESS, Status, unresolvable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod

_LACKING = unresolvable("node(s) didn't match Pod's required features")


class NodeDeclaredFeatures(PreFilter, Filter, NodeFilter, Local, QueueingHints):
    """Compares `status.declaredFeatures` of the node with what the pod's specification requires."""

    name = names.NODE_DECLARED_FEATURES

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:  # noqa: ARG002
        """Skip for a pod that requires nothing."""
        return PASSES if pod.required_features else SKIPS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """Refuses nodes that lack a feature."""
        lacking = [not pod.required_features <= info.node.declared_features for info in snapshot.rows]
        return Verdicts.refuse(np.array(lacking, dtype=np.bool_), _LACKING)

    def signature(self, pod: Pod) -> Hashable:
        """What the pod requires."""
        return pod.required_features

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """The same, of one node."""
        return SUCCESS if pod.required_features <= node.node.declared_features else _LACKING

    def queueing_hints(self) -> Sequence[EventHint]:
        """Nodes that come or declare other features; the pod's own requirements."""
        return (
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE, _declares_otherwise),
            EventHint(Resource.UNSCHEDULED_POD, Action.ALL, _requires_otherwise),
        )


def _declares_otherwise(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    if not isinstance(event.old, Node) or not isinstance(event.new, Node):
        return True
    return event.old.declared_features != event.new.declared_features


def _requires_otherwise(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    before, after = event.old, event.new
    return isinstance(before, Pod) and isinstance(after, Pod) and before.required_features != after.required_features
