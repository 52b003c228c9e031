"""What this worker believes: the facts of etcd as the watch told them, plus what it assumes.

Facts come from `state.informer.informer` (all events of one revision in one synchronous block, then
`progress.advance`); assumptions come from the activities. Readers take snapshots. Lives on one event loop; nothing here
awaits.

Neighbours: `state.cache.accounting` derives where each pod counts; `state.cache.progress` has how far the watch has
come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.objects.model.pod_records import HeldPlace, Refusal
from wharfinger.objects.model.priority import NO_CLASSES, PriorityClasses, affected, resolve
from wharfinger.objects.model.storage import STORAGE_TYPES, StorageObject
from wharfinger.objects.model.storage_index import place_of
from wharfinger.objects.model.surroundings import NOTHING_AROUND, Surrounding, Surroundings
from wharfinger.objects.model.volume_matching import VolumePlan, plan_of
from wharfinger.scheduling.model.promises import KubernetesSide, VolumeStep
from wharfinger.scheduling.state.cache.accounting import AntiAffinity, OverfullNodes, PodAccounting, is_overfull
from wharfinger.scheduling.state.cache.assumptions import Assumption
from wharfinger.scheduling.state.cache.held_volumes import promised_plan
from wharfinger.scheduling.state.cache.pod_indexes import GangMembers, RawPods, UnansweredBinds
from wharfinger.scheduling.state.cache.progress import Progress, Versions


class Cache:
    """Nodes, pods, binding versions and assumptions; see the module."""

    def __init__(self, *, clock: Callable[[], float], assume_expiry: float = 30.0) -> None:
        """`clock`: monotonic seconds; `assume_expiry`: seconds an unsent assumption lives."""
        self.progress = Progress()
        """How far the watch has come; `.revision` is the newest applied one."""
        self.tenants: dict[str, int] = {}
        """Tenants that exist, with the create revision of each."""
        self.bindings = Versions()
        """By node: rewritten by every bind there."""
        self.bound = Versions()
        """By namespace: rewritten by every bind of a pod of it."""
        self.terms = Versions()
        """By namespace, or `*` for all: rewritten by every bind of a pod whose anti-affinity selects pods there."""
        self.volumes = Versions()
        """By volume, or by `<namespace>:<claim>`: rewritten by every bind that takes it."""
        self.kubernetes: KubernetesSide | None = None
        """What is known of the Kubernetes API's side; None = etcd itself is the store of the cluster."""
        self.unanswered = UnansweredBinds()
        """Binds that the Kubernetes API has not answered yet."""
        self._clock = clock
        self._assume_expiry = assume_expiry
        self._nodes: dict[str, Node] = {}
        self._pods: dict[PodKey, Pod] = {}
        self._raw = RawPods()
        self._promised: dict[PodKey, PodIdentity] = {}
        """Pods that are bound in etcd and whose volumes are still to be prepared."""
        self.refusals: dict[PodKey, Refusal] = {}
        """The attempt records; of former lives of a pod, too."""
        self.surroundings: Surroundings = NOTHING_AROUND
        """Namespaces, pod collections, budgets, groups, priority classes and storage, as etcd has them; a value,
        replaced at every change.
        """
        self._resolved_by: PriorityClasses = NO_CLASSES
        """The classes by which every pod was resolved."""
        self.nodes: Mapping[str, Node] = MappingProxyType(self._nodes)
        """Every node, by name, in the order of appearance (a live view)."""
        self.pods: Mapping[PodKey, Pod] = MappingProxyType(self._pods)
        """Every pod of the cluster, pending ones too (a live view)."""
        self.gangs = GangMembers(self.pods)
        """The pods of each gang."""
        self._accounting = PodAccounting(self.pods, self.volume_plan)
        self._assumptions = self._accounting.assumptions
        self._booking = self._accounting.booking
        self._nominated = self._accounting.nominated
        self._held = self._accounting.volumes
        self._places = self._accounting.places
        self.overlay_changes = self._accounting.changes
        """What became of assumptions otherwise than by decisions and by what etcd shows."""
        self._overfull = OverfullNodes()

    @property
    def now(self) -> float:
        """Monotonic seconds, of the clock by which assumptions end."""
        return self._clock()

    def attempts_of(self, pod: Pod) -> int:
        """The number of the pod's last attempt that was recorded; 0 = none was."""
        record = self.refusals.get(pod.key)
        return record.attempt if record is not None and record.create_revision in (0, pod.create_revision) else 0

    # --- facts --------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Etcd holds this node."""
        self._nodes[node.name] = node
        self._booking.set_node(node)

    def remove_node(self, name: str) -> None:
        """Etcd holds no node of this name any more."""
        if self._nodes.pop(name, None) is not None:
            self._booking.remove_node(name)

    def set_pod(self, pod: Pod, raw: bytes = b"") -> Pod:
        """Etcd holds this pod; `raw`, the object itself, is kept while the pod is pending.

        Answers the pod with the priority that it has by its class.
        """
        pod = self.resolved(pod)
        key = pod.key
        old = self._pods.get(key)
        if old is not None and old.identity != pod.identity:
            self._accounting.end(old)
        self._pods[key] = pod
        if pod.pending and raw:
            self._raw.put(pod, raw)
        else:
            self._raw.discard(key)
        if pod.bound or pod.finished:
            self._assumptions.drop(pod.identity)
            self.overlay_changes.explained(pod.identity)
            if self._held.plans and key not in self._promised:
                self._held.release(pod.identity)
        if pod.group or (old is not None and old.group):
            self.gangs.moved(old, pod)
        if old is None:
            self._accounting.hold_volumes(pod)
        self._accounting.recount(pod)
        self._accounting.renominate(key)
        return pod

    def remove_pod(self, key: PodKey) -> None:
        """Etcd holds no pod of this key any more; an assumption of it ends too."""
        self._raw.discard(key)
        old = self._pods.pop(key, None)
        if old is not None:
            self._accounting.end(old)
            self.gangs.moved(old, None)
        self.promise_volumes(key, "", ())
        self._nominated.discard(key)

    def set_surrounding(self, thing: Surrounding) -> None:
        """Etcd holds this object, which is no pod and no node; of a priority class see also `reclassify`."""
        before, self.surroundings = self.surroundings, self.surroundings.with_object(thing)
        if isinstance(thing, StorageObject):
            self._held.change(before, self.surroundings, type(thing), *place_of(thing))

    def remove_surrounding(self, what: type[Surrounding], namespace: str, name: str, kind: str = "") -> None:
        """Etcd does not hold it any more; `kind` distinguishes collections."""
        before, self.surroundings = self.surroundings, self.surroundings.without(what, namespace, name, kind)
        if what in STORAGE_TYPES:
            self._held.change(before, self.surroundings, cast("type[StorageObject]", what), namespace, name)

    def resolved(self, pod: Pod) -> Pod:
        """The pod with the priority that it has by the classes as they are now."""
        return resolve(pod, self.surroundings.priority_classes)

    def reclassify(self) -> list[tuple[Pod, Pod]]:
        """After changes of classes: resolve the pods that leave something to them; those that changed, old and new.

        Looks at every pod once, however many classes changed, and touches only those that name one of them.
        """
        classes = self.surroundings.priority_classes
        if classes is self._resolved_by:
            return []
        names = classes.differ(self._resolved_by)
        self._resolved_by = classes
        if not names:
            return []
        pairs = [(pod, resolve(pod, classes)) for pod in affected(self._pods.values(), names)]
        changed = [(old, new) for old, new in pairs if new is not old]
        for _, pod in changed:
            self._pods[pod.key] = pod
        for _, pod in changed:
            self._accounting.recount(pod)
            self._accounting.renominate(pod.key)
        return changed

    def raw(self, key: PodKey) -> bytes | None:
        """The pending pod's object as etcd holds it; None for other pods."""
        return self._raw.get(key)

    def promise_volumes(self, key: PodKey, node_name: str, steps: Sequence[VolumeStep]) -> None:
        """The pod is bound, and these volumes are being prepared for it; without steps they are not any more."""
        earlier = self._promised.pop(key, None)
        if earlier is not None:
            self._held.release(earlier)
        pod = self._pods.get(key)
        if not steps or pod is None:
            return
        self._promised[key] = pod.identity
        self._held.hold(pod.identity, promised_plan(node_name, key.namespace, steps, self.surroundings.storage))

    def hold(self, key: PodKey, place: HeldPlace | None) -> None:
        """Etcd says that room is held for the pod, which is not bound yet; None = it is not any more."""
        self._places.set(key, place)
        pod = self._pods.get(key)
        if pod is None:
            return
        if self._assumptions.get(pod.identity) is None:
            self._held.release(pod.identity)
            self._accounting.hold_volumes(pod)
        self._accounting.recount(pod)
        self._accounting.renominate(key)

    @property
    def held_places(self) -> Mapping[PodKey, HeldPlace]:
        """The records of rooms that are held, by pod; also those of pods that are gone (a live view)."""
        return self._places.by_pod

    # --- assumptions --------------------------------------------------------------------------

    def assume(self, pod: Pod, node_name: str, *, held: float = 0.0, decided: bool = False) -> None:
        """Count the pod on this node from now on. Without effect on a pod seen bound or finished.

        `held`: seconds in which its bind surely does not begin yet (a Permit plugin holds it); they count for nothing.
        `decided`: this worker has just decided so.
        """
        known = self._pods.get(pod.key)
        if known is not None and known.identity == pod.identity and (known.bound or known.finished):
            return
        if pod.claims:
            self._held.hold(pod.identity, self.volume_plan(pod, node_name))
        if decided:
            self.overlay_changes.decided(pod.identity, node_name)
        elif (before := self._assumptions.get(pod.identity)) is None or before[1] != node_name:
            self.overlay_changes.note(pod.identity, node_name)
        self._assumptions.put(pod, node_name, self._clock() + held)
        self._accounting.recount(pod)
        self._nominated.discard(pod.key)

    def assume_there(self, pod: Pod, node_name: str) -> None:
        """Count the pod there unless it does already: then nothing about the node changes."""
        if not self._assumptions.is_held(pod, node_name):
            self.assume(pod, node_name)

    def assume_sent(self, pod: Pod, node_name: str) -> None:
        """Count the pod there; its transaction goes out now."""
        self.assume_there(pod, node_name)
        self.mark_sent(pod.identity)

    def mark_sent(self, identity: PodIdentity) -> None:
        """Its transaction goes out now: from here on time does not end the assumption."""
        self._assumptions.mark_sent(identity)
        self.overlay_changes.sent(identity)

    def is_sent(self, identity: PodIdentity) -> bool:
        """Whether the pod is assumed, its transaction has gone out, and etcd has not told its end."""
        self._accounting.settle(self.progress.revision)
        return self._assumptions.is_sent(identity)

    def confirm(self, identity: PodIdentity, revision: int) -> None:
        """The transaction happened at that revision: the assumption is as good as what the watch will show."""
        self._assumptions.confirm(identity)
        self.overlay_changes.sent(identity)
        self.settle(identity, revision)

    def forget(self, identity: PodIdentity) -> None:
        """The transaction surely did not happen: the assumption ends."""
        self._accounting.drop(identity)

    def forget_unsent(self, identity: PodIdentity) -> None:
        """End the assumption unless its transaction has gone out."""
        if not self._assumptions.is_sent(identity):
            self._accounting.drop(identity)

    def settle(self, identity: PodIdentity, revision: int) -> None:
        """The outcome of the transaction is unknown: end the assumption once the watch is at `revision`.

        If it did happen, the watch has shown the pod bound by then, and the assumption has become a fact.
        """
        self._assumptions.settle_at(identity, revision)
        self._accounting.settle(self.progress.revision)

    def assumed(self) -> tuple[Assumption, ...]:
        """The pods that count on a node and are not bound: assumed by this worker, or with a room that is held."""
        self._accounting.settle(self.progress.revision)
        held = (Assumption(identity, node, sent=True) for identity, node in self._places)
        return (*self._assumptions, *held)

    def overlay_digest(self, but: PodIdentity | None = None) -> str:
        """The digest of `assumed()`, without that pod: see `state.cache.assumptions`."""
        self._accounting.settle(self.progress.revision)
        return self._assumptions.digest(self._places, but)

    def expire(self) -> tuple[Assumption, ...]:
        """End the unsent assumptions older than `assume_expiry`, and tell which."""
        self._accounting.settle(self.progress.revision)
        expired = self._assumptions.expired(self._clock() - self._assume_expiry)
        for assumption in expired:
            self._accounting.drop(assumption.identity)
        return expired

    # --- reading ------------------------------------------------------------------------------

    def snapshot(
        self,
        *,
        excluding: PodIdentity | None = None,
        without_assumed: bool = False,
        confirmed: bool = False,
        counting: Collection[PodIdentity] = (),
        only: str | None = None,
    ) -> Snapshot:
        """The state at `progress.revision`.

        Args:
            excluding: As if this pod were not assumed, and no room were held for it.
            without_assumed: As if no pod were assumed. Rooms that etcd shows as held count: an event will end them.
            confirmed: With no other assumed pods than those whose transactions have happened.
            counting: With these assumed pods nevertheless.
            only: That one node alone (empty when it is not there); cheap, for verifying a placement.
        """
        self._accounting.settle(self.progress.revision)
        gone: tuple[PodIdentity, ...] = ()
        if without_assumed:
            gone = tuple(held.identity for held in self._assumptions if held.identity not in counting)
        elif confirmed:
            unbound = (*self._assumptions.unconfirmed(), *(identity for identity, _ in self._places))
            gone = tuple(identity for identity in unbound if identity not in counting)
        elif excluding is not None and (self._assumptions.get(excluding) is not None or self._places.holds(excluding)):
            gone = (excluding,)
        if only is not None:
            single = self._booking.single(only, self.progress.revision, gone)
            around = self._held.without(self.surroundings, gone)
            return single.at(single.revision, surroundings=around, nominated=self._nominated.frozen())
        around = self._held.seen(self.surroundings) if self._held.plans else self.surroundings
        snapshot = self._booking.snapshot(self.progress.revision, around, self._nominated.frozen())
        if not gone:
            return snapshot
        snapshot, others = self._booking.without(snapshot, gone), self._held.without(self.surroundings, gone)
        return snapshot if others is around else snapshot.at(snapshot.revision, surroundings=others)

    def volume_plan(self, pod: Pod, node_name: str) -> VolumePlan | None:
        """What has to be done for the pod's claims on the node, as if the pod itself were not assumed.

        None where it cannot have them there now, or there is no such node.
        """
        node = self._nodes.get(node_name)
        around = self._held.without(self.surroundings, (pod.identity,))
        return None if node is None else plan_of(pod, node, around.storage)

    def nominated_on(self, node_name: str) -> tuple[Pod, ...]:
        """Pending pods that preemption made room for on the node, highest priority first."""
        return self._nominated.frozen().get(node_name, ())

    @property
    def anti_affinity(self) -> AntiAffinity:
        """Required anti-affinity of the pods that count on nodes."""
        return self._booking.anti_affinity

    def node_info(self, name: str) -> NodeInfo | None:
        """The node with the pods counted on it, as it is now: another object after every change."""
        return self._booking.info(name)

    @property
    def absent_nodes(self) -> Mapping[str, NodeInfo]:
        """By name, the nodes that are not there (or cannot be read) but have pods, bound or assumed (a live view)."""
        return self._booking.absent

    def over_committed(self) -> tuple[str, ...]:
        """Nodes where etcd's own pods need more than is allocatable (other writers did that), sorted."""
        full = self._overfull.names(self.snapshot())
        assumed = tuple(assumption.identity for assumption in self.assumed()) if full else ()
        alone = [self._booking.single(name, self.progress.revision, assumed) for name in full]
        return tuple(sorted(info.node.name for snapshot in alone for info in snapshot.rows if is_overfull(info)))
