"""Which volumes the claims of a pod get on a node, or why they get none: the rules of VolumeBinding, of one node.

Rules of kube-scheduler 1.36 (`plugins/volumebinding`, `component-helpers/storage/volume`). Where it takes whichever of
equal volumes comes first, the name decides, so that every worker chooses the same. `framework.plugins.volume_binding`
has the same rules over all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import cached_property

from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import NodeSelectorTerm
from wharfinger.objects.model.storage import (
    BOUND,
    LOST,
    NO_PROVISIONER,
    ClaimKey,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    whole_bytes,
)
from wharfinger.objects.model.storage_index import Storage


class Unmet(IntFlag):
    """What a node lacks for a pod's claims; the order is that of the reasons."""

    NODE_CONFLICT = 1
    """A bound volume cannot be reached from the node."""
    BIND_CONFLICT = 2
    """A claim finds no volume there, and none can be provisioned."""
    NO_SPACE = 4
    """A volume could be provisioned but for the room that the driver has."""
    NO_VOLUME = 8
    """A claim is bound to a volume that does not exist."""


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """What has to happen to the claims of a pod before it can run on a node."""

    node: str
    static: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    """Claims to be bound, each with the existing volume chosen for it."""
    provision: tuple[PersistentVolumeClaim, ...] = ()
    """Claims for which a volume has to be made, on or near the node."""

    @property
    def all_bound(self) -> bool:
        """Whether nothing has to be done: every claim of the pod is bound."""
        return not self.static and not self.provision


@dataclass(frozen=True, slots=True)
class Offers:
    """The volumes that may be bound to a claim."""

    kept: PersistentVolume | None = None
    """The one that names the claim already: then it gets this one or none."""
    others: tuple[PersistentVolume, ...] = ()
    """The smallest first."""


class ClaimsOfPod:
    """The claims of one pod, by what has to be done for them."""

    def __init__(self, claims: Iterable[PersistentVolumeClaim], storage: Storage) -> None:
        self.storage = storage
        bound, delayed, immediate = [], [], []
        for claim in claims:
            if claim.bound:
                bound.append(claim)
            elif not claim.volume_name and waits(claim, storage):
                delayed.append(claim)
            else:
                immediate.append(claim)
        self.bound: tuple[PersistentVolumeClaim, ...] = tuple(bound)
        self.delayed: tuple[PersistentVolumeClaim, ...] = tuple(delayed)
        """Without a volume; one is chosen, or made, where the pod goes."""
        self.immediate: tuple[PersistentVolumeClaim, ...] = tuple(immediate)
        """That should have a volume by now; as long as there are any, the pod is not placed."""
        self.selected: tuple[PersistentVolumeClaim, ...] = tuple(
            claim for claim in delayed if claim.selected_node is not None
        )
        """Of the delayed: those for which a node was chosen before."""

    @cached_property
    def offers(self) -> tuple[tuple[PersistentVolumeClaim, Offers], ...]:
        """The other delayed claims in the order in which they choose, smallest first, and what each may choose."""
        choosing = [claim for claim in self.delayed if claim.selected_node is None]
        choosing.sort(key=lambda claim: claim.request or 0)
        return tuple([(claim, offers_for(claim, self.storage)) for claim in choosing])


def look_up(pod: Pod, storage: Storage) -> ClaimsOfPod | str:
    """The claims that the pod names; or why it cannot have them anywhere, in kube-scheduler's words."""
    found = []
    for named in pod.claims:
        claim = storage.claims.get(ClaimKey(pod.namespace, named.name))
        if claim is None:
            if named.ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{named.name}"'
            return claim_not_found(named.name)
        if claim.phase == LOST:
            return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume_name}"'
        if claim.deleting:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        if named.ephemeral and not is_made_for(pod, claim):
            return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
        found.append(claim)
    return ClaimsOfPod(found, storage)


def claim_not_found(name: str) -> str:
    """In the API server's words."""
    return f'persistentvolumeclaim "{name}" not found'


def is_made_for(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether the pod controls the claim. Where objects have no uids, the names must do."""
    if claim.owner is None:
        return False
    name, uid = claim.owner
    return uid == pod.uid if uid else name == pod.name and pod.uid == f"rev-{pod.create_revision}"


def waits(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """Whether the claim's class leaves the choice of a volume to scheduling."""
    known = storage.classes.get(claim.storage_class) if claim.storage_class else None
    return known is not None and known.waits


def offers_for(claim: PersistentVolumeClaim, storage: Storage) -> Offers:
    """What may be bound to the claim, wherever it is."""
    for volume in storage.kept.get(claim.key, ()):
        same_class = volume.storage_class == claim.storage_class
        if same_class and volume.is_bound_to(claim) and _suits(volume, claim):
            return Offers(kept=volume)
    pool = storage.free.get(claim.storage_class)
    if pool is None:
        return Offers()
    selector = claim.selector
    return Offers(
        others=tuple(
            [
                volume
                for volume in pool.by_size
                if _suits(volume, claim)
                and claim.access_modes <= volume.access_modes
                and (selector is None or selector.matches(volume.labels))
            ]
        )
    )


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """What even a volume that is kept for the claim has to meet."""
    return (
        volume.capacity >= (claim.request or 0)
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )


def plan_for(claims: ClaimsOfPod, node: Node) -> VolumePlan | Unmet:
    """What has to be done for the claims on that node, or what it lacks. None of them may be immediate."""
    unmet = _bound_unmet(claims, node)
    for claim in claims.selected:
        if claim.selected_node != node.name:
            return unmet | Unmet.BIND_CONFLICT
    static: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
    provision = list(claims.selected)
    taken: set[str] = set()
    for claim, offers in claims.offers:
        volume = _choice(offers, node, taken)
        if volume is None:
            provision.append(claim)
        else:
            taken.add(volume.name)
            static.append((claim, volume))
    for claim in provision:
        lack = _provision_unmet(claim, node, claims.storage)
        if lack:
            return unmet | lack
    return unmet or VolumePlan(node.name, tuple(static), tuple(provision))


def reaches(terms: Iterable[NodeSelectorTerm] | None, labels: Mapping[str, str]) -> bool:
    """Whether a volume with this node affinity can be used on a node with these labels."""
    return terms is None or any(term.matches("", labels) for term in terms)


def terms_on(volume: PersistentVolume, node_name: str, storage: Storage) -> tuple[NodeSelectorTerm, ...] | None:
    """The node affinity that holds for a bound volume on a node: of one in the old way, perhaps its driver's."""
    migrated = volume.in_tree is not None and is_migrated(volume.in_tree.plugin, node_name, storage)
    return volume.migrated_terms if migrated else volume.node_terms


def is_migrated(plugin: str, node_name: str, storage: Storage) -> bool:
    """Whether CSI drivers do the work of an in-tree plugin on that node."""
    known = storage.nodes.get(node_name)
    return known is not None and plugin in known.migrated


def provisions(found: StorageClass | None) -> bool:
    """Whether volumes of the class are made on request at all."""
    return found is not None and found.provisioner not in ("", NO_PROVISIONER)


def minds_capacity(claim: PersistentVolumeClaim, found: StorageClass, storage: Storage) -> bool:
    """Whether the class's driver publishes how much room there is, and the claim asks for any."""
    driver = storage.drivers.get(found.provisioner)
    return driver is not None and driver.storage_capacity and claim.request is not None


def with_plan(storage: Storage, plan: VolumePlan) -> Storage:
    """As if everything in the plan were under way: its volumes are kept for its claims, and its node is selected.

    What has changed since the plan was made (a volume has a claim, a claim its volume, or one is gone) stays as it is.
    """
    for claim, volume in plan.static:
        known_volume = storage.volumes.get(volume.name)
        if known_volume is not None and known_volume.claim is None:
            storage = storage.with_object(replace(known_volume, claim=ClaimReference(claim.key, claim.uid)))
    for claim in plan.provision:
        known = storage.claims.get(claim.key)
        if known is not None and known.uid == claim.uid and not known.volume_name:
            storage = storage.with_object(replace(known, selected_node=plan.node))
    return storage


def bound_as_planned(plan: VolumePlan) -> tuple[PersistentVolume | PersistentVolumeClaim, ...]:
    """The volumes and claims of the plan as controllers leave them, once it is carried out as far as it can be.

    Of a volume that has to be made nobody knows the name yet: its claim says where it is to be.
    """
    bound = [
        (
            replace(volume, claim=ClaimReference(claim.key, claim.uid), phase=BOUND),
            replace(claim, volume_name=volume.name, bound=True, phase=BOUND),
        )
        for claim, volume in plan.static
    ]
    selected = [replace(claim, selected_node=plan.node) for claim in plan.provision]
    return (*(each for pair in bound for each in pair), *selected)


def storage_with(pod: Pod, node: Node, storage: Storage) -> Storage:
    """As if the pod were on the node, with the volumes that it would get there."""
    plan = plan_of(pod, node, storage)
    return storage if plan is None else with_plan(storage, plan)


def plan_of(pod: Pod, node: Node, storage: Storage) -> VolumePlan | None:
    """What has to be done for the pod's claims on the node; None where it cannot have them there."""
    if not pod.claims:
        return VolumePlan(node.name)
    claims = look_up(pod, storage)
    if isinstance(claims, str) or claims.immediate:
        return None
    found = plan_for(claims, node)
    return found if isinstance(found, VolumePlan) else None


def _bound_unmet(claims: ClaimsOfPod, node: Node) -> Unmet:
    for claim in claims.bound:
        volume = claims.storage.volumes.get(claim.volume_name)
        if volume is None:
            return Unmet.NO_VOLUME
        if not reaches(terms_on(volume, node.name, claims.storage), node.labels):
            return Unmet.NODE_CONFLICT
    return Unmet(0)


def _choice(offers: Offers, node: Node, taken: set[str]) -> PersistentVolume | None:
    if offers.kept is not None:
        return offers.kept if reaches(offers.kept.node_terms, node.labels) else None
    for volume in offers.others:
        if volume.name not in taken and reaches(volume.node_terms, node.labels):
            return volume
    return None


def _provision_unmet(claim: PersistentVolumeClaim, node: Node, storage: Storage) -> Unmet:
    known = storage.classes.get(claim.storage_class)
    if known is None or not provisions(known):
        return Unmet.BIND_CONFLICT
    topologies = known.allowed_topologies
    if topologies and not any(term and all(each.matches(node.labels) for each in term) for term in topologies):
        return Unmet.BIND_CONFLICT
    if not minds_capacity(claim, known, storage):
        return Unmet(0)
    size = whole_bytes(claim.request or 0)
    for capacity in storage.capacities_of.get(known.name, {}).values():
        enough = capacity.limit is not None and whole_bytes(capacity.limit) >= size
        if enough and capacity.topology is not None and capacity.topology.matches(node.labels):
            return Unmet(0)
    return Unmet.NO_SPACE
