"""Rooms that etcd shows as held for pods that are not bound yet, as every worker counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from wharfinger.model.held_places import HeldPlace
from wharfinger.model.pod import Pod, PodIdentity, PodKey


class HeldPlaces:
    """By pod. A record may be seen before its pod is, or outlive it; then it counts for nothing."""

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
