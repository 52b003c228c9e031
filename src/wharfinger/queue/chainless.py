"""Waiting pods without a chain of their own: their record says all, and only this worker's queue wakes them.

A cohort that turns many pods away parks nothing for them. Each gets a chain when there is room for one more, the
urgent ones at once. A start of a chain is confirmed by the record that its first attempt writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wharfinger.model.pod import Pod, PodKey
from wharfinger.queue.entry import Entry
from wharfinger.queue.heap import EntryHeap
from wharfinger.queue.in_flight import InFlight


class Chainless:
    """Who gets a chain next: the urgent ones first, then in the queue's order."""

    def __init__(self, order: Callable[[Pod, float], Any], confirm_after: float) -> None:
        """`confirm_after`: seconds until a start that no record confirms is repeated."""
        self._order = order
        self._urgent = EntryHeap()
        self._others = EntryHeap()
        self._held = EntryHeap()
        self._starting = InFlight(confirm_after)
        self._repeated: set[PodKey] = set()

    def __len__(self) -> int:
        return len(self._urgent) + len(self._others) + len(self._held) + len(self._starting)

    def __contains__(self, key: PodKey) -> bool:
        return any(key in part for part in (self._urgent, self._others, self._held, self._starting))

    @property
    def unconfirmed(self) -> int:
        """How many starts no record has confirmed."""
        return len(self._starting)

    def repeated(self, key: PodKey) -> bool:
        """Whether the pod's start was accepted before, and no record came of it: it may have joined a parked chain."""
        return key in self._repeated

    def add(self, entry: Entry, now: float, not_before: float = 0.0) -> None:
        """The pod waits, and has no chain; it gets none before clock seconds `not_before`."""
        self.discard(entry.key)
        if not_before > now:
            self._held.push(entry, not_before)
        else:
            self._queue(entry)

    def discard(self, key: PodKey) -> None:
        """Take the pod out, if it is in."""
        self._repeated.discard(key)
        for heap in (self._urgent, self._others, self._held):
            if heap.discard(key):
                return
        self._starting.discard(key)

    def pop(self, now: float, *, urgent_only: bool) -> Entry | None:
        """The next pod to get a chain, whose start is unconfirmed from now on; None when there is none now."""
        self._release(now)
        entry = self._urgent.pop()
        if entry is None and not urgent_only:
            entry = self._others.pop()
        if entry is not None:
            self._starting.add(entry)
        return entry

    def started(self, entry: Entry, now: float) -> None:
        """Temporal accepted the start."""
        self._starting.started(entry, now)

    def return_overdue(self, now: float) -> None:
        """Give pods another start that no record has confirmed in time, after pods of equal priority that had none."""
        for entry in self._starting.overdue(now):
            self._starting.discard(entry.key)
            entry.arrival = now
            self._repeated.add(entry.key)
            self._queue(entry)

    def _queue(self, entry: Entry) -> None:
        urgent = entry.refusal is not None and entry.refusal.urgent
        (self._urgent if urgent else self._others).push(entry, self._order(entry.pod, entry.arrival))

    def _release(self, now: float) -> None:
        while (first := self._held.first()) is not None and first[0] <= now:
            entry = self._held.pop()
            if entry is not None:
                self._queue(entry)
