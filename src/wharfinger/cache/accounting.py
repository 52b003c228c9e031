"""Where each pod counts, derived from the facts and from what no watch event shows yet.

A pod counts on the node it is bound to; else on the node it is assumed on; else where etcd has a record that its room
is held; else nowhere. Finished pods use nothing. A pending pod that counts nowhere may be nominated.

Neighbours: `cache.cache` has the facts and calls this after each change; `cache.booking` keeps the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from wharfinger.cache.assumptions import Assumptions, NominatedPods
from wharfinger.cache.booking import Booking
from wharfinger.cache.held_volumes import HeldVolumes
from wharfinger.cache.overlay_changes import OverlayChanges
from wharfinger.model.held_places import HeldPlace
from wharfinger.model.pod import Pod, PodIdentity, PodKey
from wharfinger.model.volume_matching import VolumePlan


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
