"""NodeVolumeLimits: as many volumes of a CSI driver on a node as its CSINode allows.

Rules and reasons of kube-scheduler 1.36 (`plugins/nodevolumelimits`). Most nodes are far from their limits: volumes are
told apart only where all that may be attached, counted twice over, would be too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from wharfinger.framework.columns import BoolColumn, IntColumn, NodeNames
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import (
    PASSES,
    SKIPS,
    EventHint,
    Filter,
    NodeFilter,
    PreFilter,
    PreFilterResult,
    QueueingHints,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.volume_restrictions import uses_volumes
from wharfinger.framework.row_memo import DomainSums
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import ClaimKey, CsiNode, PersistentVolumeClaim, VolumeAttachment
from wharfinger.objects.model.storage_index import Keyed, Storage
from wharfinger.objects.model.volume_limits import MIGRATED_DRIVERS, attached_to, volumes_of
from wharfinger.objects.model.volumes import CsiVolume

_TOO_MANY = unschedulable("node(s) exceed max volume count")


class NodeVolumeLimits(PreFilter, Filter, NodeFilter, QueueingHints):
    """Counts the volumes that are attached to a node, or are going to be."""

    name = names.NODE_VOLUME_LIMITS
    concerns = staticmethod(uses_volumes)

    def __init__(self) -> None:
        self._volumes = DomainSums(_volumes_named)
        self._attachments: StorageColumn[tuple[VolumeAttachment, ...]] = StorageColumn(len)
        self._kinds: dict[tuple[tuple[str, int | None], ...], int] = {}
        """Kinds of CSINodes, by their limits: few, however many nodes."""
        self._kind_of: StorageColumn[CsiNode] = StorageColumn(self._kind)
        self._examples: list[CsiNode] = []

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        """Skip for a pod without volumes that a driver may have to attach."""
        if not pod.claims and not _counted_in_line(pod):
            return SKIPS
        state.write(self.name, snapshot.surroundings.storage)
        return PASSES

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:
        """Refuses nodes where the pod's volumes are more than the limit leaves."""
        storage: Storage = state.read(self.name)
        kinds = self._kind_of.of(snapshot, storage.nodes)
        if not kinds.any():
            return None
        at_most = self._volumes.rows(snapshot) + self._attachments.of(snapshot, storage.attached)
        refused: BoolColumn = np.zeros(len(snapshot), dtype=np.bool_)
        for kind, csi_node in enumerate(self._examples, start=1):
            room = _room(_wanted(pod, storage, csi_node), csi_node)
            if room is None:
                continue
            for row in np.flatnonzero((kinds == kind) & (at_most > room)).tolist():
                refused[row] = exceeds(pod, snapshot.rows[row], storage)
        return Verdicts.refuse(refused, _TOO_MANY) if refused.any() else None

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """The same, of one node."""
        return _TOO_MANY if exceeds(pod, node, state.read(self.name)) else SUCCESS

    def queueing_hints(self) -> Sequence[EventHint]:
        """What raises a limit, frees a volume, or makes a claim known."""
        return (
            EventHint(Resource.CSI_NODE, Action.ADD),
            EventHint(Resource.CSI_NODE, Action.UPDATE, _raises_a_limit),
            # kube-scheduler takes a limit that is gone for 0, and forgets volumes that are attached no more although
            # an ephemeral volume may have been waiting for that.
            EventHint(Resource.CSI_NODE, Action.UPDATE, _lifts_a_limit, beyond=True),
            EventHint(Resource.VOLUME_ATTACHMENT, Action.DELETE, lambda pod, _event: bool(pod.claims), beyond=True),
            EventHint(Resource.ASSIGNED_POD, Action.DELETE, _frees_volumes),
            EventHint(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, uses_claim),
            EventHint(Resource.VOLUME_ATTACHMENT, Action.DELETE, _detached),
        )

    def _kind(self, csi_node: CsiNode) -> int:
        """The number of its kind, from 1 on."""
        kind = self._kinds.setdefault(csi_node.limits, len(self._kinds) + 1)
        if kind > len(self._examples):
            self._examples.append(csi_node)
        return kind


def exceeds(pod: Pod, info: NodeInfo, storage: Storage) -> bool:
    """Whether the pod's volumes are more than a limit of the node leaves."""
    csi_node = storage.nodes.get(info.node.name)
    new = _wanted(pod, storage, csi_node)
    if csi_node is None or _room(new, csi_node) is None:
        return False
    there = {volume for other in info.pods_with_volumes for volume in volumes_of(other, storage, csi_node)}
    attached = Counter(volume.driver for volume in there.union(attached_to(info.node.name, storage)))
    wanted = Counter(volume.driver for volume in new - there)
    limits = dict(csi_node.limits)
    for driver, count in wanted.items():
        limit = limits.get(driver)
        if limit is not None and attached[driver] + count > limit:
            return True
    return False


def uses_claim(pod: Pod, event: ClusterEvent) -> bool:
    """Whether the claim that came, or changed, is one of the pod's."""
    claim = event.new
    return isinstance(claim, PersistentVolumeClaim) and any(
        ClaimKey(pod.namespace, named.name) == claim.key for named in pod.claims
    )


def _wanted(pod: Pod, storage: Storage, csi_node: CsiNode | None) -> set[CsiVolume]:
    return set(volumes_of(pod, storage, csi_node))


def _room(wanted: set[CsiVolume], csi_node: CsiNode) -> int | None:
    """How many volumes, of whichever drivers, may be there for all of `wanted` to fit surely; None = any number."""
    counts = Counter(volume.driver for volume in wanted)
    limits = dict(csi_node.limits)
    rooms = [limit - count for driver, count in counts.items() if (limit := limits.get(driver)) is not None]
    return min(rooms, default=None)


def _volumes_named(info: NodeInfo) -> int:
    return sum(len(pod.claims) + len(pod.in_line_volumes) for pod in info.pods_with_volumes)


def _counted_in_line(pod: Pod) -> bool:
    return any(volume.in_tree is not None for volume in pod.in_line_volumes)


def _raises_a_limit(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    old, new = event.old, event.new
    if not isinstance(old, CsiNode) or not isinstance(new, CsiNode):
        return True
    before = {driver: limit or 0 for driver, limit in old.limits}
    return any((limit or 0) > before.get(driver, 0) for driver, limit in new.limits)


def _lifts_a_limit(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    old, new = event.old, event.new
    limited = {driver for driver, limit in new.limits if limit is not None} if isinstance(new, CsiNode) else set()
    return isinstance(old, CsiNode) and any(limit is not None and driver not in limited for driver, limit in old.limits)


def _frees_volumes(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    gone = event.old
    if not isinstance(gone, Pod) or not (gone.node_name or gone.nominated_node_name):
        return False
    return bool(gone.claims) or _counted_in_line(gone)


def _detached(pod: Pod, event: ClusterEvent) -> bool:
    if any(not named.ephemeral for named in pod.claims):
        return True
    gone = event.old
    return isinstance(gone, VolumeAttachment) and any(
        volume.in_tree is not None and MIGRATED_DRIVERS.get(volume.in_tree.plugin) == gone.attacher
        for volume in pod.in_line_volumes
    )


T = TypeVar("T")


class StorageColumn(Generic[T]):
    """A number for each node, made of the entry that a mapping by node name has for it."""

    def __init__(self, number: Callable[[T], int]) -> None:
        """`number`: of an entry; nodes without one have 0."""
        self._number = number
        self._names: NodeNames | None = None
        self._entries: Keyed[str, T] | None = None
        self._column: IntColumn = np.zeros(0, dtype=np.int64)

    def of(self, snapshot: Snapshot, entries: Keyed[str, T]) -> IntColumn:
        """The numbers, by row. Not to be written to."""
        names, before = snapshot.node_columns.names, self._entries
        if names is not self._names or before is None:
            found = (entries.get(name) for name in names.names)
            numbers = (0 if entry is None else self._number(entry) for entry in found)
            self._column = np.fromiter(numbers, dtype=np.int64, count=len(names.names))
        elif entries is not before:
            changed = {
                names.index[name]: entries.get(name) for name in entries.differing(before) if name in names.index
            }
            if changed:
                column = self._column.copy()
                for row, entry in changed.items():
                    column[row] = 0 if entry is None else self._number(entry)
                self._column = column
        self._names, self._entries = names, entries
        return self._column
