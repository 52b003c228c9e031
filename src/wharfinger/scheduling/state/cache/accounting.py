"""Where each pod counts, derived from the facts and from what no watch event shows yet.

A pod counts on the node it is bound to; else on the node it is assumed on; else where etcd has a record that its room
is held; else nowhere. Finished pods use nothing. A pending pod that counts nowhere may be nominated.

Neighbour: `state.cache.cache` has the facts and calls this after each change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Nominations, Snapshot
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.objects.model.pod_records import HeldPlace
from wharfinger.objects.model.selectors import PodAffinityTerm
from wharfinger.objects.model.surroundings import Surroundings
from wharfinger.objects.model.volume_matching import VolumePlan
from wharfinger.scheduling.state.cache.assumptions import Assumptions, NominatedPods, OverlayChanges
from wharfinger.scheduling.state.cache.held_volumes import HeldVolumes


class PodAccounting:
    """The parts of the overlay, and what must be counted anew when one of them changes."""

    def __init__(self, pods: Mapping[PodKey, Pod], volume_plan: Callable[[Pod, str], VolumePlan | None]) -> None:
        """`pods`: all, live; `volume_plan`: what the pod's claims need on a node, None where they cannot be had."""
        self._pods = pods
        self._volume_plan = volume_plan
        self.assumptions = Assumptions()
        self.places = HeldPlaces(pods, lambda identity: self.assumptions.get(identity) is not None)
        self.volumes = HeldVolumes()
        self.nominated = NominatedPods()
        self.booking = Booking()
        self.changes = OverlayChanges()
        """What became of assumptions otherwise than by decisions and by what etcd shows."""

    def recount(self, pod: Pod) -> None:
        """Derive where the pod counts from what is known of it."""
        known = self._pods.get(pod.key)
        if known is not None and known.identity == pod.identity and (known.bound or known.finished):
            self.booking.count(known, None if known.finished else known.node_name)
            return
        assumed = self.assumptions.get(pod.identity)
        if assumed is not None:
            self.booking.count(*assumed)
            return
        this = known if known is not None and known.identity == pod.identity else None
        self.booking.count(this or pod, self.places.node_of(this) if this is not None else None)

    def renominate(self, key: PodKey) -> None:
        """A pending pod's nomination counts, unless the pod is assumed or its room is held: then it counts there."""
        pod = self._pods.get(key)
        counts = pod is not None and (
            self.assumptions.get(pod.identity) is not None or self.places.node_of(pod) is not None
        )
        if pod is not None and pod.pending and not counts:
            self.nominated.put(pod)
        else:
            self.nominated.discard(key)

    def hold_volumes(self, pod: Pod) -> None:
        """Count the volumes of a pod whose room is held as taken."""
        node = self.places.node_of(pod) if pod.claims else None
        if node is not None:
            self.volumes.hold(pod.identity, self._volume_plan(pod, node))

    def end(self, pod: Pod) -> None:
        """This life of the pod is over: it counts nowhere and holds nothing."""
        self.assumptions.drop(pod.identity)
        self.changes.explained(pod.identity)
        self.volumes.release(pod.identity)
        self.booking.count(pod, None)

    def drop(self, identity: PodIdentity) -> None:
        """End the assumption, without an event; without effect when the pod is not assumed."""
        assumed = self.assumptions.get(identity)
        if assumed is not None:
            self.assumptions.drop(identity)
            self.changes.note(identity, None)
            self.volumes.release(identity)
            self.hold_volumes(assumed[0])
            self.recount(assumed[0])
            self.renominate(assumed[0].key)

    def settle(self, revision: int) -> None:
        """End the assumptions that the watch would have shown bound by now; it is at `revision`."""
        for identity in self.assumptions.settled(revision):
            self.drop(identity)


class Booking:
    """Nodes in the order of their appearance, with the pods counted on each, and the snapshot that follows from it.

    A pod counts on one node at most. A node's sums are those of the pods counted on it; pods on a node that is not
    (yet) there wait for it to appear. Changed rows are gathered and applied when a snapshot is asked for, so taking one
    costs nothing when nothing changed, and a few copied columns when a pod was placed.
    """

    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._absent: dict[str, NodeInfo] = {}
        """Nodes that are not there, but pods say they are on them."""
        self._place: dict[PodIdentity, str] = {}
        self.anti_affinity = AntiAffinity()
        """Of the pods that count on nodes."""
        self._snapshot = Snapshot.of(())
        self._changed_pods: set[str] = set()
        self._changed_nodes: set[str] = set()
        self._appeared: dict[str, None] = {}
        self._vanished: set[str] = set()

    def set_node(self, node: Node) -> None:
        """A node appeared, or is another now."""
        name = node.name
        known = self._infos.get(name)
        if known is None:
            absent = self._absent.pop(name, None)
            self._infos[name] = NodeInfo(node) if absent is None else absent.with_node(node)
            self._appeared[name] = None
            return
        self._infos[name] = known.with_node(node)
        # A heart-beat changes nothing of the columns; the row still is replaced, for its newer revision.
        (self._changed_pods if _same_columns(known.node, node) else self._changed_nodes).add(name)

    def remove_node(self, name: str) -> None:
        """A node is gone; pods on it go on counting, should it appear again."""
        info = self._infos.pop(name, None)
        if info is None:
            return
        if name in self._appeared:
            del self._appeared[name]
        else:
            self._vanished.add(name)
        self._changed_nodes.discard(name)
        self._changed_pods.discard(name)
        if info.pods:
            self._absent[name] = info.with_node(Node(name))

    def count(self, pod: Pod, node_name: str | None) -> None:
        """Count the pod on this node and nowhere else; None = nowhere."""
        identity = pod.identity
        current = self._place.get(identity)
        if current is not None and current != node_name:
            self._put(current, self._info(current).without_pods((identity,)))
            del self._place[identity]
        if node_name is not None:
            self._place[identity] = node_name
            self._put(node_name, self._info(node_name).with_pod(pod))
        self.anti_affinity.count(pod, node_name)

    @property
    def absent(self) -> Mapping[str, NodeInfo]:
        """The nodes that are not there, with the pods that say they are on them (a live view)."""
        return self._absent

    def info(self, name: str) -> NodeInfo | None:
        """The node with the pods counted on it; None when it is not there."""
        return self._infos.get(name)

    def place_of(self, identity: PodIdentity) -> str | None:
        """The node the pod counts on."""
        return self._place.get(identity)

    def snapshot(self, revision: int, surroundings: Surroundings, nominated: Nominations) -> Snapshot:
        """The state now, labelled with the revision it holds at."""
        self._apply()
        last = self._snapshot
        if last.revision != revision or last.surroundings is not surroundings or last.nominated is not nominated:
            self._snapshot = last.at(revision, surroundings=surroundings, nominated=nominated)
        return self._snapshot

    def single(self, node_name: str, revision: int, without: Iterable[PodIdentity]) -> Snapshot:
        """One node alone, without some pods; empty when the node is not there."""
        info = self._infos.get(node_name)
        return Snapshot.of((), revision) if info is None else Snapshot.of((info.without_pods(without),), revision)

    def without(self, snapshot: Snapshot, identities: Iterable[PodIdentity]) -> Snapshot:
        """The snapshot (the newest one) as if these pods counted nowhere."""
        by_node: dict[str, list[PodIdentity]] = {}
        for identity in identities:
            place = self._place.get(identity)
            if place is not None and place in snapshot.index:
                by_node.setdefault(place, []).append(identity)
        if not by_node:
            return snapshot
        changes = {snapshot.index[name]: self._infos[name].without_pods(gone) for name, gone in by_node.items()}
        return snapshot.with_pods_changed(changes)

    def _apply(self) -> None:
        if self._appeared or self._vanished:
            gone = {self._snapshot.index[name] for name in self._vanished}
            self._snapshot = self._snapshot.resized(gone, [self._infos[name] for name in self._appeared])
            self._appeared.clear()
            self._vanished.clear()
        index = self._snapshot.index
        if self._changed_nodes:
            names = self._changed_nodes | self._changed_pods
            self._snapshot = self._snapshot.with_nodes_changed({index[name]: self._infos[name] for name in names})
        elif self._changed_pods:
            changes = {index[name]: self._infos[name] for name in self._changed_pods}
            self._snapshot = self._snapshot.with_pods_changed(changes)
        self._changed_nodes.clear()
        self._changed_pods.clear()

    def _info(self, name: str) -> NodeInfo:
        return self._infos.get(name) or self._absent.get(name) or NodeInfo(Node(name))

    def _put(self, name: str, info: NodeInfo) -> None:
        if name in self._infos:
            self._infos[name] = info
            self._changed_pods.add(name)
        elif info.pods:
            self._absent[name] = info
        else:
            self._absent.pop(name, None)


def _same_columns(old: Node, new: Node) -> bool:
    """Whether the columns of nodes can stay; plugins see by them that nodes changed, so what only they read counts."""
    return (
        old.allocatable == new.allocatable
        and old.labels == new.labels
        and old.taints == new.taints
        and old.unschedulable == new.unschedulable
        and old.images == new.images
    )


class AntiAffinity:
    """The required anti-affinity of the pods that count on nodes: which pods it may keep from somewhere.

    It holds for pods that come later too, so a plain pod's placement depends on it. Where no such term may match a pod,
    nothing beyond its own node has to be looked at. Kept are the distinct terms, however many pods have them, by the
    namespaces they may concern.
    """

    def __init__(self) -> None:
        self._named: dict[str, Counter[PodAffinityTerm]] = {}
        self._selecting: Counter[PodAffinityTerm] = Counter()
        """Terms with a namespace selector: any namespace may be meant."""
        self._of: dict[PodIdentity, tuple[str, tuple[PodAffinityTerm, ...]]] = {}
        self.epoch = 0
        """Moves whenever a pod with such terms begins to count somewhere."""

    def count(self, pod: Pod, node_name: str | None) -> None:
        """The pod counts on this node and nowhere else; None = nowhere."""
        terms = pod.required_anti_affinity if node_name is not None else ()
        if not terms and not self._of:
            return
        identity = pod.identity
        known = self._of.get(identity)
        now = (node_name, terms) if node_name is not None and terms else None
        if known == now:
            return
        if known is not None:
            del self._of[identity]
            self._add(known[1], -1)
        if now is not None:
            self._of[identity] = now
            self._add(terms, 1)
            self.epoch += 1

    def concerns(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Whether some pod's anti-affinity selects this pod; `namespace_labels` are those of the pod's namespace."""
        return any(term.selects(pod.namespace, namespace_labels, pod.labels) for term in self._about(pod.namespace))

    def concerns_namespace(self, namespace: str) -> bool:
        """Whether some pod's anti-affinity names this namespace."""
        return namespace in self._named

    def _about(self, namespace: str) -> Iterator[PodAffinityTerm]:
        yield from self._named.get(namespace, ())
        yield from self._selecting

    def _add(self, terms: tuple[PodAffinityTerm, ...], number: int) -> None:
        for term in terms:
            if term.namespace_selector is not None:
                _change(self._selecting, term, number)
            for namespace in term.namespaces:
                counts = self._named.setdefault(namespace, Counter())
                _change(counts, term, number)
                if not counts:
                    del self._named[namespace]


def _change(counts: Counter[PodAffinityTerm], term: PodAffinityTerm, number: int) -> None:
    counts[term] += number
    if not counts[term]:
        del counts[term]


class HeldPlaces:
    """Rooms that etcd shows as held for pods that are not bound yet, as every worker counts them; by pod.

    A record may be seen before its pod is, or outlive it; then it counts for nothing.
    """

    def __init__(self, pods: Mapping[PodKey, Pod], is_assumed: Callable[[PodIdentity], bool]) -> None:
        """`pods`: all, live; `is_assumed`: whether this worker counts the pod elsewhere for now."""
        self._pods = pods
        self._is_assumed = is_assumed
        self._places: dict[PodKey, HeldPlace] = {}

    def __iter__(self) -> Iterator[tuple[PodIdentity, str]]:
        """The pods that count where their room is held, and the nodes."""
        for key, place in self._places.items():
            pod = self._pods.get(key)
            if pod is not None and place.is_for(pod) and not self._is_assumed(pod.identity):
                yield pod.identity, place.node

    @property
    def by_pod(self) -> Mapping[PodKey, HeldPlace]:
        """All records."""
        return self._places

    def set(self, key: PodKey, place: HeldPlace | None) -> None:
        """Etcd has this record; None = it has none any more."""
        if place is None:
            self._places.pop(key, None)
        else:
            self._places[key] = place

    def node_of(self, pod: Pod) -> str | None:
        """The node on which room is held for this very pod."""
        place = self._places.get(pod.key)
        return place.node if place is not None and place.is_for(pod) else None

    def holds(self, identity: PodIdentity) -> bool:
        """Whether room is held for that pod."""
        pod = self._pods.get(PodKey(identity.namespace, identity.name))
        return pod is not None and pod.identity == identity and self.node_of(pod) is not None


class OverfullNodes:
    """The nodes whose pods need more than is allocatable, kept from one look to the next.

    The cache asks once each second, at thousands of rows; so only rows whose stamp has changed are looked at again. On
    overfull nodes it counts the pods of etcd alone.
    """

    def __init__(self) -> None:
        self._stamps: IntColumn | None = None
        """Of all rows, at the last look."""
        self._full: set[int] = set()
        """The numbers of the rows that were overfull."""

    def names(self, snapshot: Snapshot) -> list[str]:
        """The nodes that are overfull in this snapshot, which must be no older than the last one."""
        rows, stamps, before = snapshot.rows, snapshot.stamps, self._stamps
        if before is None or len(before) != len(stamps):
            self._full = {number for number, info in enumerate(rows) if is_overfull(info)}
        else:
            for number in (stamps != before).nonzero()[0].tolist():
                (self._full.add if is_overfull(rows[number]) else self._full.discard)(number)
        self._stamps = stamps
        return [rows[number].node.name for number in self._full]


def is_overfull(info: NodeInfo) -> bool:
    """Whether the pods that count on the node need more than it offers."""
    offered = info.node.allocatable
    return any(amount > offered.get(resource, 0) for resource, amount in info.requested.items())
