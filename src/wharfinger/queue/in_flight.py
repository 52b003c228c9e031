"""Pods whose attempt was started and of which etcd has not told the outcome yet."""

from __future__ import annotations

from wharfinger.model.pod import PodKey
from wharfinger.queue.entry import Entry


class InFlight:
    """Ordered by start, so that looking for overdue ones touches only those."""

    def __init__(self, confirm_after: float) -> None:
        self._confirm_after = confirm_after
        self._starting: dict[PodKey, Entry] = {}
        self._started: dict[PodKey, Entry] = {}

    def __len__(self) -> int:
        return len(self._starting) + len(self._started)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._starting or key in self._started

    def add(self, entry: Entry) -> None:
        """The pod's start is on its way; it cannot be overdue before Temporal has accepted it."""
        entry.started_at = None
        self._starting[entry.key] = entry

    def started(self, entry: Entry, now: float) -> None:
        """Temporal accepted the start: the time to confirm it begins."""
        if self._starting.pop(entry.key, None) is not None:
            entry.started_at = now
            self._started[entry.key] = entry

    def discard(self, key: PodKey) -> None:
        """Take the pod out, if it is in."""
        if self._starting.pop(key, None) is None:
            self._started.pop(key, None)

    def overdue(self, now: float) -> list[Entry]:
        """Those started so long ago that etcd should have told; oldest first. They stay in."""
        late: list[Entry] = []
        for entry in self._started.values():
            if entry.started_at is not None and now - entry.started_at < self._confirm_after:
                break
            late.append(entry)
        return late
