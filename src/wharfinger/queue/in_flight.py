"""Pods whose attempt was started and whose outcome etcd has not shown yet."""

from __future__ import annotations

from collections import Counter

from wharfinger.model.pod import PodKey
from wharfinger.queue.entry import Entry
from wharfinger.queue.throughput import Throughput


class InFlight:
    """Ordered by start, so that looking for overdue ones touches only those.

    A cohort, or a gang, is open as long as one of its pods is in: whatever became of the others, etcd has told.
    """

    def __init__(self, confirm_after: float, throughput: Throughput | None = None) -> None:
        """`throughput` measures the pods with an attempt of their own."""
        self._confirm_after = confirm_after
        self._throughput = throughput
        self._starting: dict[PodKey, Entry] = {}
        self._started: dict[PodKey, Entry] = {}
        self._cohorts: Counter[str] = Counter()
        self._gangs: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._starting) + len(self._started)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._starting or key in self._started

    @property
    def alone(self) -> int:
        """How many pods have an attempt of their own in flight."""
        return len(self) - self._cohorts.total() - self._gangs.total()

    @property
    def cohorts(self) -> int:
        """How many cohorts are open."""
        return len(self._cohorts)

    @property
    def gangs(self) -> int:
        """How many gangs are open."""
        return len(self._gangs)

    def add(self, entry: Entry, cohort: str = "", *, gang: bool = False) -> None:
        """The start is on its way: the pod's own, or that of its cohort or gang, which has that name.

        It cannot be overdue before Temporal accepted it.
        """
        entry.started_at, entry.cohort = None, cohort
        self._starting[entry.key] = entry
        if cohort:
            (self._gangs if gang else self._cohorts)[cohort] += 1
        if self._throughput is not None:
            self._throughput.pause(bool(self._cohorts))
            if not cohort:
                self._throughput.began(entry.key, ruled=entry.pod.hard_terms_across_nodes)

    def started(self, entry: Entry, now: float) -> None:
        """Temporal accepted the start: the time to confirm it begins."""
        if self._starting.pop(entry.key, None) is not None:
            entry.started_at = now
            self._started[entry.key] = entry

    def discard(self, key: PodKey) -> None:
        """Take the pod out, if it is in."""
        unstarted = self._starting.pop(key, None)
        entry = unstarted or self._started.pop(key, None)
        if entry is not None and entry.cohort:
            open_ones = self._cohorts if entry.cohort in self._cohorts else self._gangs
            open_ones[entry.cohort] -= 1
            if not open_ones[entry.cohort]:
                del open_ones[entry.cohort]
        if entry is not None and self._throughput is not None:
            if not entry.cohort:
                self._throughput.ended(key, completed=unstarted is None)
            self._throughput.pause(bool(self._cohorts))

    def overdue(self, now: float) -> list[Entry]:
        """Those started so long ago that etcd should have shown an outcome; oldest first. They stay in."""
        late: list[Entry] = []
        for entry in self._started.values():
            if entry.started_at is not None and now - entry.started_at < self._confirm_after:
                break
            late.append(entry)
        return late
