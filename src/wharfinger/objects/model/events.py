"""What was observed in the cluster, in the words of the queueing hints.

A watched change of an object becomes at most one `ClusterEvent`; plugins say with their hints which
waiting pods such an event may help. Actions as in kube-scheduler's `framework.ClusterEvent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto

from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import (
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from wharfinger.objects.model.storage_index import place_of
from wharfinger.objects.model.surroundings import NOTHING_AROUND, Surroundings


class Resource(StrEnum):
    """Kinds of objects that events are about."""

    NODE = "Node"
    ASSIGNED_POD = "AssignedPod"
    """A pod that is bound (or was, when it is deleted)."""
    UNSCHEDULED_POD = "UnscheduledPod"
    """The waiting pod itself: its updates are offered to that pod only."""
    PRIORITY_CLASS = "PriorityClass"
    """Priorities of any pods, by their classes."""
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
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
    UPDATE_NODE_DECLARED_FEATURE = auto()
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
        | UPDATE_NODE_DECLARED_FEATURE
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
    old: Node | Pod | StorageObject | None = None
    new: Node | Pod | StorageObject | None = None
    surroundings: Surroundings = field(default=NOTHING_AROUND, repr=False, compare=False)
    """What there was beside nodes and pods right after it, for hints that need more than the object."""

    @property
    def freed_nomination(self) -> bool:
        """Whether this is a nominated pod giving up the room it was promised, no bound pod's end."""
        return self.resource is Resource.ASSIGNED_POD and isinstance(self.old, Pod) and not self.old.bound

    @property
    def label(self) -> str:
        """In kube-scheduler's words, for metrics and explanations: `NodeAdd`, `AssignedPodDelete`, ..."""
        names = "".join(part.title().replace("_", "") for part in (member.name or "" for member in self.action))
        return f"{self.resource.value}{names}"

    @property
    def object_name(self) -> str:
        """The object's name, behind its namespace and a slash where it has one."""
        subject = self.new if self.new is not None else self.old
        if isinstance(subject, Pod):
            return str(subject.key)
        if isinstance(subject, Node):
            return subject.name
        return "/".join(filter(None, place_of(subject))) if subject is not None else ""


def node_event(
    old: Node | None, new: Node | None, revision: int, surroundings: Surroundings = NOTHING_AROUND
) -> ClusterEvent | None:
    """The event that a change of a node means to scheduling; None when it means nothing."""
    if old is None or new is None:
        action = Action.ADD if old is None else Action.DELETE
        return None if old is new else ClusterEvent(Resource.NODE, action, revision, old, new, surroundings)
    action = Action(0)
    if old.allocatable != new.allocatable:
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if old.labels != new.labels:
        action |= Action.UPDATE_NODE_LABEL
    if old.taints != new.taints or (old.unschedulable and not new.unschedulable):
        action |= Action.UPDATE_NODE_TAINT  # as in kube-scheduler, to cordon a node is no event: it helps no pod
    if old.conditions != new.conditions:
        action |= Action.UPDATE_NODE_CONDITION
    if old.declared_features != new.declared_features:
        action |= Action.UPDATE_NODE_DECLARED_FEATURE
    return ClusterEvent(Resource.NODE, action, revision, old, new, surroundings) if action else None


_STORAGE: Mapping[type[StorageObject], Resource] = {
    PersistentVolume: Resource.PERSISTENT_VOLUME,
    PersistentVolumeClaim: Resource.PERSISTENT_VOLUME_CLAIM,
    StorageClass: Resource.STORAGE_CLASS,
    CsiNode: Resource.CSI_NODE,
    CsiDriver: Resource.CSI_DRIVER,
    StorageCapacity: Resource.CSI_STORAGE_CAPACITY,
    VolumeAttachment: Resource.VOLUME_ATTACHMENT,
}


def storage_event(
    old: StorageObject | None,
    new: StorageObject | None,
    revision: int,
    surroundings: Surroundings = NOTHING_AROUND,
) -> ClusterEvent | None:
    """The event of an object about storage; None when nothing that scheduling reads of it has changed."""
    subject = new if new is not None else old
    if subject is None or old == new:
        return None
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    return ClusterEvent(_STORAGE[type(subject)], action, revision, old, new, surroundings)


def pod_events(
    old: Pod | None, new: Pod | None, revision: int, surroundings: Surroundings = NOTHING_AROUND
) -> tuple[ClusterEvent, ...]:
    """What a change of a pod means to scheduling: nothing, an event, or two.

    A change of a bound pod concerns others; so does the end of a nomination. A change of a waiting pod concerns that
    pod alone, and one of its status no pod.
    """
    if (old is not None and old.bound) or (new is not None and new.bound):
        found = assigned_pod_event(_if_bound(old), _if_bound(new), revision, surroundings)
        return () if found is None else (found,)
    if old is None:
        return ()
    freed = own = None
    if old.nominated_node_name and not _nominated_as(new, old):
        freed = assigned_pod_event(old, None, revision, surroundings)
    if new is not None:
        own = unscheduled_pod_event(old, new, revision, surroundings)
    return tuple(event for event in (freed, own) if event is not None)


def reclassification(revision: int, surroundings: Surroundings = NOTHING_AROUND) -> ClusterEvent:
    """The event of pods that have other priorities because classes changed: it may help every waiting pod.

    One that has a higher priority now, or that is kept out by pods of lower ones now, may preempt.
    """
    return ClusterEvent(Resource.PRIORITY_CLASS, Action.UPDATE, revision, surroundings=surroundings)


def _if_bound(pod: Pod | None) -> Pod | None:
    return pod if pod is not None and pod.bound else None


def _nominated_as(new: Pod | None, old: Pod) -> bool:
    return new is not None and new.pending and new.nominated_node_name == old.nominated_node_name


def assigned_pod_event(
    old: Pod | None, new: Pod | None, revision: int, surroundings: Surroundings = NOTHING_AROUND
) -> ClusterEvent | None:
    """The event of a bound (or nominated) pod; None when it means nothing to scheduling.

    A pod that finishes counts as deleted: it uses nothing any more. A changed node is never
    compared: a pod is bound at most once in its life.
    """
    if new is not None and new.finished:
        new = None
    if old is not None and old.finished:
        old = None
    if old is None or new is None:
        action = Action.ADD if old is None else Action.DELETE
        return None if old is new else ClusterEvent(Resource.ASSIGNED_POD, action, revision, old, new, surroundings)
    action = _pod_update(old, new)
    return ClusterEvent(Resource.ASSIGNED_POD, action, revision, old, new, surroundings) if action else None


def unscheduled_pod_event(
    old: Pod, new: Pod, revision: int, surroundings: Surroundings = NOTHING_AROUND
) -> ClusterEvent | None:
    """The event of a waiting pod's own update; None for changes of status only."""
    action = _pod_update(old, new)
    if old.scheduling_gates and not new.scheduling_gates:
        action |= Action.UPDATE_POD_GATES_ELIMINATED
    if _changed_otherwise(old, new, action):
        action |= Action.UPDATE
    return ClusterEvent(Resource.UNSCHEDULED_POD, action, revision, old, new, surroundings) if action else None


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
    "preemption_policy",
    "class_missing",
    "requests",
    "host_ports",
    "node_selector",
    "required_node_terms",
    "preferred_node_terms",
    "required_affinity",
    "required_anti_affinity",
    "preferred_affinity",
    "preferred_anti_affinity",
    "spread_constraints",
    "scheduling_gates",
    "required_features",
    "unsupported",
)
"""Fields of a pod that decisions read and that have no action of their own, or not for every change."""
