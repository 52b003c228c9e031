"""VolumeZone: a bound volume that names its zone or region is used there.

Rules and reasons of kube-scheduler 1.36 (`plugins/volumezone`). Volumes made by CSI drivers say so by node affinity
instead, which VolumeBinding looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wharfinger.framework.columns import BoolColumn
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
from wharfinger.framework.plugins.volume_restrictions import names_claim, uses_volumes
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unresolvable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import ClaimKey, PersistentVolume, StorageClass
from wharfinger.objects.model.storage_index import Storage
from wharfinger.objects.model.volume_matching import claim_not_found

_ZONE = "topology.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"
_NOW: Mapping[str, str] = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
"""Labels that name a zone or region, each with the label that took its place."""
_BETWEEN = "__"
_ELSEWHERE = unresolvable("node(s) had no available volume zone")


class VolumeTopology(NamedTuple):
    """A label of a volume, and the values of which a node has to have one."""

    key: str
    values: frozenset[str]


class VolumeZone(PreFilter, Filter, NodeFilter, QueueingHints):
    """Compares the labels of the pod's volumes with those of nodes. Nodes without such labels take every volume."""

    name = names.VOLUME_ZONE
    concerns = staticmethod(uses_volumes)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        """Skip for a pod whose volumes name no zone; refuse one whose claims lead nowhere."""
        if not pod.claims:
            return SKIPS
        found = _topologies(pod, snapshot.surroundings.storage)
        if isinstance(found, str):
            return PreFilterResult(unresolvable(found))
        state.write(self.name, found)
        return PASSES if found else SKIPS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """Refuses nodes that lie elsewhere."""
        refused: BoolColumn = np.zeros(len(snapshot), dtype=np.bool_)
        for key, values in state.read(self.name):
            own, now = snapshot.label(key), snapshot.label(_NOW[key])
            fits: BoolColumn = own.map(values.__contains__, np.bool_)
            if own is not now:
                fits = np.where(own.codes == 0, now.map(values.__contains__, np.bool_), fits)
            refused |= ~fits
        labelled: BoolColumn = np.zeros(len(snapshot), dtype=np.bool_)
        for key in _NOW:
            labelled |= snapshot.label(key).codes != 0
        refused &= labelled
        return Verdicts.refuse(refused, _ELSEWHERE) if refused.any() else None

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """The same, of one node."""
        labels = node.node.labels
        if not any(key in labels for key in _NOW):
            return SUCCESS
        for key, values in state.read(self.name):
            if labels.get(key, labels.get(_NOW[key])) not in values:
                return _ELSEWHERE
        return SUCCESS

    def queueing_hints(self) -> Sequence[EventHint]:
        """A class whose volumes need not exist yet; nodes; the pod's claims; volumes in other zones than before."""
        return (
            EventHint(Resource.STORAGE_CLASS, Action.ADD, _waits),
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            EventHint(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE, names_claim),
            EventHint(Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE, _lies_elsewhere_now),
        )


def _topologies(pod: Pod, storage: Storage) -> tuple[VolumeTopology, ...] | str:
    """What the pod's bound volumes ask of nodes; or why its claims lead nowhere."""
    found: list[VolumeTopology] = []
    for named in pod.claims:
        if named.ephemeral:
            continue
        claim = storage.claims.get(ClaimKey(pod.namespace, named.name))
        if claim is None:
            return claim_not_found(named.name)
        if not claim.volume_name:
            if not claim.storage_class:
                return "PersistentVolumeClaim had no pv name and storageClass name"
            known = storage.classes.get(claim.storage_class)
            if known is None:
                return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
            if not known.waits:
                return "PersistentVolume had no name"
            continue
        volume = storage.volumes.get(claim.volume_name)
        if volume is None:
            return f'persistentvolume "{claim.volume_name}" not found'
        found += topologies_of(volume)
    return tuple(found)


def topologies_of(volume: PersistentVolume) -> tuple[VolumeTopology, ...]:
    """What the volume's labels ask of nodes; a label with an empty part asks nothing."""
    found = []
    for key in _NOW:
        if key in volume.labels:
            values = frozenset(part.strip() for part in volume.labels[key].split(_BETWEEN))
            if "" not in values:
                found.append(VolumeTopology(key, values))
    return tuple(found)


def _waits(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    return isinstance(event.new, StorageClass) and event.new.waits


def _lies_elsewhere_now(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    old, new = event.old, event.new
    if not isinstance(old, PersistentVolume) or not isinstance(new, PersistentVolume):
        return True
    return topologies_of(old) != topologies_of(new)
