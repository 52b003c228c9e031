"""Pods to be started: by priority, then arrival; gained ones only after their hold."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

from wharfinger.model.pod import Pod, PodKey
from wharfinger.queue.entry import Entry


def by_priority(pod: Pod, arrival: float) -> Any:
    """PrioritySort's order: higher priority first, then arrival (clock seconds)."""
    return -pod.priority, arrival


class Active:
    """Two heaps, of startable and of held pods; removal is lazy, so every step is O(log n)."""

    def __init__(self, order: Callable[[Pod, float], Any] = by_priority) -> None:
        self._order = order
        self._ready: list[tuple[Any, int, Entry]] = []
        self._held: list[tuple[float, int, Entry]] = []
        self._ticket: dict[PodKey, int] = {}
        self._tickets = itertools.count()

    def __len__(self) -> int:
        return len(self._ticket)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._ticket

    def add(self, entry: Entry, now: float) -> None:
        """Queue the pod, or queue it anew when its order may have changed."""
        ticket = next(self._tickets)
        self._ticket[entry.key] = ticket
        if entry.not_before > now:
            heapq.heappush(self._held, (entry.not_before, ticket, entry))
        else:
            heapq.heappush(self._ready, (self._order(entry.pod, entry.arrival), ticket, entry))

    def discard(self, key: PodKey) -> None:
        """Take the pod out, if it is in."""
        self._ticket.pop(key, None)
        if not self._ticket:  # nothing alive: drop what removal left behind
            self._ready.clear()
            self._held.clear()

    def pop(self, now: float) -> Entry | None:
        """The next pod to start, taken out; None when there is none now."""
        self._release(now)
        while self._ready:
            _, ticket, entry = heapq.heappop(self._ready)
            if self._ticket.get(entry.key) == ticket:
                self.discard(entry.key)
                return entry
        return None

    def next_due(self) -> float | None:
        """When the first held pod may be started; None when none is held."""
        while self._held and self._ticket.get(self._held[0][2].key) != self._held[0][1]:
            heapq.heappop(self._held)
        return self._held[0][0] if self._held else None

    def _release(self, now: float) -> None:
        while self._held and self._held[0][0] <= now:
            _, ticket, entry = heapq.heappop(self._held)
            if self._ticket.get(entry.key) == ticket:
                heapq.heappush(self._ready, (self._order(entry.pod, entry.arrival), ticket, entry))
