"""A heap of entries from which any may be taken out: removal is lazy, and what it leaves behind is bounded."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any

from wharfinger.model.pod import PodKey
from wharfinger.queue.entry import Entry

GARBAGE = 64
"""Items left behind that are never worth a clean-up; beyond that, no more than there are live ones."""

_Item = tuple[Any, int, Entry]
"""An order, a ticket that orders equals (first come, first served), and the entry."""


class EntryHeap:
    """Entries by an order, smallest first; one a pod. Every step is O(log n) in the long run."""

    def __init__(self) -> None:
        self._heap: list[_Item] = []
        self._live: dict[PodKey, _Item] = {}
        self._tickets = itertools.count()

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[Entry]:
        """The entries, in no order."""
        return (entry for _, _, entry in self._live.values())

    def push(self, entry: Entry, order: Any) -> None:
        """Put the entry in, or to another place when its order is another."""
        known = self._live.get(entry.key)
        if known is not None and known[2] is entry and known[0] == order:
            return
        item = (order, next(self._tickets), entry)
        self._live[entry.key] = item
        heapq.heappush(self._heap, item)
        self._clean_up()

    def discard(self, key: PodKey) -> bool:
        """Take the pod's entry out; whether it was in."""
        if self._live.pop(key, None) is None:
            return False
        self._clean_up()
        return True

    def first(self) -> tuple[Any, Entry] | None:
        """The smallest order and its entry, which stays in; None when there is none."""
        while self._heap:
            item = self._heap[0]
            if self._live.get(item[2].key) is item:
                return item[0], item[2]
            heapq.heappop(self._heap)
        return None

    def pop(self) -> Entry | None:
        """The entry of the smallest order, taken out; None when there is none."""
        if self.first() is None:
            return None
        _, _, entry = heapq.heappop(self._heap)
        del self._live[entry.key]
        return entry

    def _clean_up(self) -> None:
        """Drop what removal left behind, once it is more than what lives."""
        if len(self._heap) > 2 * len(self._live) + GARBAGE:
            self._heap = list(self._live.values())
            heapq.heapify(self._heap)
