"""Pods to be started: by priority, then arrival; gained ones only after their hold.

They stand in lanes, by how they may be started. The order holds across lanes: who takes from several takes the first
of all. A pod that comes back keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.queue.entry import Entry, EntryHeap


class Lane(Enum):
    """How a pod may be started."""

    EITHER = "either"
    """In a group: by an attempt of its own, or in a cohort."""
    ALONE = "alone"
    """By an attempt of its own only, in no group."""
    TOGETHER = "together"
    """In a group, by a cohort only: a chain of its own is parked, which a start would only join."""
    GANG = "gang"
    """With its gang only."""


ONE_BY_ONE = (Lane.EITHER, Lane.ALONE)
"""The lanes of pods that may have an attempt of their own."""
IN_GROUPS = (Lane.EITHER, Lane.TOGETHER)
"""The lanes of pods that may be placed with others."""


def by_priority(pod: Pod, arrival: float) -> Any:
    """PrioritySort's order: higher priority first, then arrival (clock seconds)."""
    return -pod.priority, arrival


class Active:
    """A heap a lane, and one of held pods."""

    def __init__(self, order: Callable[[Pod, float], Any], lane_of: Callable[[Entry], Lane]) -> None:
        self._order = order
        self._lane_of = lane_of
        self._ready = {lane: EntryHeap() for lane in Lane}
        self._held = EntryHeap()

    def __len__(self) -> int:
        return len(self._held) + sum(map(len, self._ready.values()))

    @property
    def held(self) -> int:
        """How many of its pods may not be started yet."""
        return len(self._held)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._held or any(key in heap for heap in self._ready.values())

    def add(self, entry: Entry, now: float) -> None:
        """Queue the pod, or queue it anew when its order or lane may have changed."""
        if entry.not_before > now:
            self._release_from_lanes(entry.key)
            self._held.push(entry, entry.not_before)
            return
        self._held.discard(entry.key)
        lane = self._lane_of(entry)
        self._release_from_lanes(entry.key, but=lane)
        self._push(entry, lane)

    def discard(self, key: PodKey) -> None:
        """Take the pod out, if it is in."""
        if not self._held.discard(key):
            self._release_from_lanes(key)

    def ready(self, now: float, lanes: Iterable[Lane] = Lane) -> int:
        """How many pods of these lanes can be started now."""
        self._release_held(now)
        return sum(len(self._ready[lane]) for lane in lanes)

    def first(self, now: float, lanes: Iterable[Lane] = ONE_BY_ONE) -> Entry | None:
        """The next pod of these lanes to start, left where it is; None when there is none now."""
        lane = self._first_lane(now, lanes)
        found = self._ready[lane].first() if lane is not None else None
        return found[1] if found is not None else None

    def first_of_all(self, now: float, lane: Lane) -> Entry | None:
        """The next pod to start, if it stands in that lane; None when one of another lane goes before it."""
        return self.first(now, (lane,)) if self._first_lane(now, Lane) is lane else None

    def pop(self, now: float, lanes: Iterable[Lane] = ONE_BY_ONE) -> Entry | None:
        """The next pod of these lanes to start, taken out; None when there is none now."""
        lane = self._first_lane(now, lanes)
        return self._ready[lane].pop() if lane is not None else None

    def next_due(self) -> float | None:
        """When the first held pod may be started; None when none is held."""
        first = self._held.first()
        return first[0] if first is not None else None

    def _first_lane(self, now: float, lanes: Iterable[Lane]) -> Lane | None:
        self._release_held(now)
        best: tuple[Any, Lane] | None = None
        for lane in lanes:
            first = self._ready[lane].first()
            if first is not None and (best is None or first[0] < best[0]):
                best = first[0], lane
        return best[1] if best is not None else None

    def _release_held(self, now: float) -> None:
        while (due := self.next_due()) is not None and due <= now:
            entry = self._held.pop()
            if entry is not None:
                self._push(entry, self._lane_of(entry))

    def _push(self, entry: Entry, lane: Lane) -> None:
        self._ready[lane].push(entry, (self._order(entry.pod, entry.arrival), entry.number))

    def _release_from_lanes(self, key: PodKey, *, but: Lane | None = None) -> None:
        for lane, heap in self._ready.items():
            if lane is not but:
                heap.discard(key)
