"""What was observed in the cluster, in the words of the queueing hints.

A watched change of an object becomes at most one `ClusterEvent`; plugins say with their hints which
waiting pods such an event may help. Actions as in kube-scheduler's `framework.ClusterEvent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, StrEnum, auto

from wharfinger.model.node import Node
from wharfinger.model.pod import Pod


class Resource(StrEnum):
    """Kinds of objects that events are about."""

    NODE = "Node"
    ASSIGNED_POD = "AssignedPod"
    """A pod that is bound (or was, when it is deleted)."""
    UNSCHEDULED_POD = "UnscheduledPod"
    """The waiting pod itself: its updates are offered to that pod only."""
    TENANT = "Tenant"
    ANY = "*"


class Action(Flag):
    """What happened to the object."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    UPDATE_NODE_CONDITION = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_GATES_ELIMINATED = auto()
    UPDATE = auto()
    """Any other update."""
    ALL = (
        ADD
        | DELETE
        | UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_GATES_ELIMINATED
        | UPDATE
    )


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One change of one object, at one revision of etcd."""

    resource: Resource
    action: Action
    revision: int
    old: Node | Pod | None = None
    new: Node | Pod | None = None

    @property
    def label(self) -> str:
        """In kube-scheduler's words, for metrics and explanations: `NodeAdd`, `AssignedPodDelete`, ..."""
        names = "".join(part.title().replace("_", "") for part in (member.name or "" for member in self.action))
        return f"{self.resource.value}{names}"

    @property
    def object_name(self) -> str:
        """The name of the object: a node's name, or a pod's namespace/name."""
        subject = self.new if self.new is not None else self.old
        if isinstance(subject, Pod):
            return str(subject.key)
        return subject.name if subject is not None else ""


def node_event(old: Node | None, new: Node | None, revision: int) -> ClusterEvent | None:
    """The event that a change of a node means to scheduling; None when it means nothing."""
    if old is None and new is None:
        return None
    if old is None:
        return ClusterEvent(Resource.NODE, Action.ADD, revision, None, new)
    if new is None:
        return ClusterEvent(Resource.NODE, Action.DELETE, revision, old, None)
    action = Action(0)
    if old.allocatable != new.allocatable:
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if old.labels != new.labels:
        action |= Action.UPDATE_NODE_LABEL
    if old.taints != new.taints or (old.unschedulable and not new.unschedulable):
        action |= Action.UPDATE_NODE_TAINT  # as in kube-scheduler, to cordon a node is no event: it helps nobody
    if old.conditions != new.conditions:
        action |= Action.UPDATE_NODE_CONDITION
    return ClusterEvent(Resource.NODE, action, revision, old, new) if action else None


def assigned_pod_event(old: Pod | None, new: Pod | None, revision: int) -> ClusterEvent | None:
    """The event of a bound (or nominated) pod; None when it means nothing to scheduling.

    A pod that finishes counts as deleted: it uses nothing any more. A changed node is never
    compared: a pod is bound at most once in its life.
    """
    if new is not None and new.finished:
        new = None
    if old is not None and old.finished:
        old = None
    if old is None and new is None:
        return None
    if old is None:
        return ClusterEvent(Resource.ASSIGNED_POD, Action.ADD, revision, None, new)
    if new is None:
        return ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE, revision, old, None)
    action = _pod_update(old, new)
    return ClusterEvent(Resource.ASSIGNED_POD, action, revision, old, new) if action else None


def unscheduled_pod_event(old: Pod, new: Pod, revision: int) -> ClusterEvent | None:
    """The event of a waiting pod's own update; None for changes of status only."""
    action = _pod_update(old, new)
    if old.scheduling_gates and not new.scheduling_gates:
        action |= Action.UPDATE_POD_GATES_ELIMINATED
    if _changed_otherwise(old, new, action):
        action |= Action.UPDATE
    return ClusterEvent(Resource.UNSCHEDULED_POD, action, revision, old, new) if action else None


def _pod_update(old: Pod, new: Pod) -> Action:
    action = Action(0)
    if old.labels != new.labels:
        action |= Action.UPDATE_POD_LABEL
    if any(new.requests.get(name, 0) < amount for name, amount in old.requests.items()):
        action |= Action.UPDATE_POD_SCALE_DOWN
    if old.tolerations != new.tolerations:
        action |= Action.UPDATE_POD_TOLERATION
    return action


def _changed_otherwise(old: Pod, new: Pod, told: Action) -> bool:
    """Whether the specification differs in something that the actions `told` do not say."""
    fields = set(_SPECIFICATION)
    if Action.UPDATE_POD_SCALE_DOWN in told:
        fields.discard("requests")
    if Action.UPDATE_POD_GATES_ELIMINATED in told:
        fields.discard("scheduling_gates")
    return any(getattr(old, field) != getattr(new, field) for field in fields)


_SPECIFICATION = (
    "priority",
    "requests",
    "host_ports",
    "node_selector",
    "required_node_terms",
    "preferred_node_terms",
    "scheduling_gates",
    "unsupported",
)
"""Fields of a pod that decisions read and that have no action of their own, or not for every change."""
