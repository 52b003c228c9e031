"""VolumeRestrictions: disks that one pod a node may use, and claims that one pod of the cluster may use.

Rules and reasons of kube-scheduler 1.36 (`plugins/volumerestrictions`). Which claims are in use is asked of the pods
themselves, so evicting a pod of another namespace whose claim has the same name is not thought to help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

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
from wharfinger.framework.row_memo import DomainSums, RowMemo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unresolvable, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import READ_WRITE_ONCE_POD, ClaimKey, PersistentVolumeClaim
from wharfinger.objects.model.volume_matching import claim_not_found
from wharfinger.objects.model.volumes import ExclusiveDisk

_DISK_TAKEN = unschedulable("node(s) had no available disk")
_CLAIM_TAKEN = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_STATUSES = (SUCCESS, _DISK_TAKEN, _CLAIM_TAKEN)


def uses_volumes(pod: Pod) -> bool:
    """Whether the plugins about volumes may have anything to say about the pod."""
    return bool(pod.claims or pod.in_line_volumes)


class VolumeRestrictions(PreFilter, Filter, NodeFilter, QueueingHints):
    """Compares in-line disks node by node, and ReadWriteOncePod claims over the whole cluster."""

    name = names.VOLUME_RESTRICTIONS
    concerns = staticmethod(uses_volumes)

    def __init__(self) -> None:
        self._users = ClaimUsers()
        self._disks = DomainSums(lambda info: sum(1 for _ in _disks(info.pods_with_volumes)))

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        """Skip for a pod whose volumes nothing stands in the way of; a claim that does not exist refuses it."""
        taken = False
        for named in pod.claims:
            if named.ephemeral:
                continue
            key = ClaimKey(pod.namespace, named.name)
            claim = snapshot.surroundings.storage.claims.get(key)
            if claim is None:
                return PreFilterResult(unresolvable(claim_not_found(named.name)))
            if READ_WRITE_ONCE_POD in claim.access_modes:
                taken = taken or self._users.uses(snapshot, key)
        state.write(self.name, taken)
        return PASSES if taken or any(_disks((pod,))) else SKIPS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:
        """Refuses nodes where a disk of the pod is taken, and all nodes where a claim of it is."""
        codes = np.full(len(snapshot), 2 if state.read(self.name) else 0, dtype=np.int8)
        if any(_disks((pod,))):
            for row in np.flatnonzero(self._disks.rows(snapshot)).tolist():
                if conflict(pod, snapshot.rows[row].pods_with_volumes):
                    codes[row] = 1
        return Verdicts(codes, _STATUSES)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """The same, of one node."""
        if node.pods_with_volumes and conflict(pod, node.pods_with_volumes):
            return _DISK_TAKEN
        return _CLAIM_TAKEN if state.read(self.name) else SUCCESS

    def queueing_hints(self) -> Sequence[EventHint]:
        """Every new node; the end of a pod with a disk or claim that this one wants; a claim that it names."""
        return (
            EventHint(Resource.ASSIGNED_POD, Action.DELETE, _frees_a_volume),
            # kube-scheduler looks at pods of the same namespace alone, although disks have none.
            EventHint(Resource.ASSIGNED_POD, Action.DELETE, _frees_a_disk, beyond=True),
            EventHint(Resource.NODE, Action.ADD),
            EventHint(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, names_claim),
        )


class ClaimUsers:
    """Which claims the pods on nodes use, kept in step with the snapshots that are asked about."""

    def __init__(self) -> None:
        self._memo = RowMemo()
        self._rows: dict[int, tuple[ClaimKey, ...]] = {}
        """Of the rows whose pods use any."""
        self._users: Counter[ClaimKey] = Counter()

    def uses(self, snapshot: Snapshot, key: ClaimKey) -> bool:
        """Whether a pod on a node uses the claim."""
        moved = self._memo.moved(snapshot)
        if moved is None:
            self._rows.clear()
            self._users.clear()
        for row in range(len(snapshot)) if moved is None else moved.tolist():
            before, now = self._rows.pop(row, ()), tuple(_claims(snapshot.rows[row]))
            self._users.subtract(before)
            self._users.update(now)
            if now:
                self._rows[row] = now
        return self._users[key] > 0


def _claims(info: NodeInfo) -> Iterator[ClaimKey]:
    for pod in info.pods_with_volumes:
        for named in pod.claims:
            if not named.ephemeral:
                yield ClaimKey(pod.namespace, named.name)


def _disks(pods: Iterable[Pod]) -> Iterator[ExclusiveDisk]:
    return (volume.disk for pod in pods for volume in pod.in_line_volumes if volume.disk is not None)


def conflict(pod: Pod, others: Iterable[Pod]) -> bool:
    """Whether the pod names a disk that one of the others has, and they may not share it."""
    wanted = tuple(_disks((pod,)))
    return bool(wanted) and any(disk.conflicts(taken) for taken in _disks(others) for disk in wanted)


def names_claim(pod: Pod, event: ClusterEvent) -> bool:
    """Whether the claim that came, or changed, is one of the pod's, but for those of ephemeral volumes."""
    claim = event.new
    return isinstance(claim, PersistentVolumeClaim) and any(
        not named.ephemeral and (pod.namespace, named.name) == claim.key for named in pod.claims
    )


def _frees_a_volume(pod: Pod, event: ClusterEvent) -> bool:
    gone = event.old
    if not isinstance(gone, Pod) or gone.namespace != pod.namespace:
        return False
    wanted = {named.name for named in pod.claims if not named.ephemeral}
    shared = any(named.name in wanted for named in gone.claims if not named.ephemeral)
    return shared or conflict(pod, (gone,))


def _frees_a_disk(pod: Pod, event: ClusterEvent) -> bool:
    return isinstance(event.old, Pod) and conflict(pod, (event.old,))
