"""VolumeBinding: a pod goes where its volumes are, or where volumes for its claims can be had.

Rules and reasons of kube-scheduler 1.36 (`plugins/volumebinding`), which `objects.model.volume_matching` has for one
node and `volume_columns` for all. Which volume each claim gets is worked out again for the chosen node by `VolumePlan`:
here, where the pod is assumed (`cache`), and where it is bound. Scores of storage capacity are behind a gate that is
off.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    Reserve,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import VolumeBindingArgs
from wharfinger.framework.plugins.node_volume_limits import uses_claim
from wharfinger.framework.plugins.volume_columns import Migrations, VolumeColumns
from wharfinger.framework.plugins.volume_restrictions import uses_volumes
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unresolvable, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import CsiDriver, CsiNode, StorageCapacity, StorageClass
from wharfinger.objects.model.volume_matching import ClaimsOfPod, Unmet, VolumePlan, look_up, plan_for, plan_of

_IMMEDIATE = PreFilterResult(unresolvable("pod has unbound immediate PersistentVolumeClaims"))
_WORDS = {
    Unmet.NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    Unmet.BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    Unmet.NO_SPACE: "node(s) did not have enough free storage",
    Unmet.NO_VOLUME: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
_STATUSES = (
    SUCCESS,
    *(
        unresolvable(*(word for lack, word in _WORDS.items() if lack & number))
        for number in range(1, 2 * max(Unmet).value)
    ),
)
"""By what a node lacks."""
_NAMED, _LONGEST = 3, 300
"""How many claims are named in what is carried, and characters of each: that is bounded."""


class VolumeBinding(PreFilter, Filter, NodeFilter, Reserve, QueueingHints):
    """Looks where the pod's volumes can be reached, chosen among those that are free, or made."""

    name = names.VOLUME_BINDING
    concerns = staticmethod(uses_volumes)

    def __init__(self, args: VolumeBindingArgs) -> None:
        self.bind_timeout_seconds = args.bind_timeout_seconds
        """How long a bind waits for the pod's volumes."""
        self._migrations = Migrations()

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        """Skip for a pod without claims; refuse one whose claims are not there, or wait for a volume themselves."""
        if not pod.claims:
            return SKIPS
        claims = look_up(pod, snapshot.surroundings.storage)
        if isinstance(claims, str):
            return PreFilterResult(unresolvable(claims))
        if claims.immediate:
            return _IMMEDIATE
        state.write(self.name, claims)
        return PASSES

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:  # noqa: ARG002
        """Refuses nodes that cannot have the pod's volumes."""
        claims: ClaimsOfPod = state.read(self.name)
        lacks = VolumeColumns(claims, snapshot, self._migrations).lacks()
        return Verdicts(lacks, _STATUSES) if lacks.any() else None

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # noqa: ARG002
        """The same, of one node."""
        found = plan_for(state.read(self.name), node.node)
        return SUCCESS if isinstance(found, VolumePlan) else _STATUSES[found]

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Notes what is to become of claims that are not bound yet, for explanations.

        The volumes count as taken as soon as the pod is assumed, and the bind sees to them.
        """
        snapshot = state.snapshot
        node = snapshot.node(node_name) if snapshot is not None and pod.claims else None
        if snapshot is None or node is None:
            return SUCCESS
        plan = plan_of(pod, node, snapshot.surroundings.storage)
        if plan is None:
            return unschedulable(f"the volumes that were found for node {node_name} are not there any more")
        if not plan.all_bound:
            state.carry(self.name, _summary(plan))
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Nothing to undo: an assumption that ends gives its volumes back."""

    def queueing_hints(self) -> Sequence[EventHint]:
        """Whatever may give a claim its volume, or make a volume reachable."""
        return (
            EventHint(Resource.STORAGE_CLASS, Action.ADD | Action.UPDATE, _allows_more),
            EventHint(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE, uses_claim),
            EventHint(Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE),
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            EventHint(Resource.CSI_NODE, Action.ADD | Action.UPDATE, _migrates_others),
            # kube-scheduler looks for in-line volumes of the driver here, which need no room.
            EventHint(Resource.CSI_DRIVER, Action.UPDATE, _minds_room_no_more, beyond=True),
            EventHint(Resource.CSI_STORAGE_CAPACITY, Action.ADD | Action.UPDATE, _has_grown),
        )


def _summary(plan: VolumePlan) -> list[str]:
    """What is to become of the first few claims of the pod."""
    bound = [f"claim {claim.key} gets volume {volume.name}" for claim, volume in plan.static]
    made = [f"claim {claim.key} gets a volume made for node {plan.node}" for claim in plan.provision]
    words = [word[:_LONGEST] for word in (*bound, *made)]
    return words if len(words) <= _NAMED else [*words[:_NAMED], f"and {len(words) - _NAMED} more"]


def _allows_more(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    old, new = event.old, event.new
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return True
    return old.allowed_topologies != new.allowed_topologies


def _migrates_others(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    old, new = event.old, event.new
    return not isinstance(old, CsiNode) or not isinstance(new, CsiNode) or old.migrated != new.migrated


def _minds_room_no_more(pod: Pod, event: ClusterEvent) -> bool:
    old, new = event.old, event.new
    minded = isinstance(old, CsiDriver) and old.storage_capacity
    return bool(pod.claims) and minded and isinstance(new, CsiDriver) and not new.storage_capacity


def _has_grown(pod: Pod, event: ClusterEvent) -> bool:  # noqa: ARG001
    old, new = event.old, event.new
    if not isinstance(old, StorageCapacity) or not isinstance(new, StorageCapacity):
        return True
    return new.limit is not None and (old.limit is None or new.limit > old.limit)
