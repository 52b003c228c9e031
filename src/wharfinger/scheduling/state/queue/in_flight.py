"""Pods whose start is on its way, or whose outcome etcd has not shown yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.state.queue.entry import Entry
from wharfinger.scheduling.state.queue.window import Window


class InFlight:
    """Ordered by start, so that looking for overdue ones touches only those.

    A group counts in the window as long as one of its pods is in, or waits for the answer of a Kubernetes API.
    """

    def __init__(
        self, confirm_after: float, clock: Callable[[], float] = lambda: 0.0, window: Window | None = None
    ) -> None:
        """`confirm_after`: seconds until a start is overdue; `window`: None where no groups are started."""
        self._confirm_after = confirm_after
        self._clock = clock
        self._window = window
        self._starting: dict[PodKey, Entry] = {}
        self._started: dict[PodKey, Entry] = {}
        self._groups: dict[str, dict[PodKey, Entry]] = {}
        self._grouped = 0
        self._gangs: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._starting) + len(self._started)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._starting or key in self._started

    @property
    def alone(self) -> int:
        """How many pods are in flight that count in no group and are of no gang."""
        return len(self) - self._grouped - self._gangs.total()

    @property
    def groups(self) -> Mapping[str, Mapping[PodKey, Entry]]:
        """The pods in flight of each group that counts."""
        return self._groups

    @property
    def gangs(self) -> int:
        """How many gangs are open."""
        return len(self._gangs)

    def add(self, entry: Entry, *, group: str = "", gang: str = "") -> None:
        """The start is on its way: in that group, with that gang, or by itself and counted in no group.

        It cannot be overdue before Temporal accepted it.
        """
        entry.started_at, entry.group, entry.cohort = None, group, group or gang
        self._starting[entry.key] = entry
        if gang:
            self._gangs[gang] += 1
        elif group:
            self._grouped += 1
            if group not in self._groups:
                self._groups[group] = {}
                if self._window is not None:
                    self._window.began(group, self._clock())
            self._groups[group][entry.key] = entry

    def started(self, entry: Entry, now: float) -> None:
        """Temporal accepted the start: the time to confirm it begins."""
        if self._starting.pop(entry.key, None) is not None:
            entry.started_at = now
            self._started[entry.key] = entry

    def discard(self, key: PodKey, *, told: bool = False, counts: bool = False) -> None:
        """Take the pod out, if it is in. `told`: because etcd told of it; `counts`: in its group, until `uncount`."""
        entry = self._starting.pop(key, None) or self._started.pop(key, None)
        if entry is None:
            return
        if entry.group:
            self._grouped -= 1
            if not counts:
                self.uncount(entry, told=told)
        elif entry.cohort in self._gangs:
            self._gangs[entry.cohort] -= 1
            if not self._gangs[entry.cohort]:
                del self._gangs[entry.cohort]

    def uncount(self, entry: Entry, *, told: bool = False) -> None:
        """The pod counts in its group no more, though it may stay in flight, or has left before."""
        group, entry.group = entry.group, ""
        members = self._groups[group]
        del members[entry.key]
        if entry in (self._starting.get(entry.key), self._started.get(entry.key)):  # it stays
            self._grouped -= 1
        if not members:
            del self._groups[group]
            if self._window is not None:
                self._window.ended(group, self._clock(), told=told)

    def overdue(self, now: float) -> list[Entry]:
        """Those started so long ago that etcd should have shown an outcome; oldest first. They stay in."""
        late: list[Entry] = []
        for entry in self._started.values():
            if entry.started_at is not None and now - entry.started_at < self._confirm_after:
                break
            late.append(entry)
        return late
