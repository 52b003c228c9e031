"""Pods that were refused and wait for an event, each with its record in etcd."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

from wharfinger.model.pod import PodKey
from wharfinger.queue.candidates import Candidates
from wharfinger.queue.entry import Entry


class Waiting:
    """The waiting pods, their index for events, and when each is due to be started again.

    A start of a pod whose chain is open adds nothing to it; one whose chain vanished (somebody
    terminated it) comes back that way, whatever happened.
    """

    def __init__(self) -> None:
        self.candidates = Candidates()
        self._entries: dict[PodKey, Entry] = {}
        self._restarts: list[tuple[float, int, PodKey]] = []
        self._ticket: dict[PodKey, int] = {}
        self._tickets = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, key: PodKey) -> Entry | None:
        """The waiting pod's entry, if it waits."""
        return self._entries.get(key)

    def add(self, entry: Entry, restart_at: float) -> None:
        """The pod waits, with the refusal in its entry; `restart_at`: clock seconds."""
        self._entries[entry.key] = entry
        self.candidates.add(entry)
        self.restart_at(entry.key, restart_at)

    def discard(self, key: PodKey) -> None:
        """Take the pod out, if it is in."""
        if self._entries.pop(key, None) is not None:
            self.candidates.discard(key)
            del self._ticket[key]

    def due_restarts(self, now: float, again_at: float, limit: int) -> list[Entry]:
        """At most `limit` pods that are due to be started again; each is due next at `again_at`."""
        due: list[Entry] = []
        while self._restarts and self._restarts[0][0] <= now and len(due) < limit:
            _, ticket, key = heapq.heappop(self._restarts)
            if self._ticket.get(key) == ticket:
                due.append(self._entries[key])
                self.restart_at(key, again_at)
        return due

    def restart_at(self, key: PodKey, at: float) -> None:
        """The waiting pod is due to be started again at clock seconds `at`, and not before."""
        ticket = next(self._tickets)
        self._ticket[key] = ticket
        heapq.heappush(self._restarts, (at, ticket, key))
