"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import EventHint, Filter, Local, NodeFilter, QueueingHints
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unresolvable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.model.events import Action, Resource
from wharfinger.model.pod import Pod
from wharfinger.plugins import names

_OTHER = unresolvable("node(s) didn't match the requested node name")


class NodeName(Filter, NodeFilter, Local, QueueingHints):
    """Compares `spec.nodeName` with the node's name."""

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
