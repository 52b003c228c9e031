"""Pods that can be started now, pods whose start is in flight, and the window that says when the next group starts.

The window is a group commit. A group is the pods of one workflow run, one or many. In a quiet system a pod starts at
once, alone. Pods that arrive while a group is in flight start together in the next one. So the size of groups follows
the load, etcd, Temporal and the processor, without a measurement of any of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.queue.entry import Entry, EntryHeap
from wharfinger.scheduling.state.queue.turns import FairHeap, Turns


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
    """Pods that can be started: a heap a lane, and one of held pods.

    The order holds across lanes: who takes from several takes the first of all. A pod that comes back keeps its place
    among those of its namespace.
    """

    def __init__(
        self, order: Callable[[Pod, float], Any], lane_of: Callable[[Entry], Lane], turns: Turns | None = None
    ) -> None:
        """`turns`: of namespaces; None = the order alone counts."""
        self._order = order
        self._lane_of = lane_of
        self._turns = turns = turns or Turns()
        self._ready = {lane: FairHeap(turns) for lane in Lane}
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

    def give(self, first: Entry, entries: Sequence[Entry]) -> None:
        """Take these pods out, which go together in the turn of `first`, a pod that can be started now."""
        self._turns.give(self._turns.share_of(first.pod), len(entries))
        for entry in entries:
            self.discard(entry.key)

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


REMEMBERED = 16
"""Groups of which it is known how long they took."""


class Window:
    """The groups that count: those of whose pods etcd, or a Kubernetes API, has not told all. For one event loop."""

    def __init__(self, most_pods: int, most_groups: int, *, task_timeout: float) -> None:
        """`most_pods`: of one group; `most_groups`: at a time; `task_timeout`: Temporal's, of workflow tasks, in
        seconds. After it, a group has lost its worker, or an outage holds it.
        """
        self._task_timeout = task_timeout
        self._began: dict[str, float] = {}
        self._took: deque[float] = deque(maxlen=REMEMBERED)
        self._probing = False
        self._probe = ""
        """The last group that probed."""
        self.acceptances = 0
        """Starts of groups that Temporal has accepted."""
        self.configure(most_pods, most_groups)

    def configure(self, most_pods: int, most_groups: int) -> None:
        """Go by these from now on."""
        self._most_pods = most_pods
        self._most_groups = most_groups

    def __len__(self) -> int:
        return len(self._began)

    def __contains__(self, group: str) -> bool:
        return group in self._began

    @property
    def size(self) -> int:
        """How many pods the next group takes at most."""
        return 1 if self._probing else self._most_pods

    def began(self, group: str, now: float) -> None:
        """The group counts from now on."""
        self._began[group] = now
        if self._probing:
            self._probe = group

    def ended(self, group: str, now: float, *, told: bool = True) -> None:
        """The group counts no more. `told`: because it was told of all its pods, so it shows how long groups take."""
        began = self._began.pop(group, None)
        if began is not None and told:
            self._took.append(now - began)

    def accepted(self) -> None:
        """Temporal accepted the start of a group."""
        self._probing, self._probe = False, ""
        self.acceptances += 1

    def failed(self) -> None:
        """The start of a group failed for good: one pod at a time probes until Temporal accepts one again."""
        self._probing = True

    def may_start(self, ready: int, now: float) -> bool:
        """Whether the next group starts now, of so many pods that are ready."""
        if not ready or len(self._began) >= self._most_groups:
            return False
        if not self._began:
            return True
        if self._probe in self._began:  # it shows first whether Temporal accepts starts again
            return False
        # A flood: several full groups at once.
        return (ready >= self._most_pods and not self._probing) or len(self.overdue(now)) == len(self)

    def overdue(self, now: float) -> list[str]:
        """The groups that take longer than usual."""
        patience = self._patience()
        return [group for group, began in self._began.items() if now >= began + patience]

    def overdue_at(self) -> float | None:
        """When the last of the groups that count becomes overdue, in clock seconds.

        None when that lets no group start: none counts, or as many as may, or one of them probes.
        """
        if not self._began or self._probe in self._began or len(self._began) >= self._most_groups:
            return None
        return max(self._began.values()) + self._patience()

    def _patience(self) -> float:
        # Slow groups raise it, so that a busy Temporal is not flooded; beyond the time-out no worker has the group.
        return min(2 * max(self._took, default=self._task_timeout), self._task_timeout)


class InFlight:
    """Pods whose start is in flight, or whose outcome etcd has not shown yet.

    Ordered by start, so that looking for overdue ones touches only those.

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
