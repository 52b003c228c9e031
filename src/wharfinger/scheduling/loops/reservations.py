"""Rooms kept in mind for pods that were woken and have not been placed yet.

Without them every event in that moment would wake another pod for the same room. A reservation ends
when the pod is bound or gone, when a newer record arrives, or with time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.queue.entry import Entry
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue

PATIENCE = 30.0
"""Seconds a woken pod is given; its back-off is at most 10 s."""


@dataclass(frozen=True, slots=True)
class _Reservation:
    node: str
    """Empty when it is not known where the pod will go."""
    at: float
    record_revision: int


class Reservations:
    """Woken pods, by entry."""

    def __init__(self, queue: SchedulingQueue, cache: Cache, clock: Callable[[], float]) -> None:
        self._queue = queue
        self._cache = cache
        self._clock = clock
        self._kept: dict[Entry, _Reservation] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._kept

    def add(self, entry: Entry, node: str) -> None:
        """The pod is woken and expected on the node."""
        self._kept[entry] = _Reservation(node, self._clock(), entry.record_revision)

    def release(self, entry: Entry) -> None:
        """The pod came to wait again: what it was expected to do, it did not."""
        self._kept.pop(entry, None)

    def next_expiry(self) -> float | None:
        """When the oldest reservation's patience ends, in clock seconds; None without any."""
        oldest = next(iter(self._kept.values()), None)  # they were added in the order of time
        return None if oldest is None else oldest.at + PATIENCE

    def expire(self) -> list[Entry]:
        """Drop what is over; the entries whose pods still wait and gave no answer in time."""
        unanswered: list[Entry] = []
        now = self._clock()
        while (due := self.next_expiry()) is not None and due <= now:
            entry = next(iter(self._kept))
            kept = self._kept.pop(entry)
            if self._queue.waiting.get(entry.key) is entry and self._holds(entry, kept):
                unanswered.append(entry)
        return unanswered

    def placed_on(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the expected pods on it, but for those it holds as assumed already."""
        if not self._kept:
            return snapshot
        assumed = {assumption.identity for assumption in self._cache.assumed()}
        expected: dict[int, NodeInfo] = {}
        over: list[Entry] = []
        for entry, kept in self._kept.items():
            if not self._holds(entry, kept):
                over.append(entry)
                continue
            row = snapshot.index.get(kept.node)
            if row is not None and entry.pod.identity not in assumed:
                expected[row] = expected.get(row, snapshot.rows[row]).with_pod(entry.pod)
        for entry in over:
            del self._kept[entry]
        return snapshot.with_pods_changed(expected) if expected else snapshot

    def _holds(self, entry: Entry, kept: _Reservation) -> bool:
        """Whether the pod, waiting or on its way, has not been heard of since."""
        return self._queue.get(entry.key) is entry and entry.record_revision == kept.record_revision
