"""The four parts of the queue, and how a pod moves between them.

Invariant: every pod put and not removed is in exactly one part.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from wharfinger.objects.model.gang import Gang, GangKey
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.queue.active_queue import Active, InFlight, Lane, Window, by_priority
from wharfinger.scheduling.state.queue.entry import RUN_FAILED, UNCONFIRMED, Entry, Part
from wharfinger.scheduling.state.queue.turns import Share, Turns, one_share
from wharfinger.scheduling.state.queue.waiting import Waiting
from wharfinger.settings import DispatchSettings


class QueuedGangs:
    """Entries by gang, whichever part of the queue they are in: members are started together, woken by one signal."""

    def __init__(self) -> None:
        self._members: dict[GangKey, dict[PodKey, Entry]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def assign(self, entry: Entry, gang: Gang | None) -> bool:
        """The pod is placed as one of this gang from now on, or by itself; whether that is something new."""
        if entry.gang == gang:
            return False
        self.discard(entry)
        entry.gang = gang
        if gang is not None:
            entry.together = False
            self._members.setdefault(gang.key, {})[entry.key] = entry
        return True

    def discard(self, entry: Entry) -> None:
        """The entry is of no gang any more."""
        if entry.gang is None:
            return
        members = self._members[entry.gang.key]
        del members[entry.key]
        if not members:
            del self._members[entry.gang.key]
        entry.gang = None

    def members(self, gang: GangKey, part: Part) -> list[Entry]:
        """The gang's entries in that part, sorted by name."""
        found = [entry for entry in self._members.get(gang, {}).values() if entry.part is part]
        return sorted(found, key=lambda entry: entry.key)

    def keys(self, gang: GangKey) -> list[PodKey]:
        """All queued members of the gang, in whichever part, sorted by name."""
        return sorted(self._members.get(gang, ()))

    def leads(self, entry: Entry) -> bool:
        """Whether the entry stands for its gang among those in the same part: exactly one of them does."""
        return entry.gang is None or self.members(entry.gang.key, entry.part)[0] is entry


USUAL = DispatchSettings()
RESTARTS_A_SECOND = 5
"""Repetitions at most, however many pods wait: each is a call, or a decision, that mostly changes nothing."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    """Which pods wait, which go first, and which go together."""

    gate: Callable[[Pod], str]
    """The plugin that holds a pod back; empty: none does."""
    order: Callable[[Pod, float], Any] = by_priority
    alone: Callable[[Pod], bool] = lambda _pod: False
    """Whether a pod is never to be put into a group."""
    gang: Callable[[Pod], tuple[str, Gang | None]] = lambda _pod: ("", None)
    """Why a pod has to wait for other members of its gang (empty: it does not), and the gang it is placed with."""
    backoff: Callable[[int], float] = lambda _attempt: 0.0
    """Seconds from the refusal of that attempt to the next one."""
    share_of: Callable[[Pod], Share] = one_share
    """Whose pods take turns with those of others."""


class QueueParts:
    """Base of `SchedulingQueue`, which decides when a pod moves. Lives on one event loop."""

    def __init__(
        self,
        rules: QueueRules,
        settings: DispatchSettings = USUAL,
        *,
        clock: Callable[[], float],
        spread: Callable[[], float] = lambda: 0.5,
        window: Window | None = None,
        incoming: Callable[[str, str], Any] | None = None,
    ) -> None:
        """`spread` draws from [0, 1); `window` bounds the groups; `incoming`: the counter of the pods that enter a
        part, by its name and the cause.
        """
        self._rules = rules
        self._clock = clock
        self._restart_every = settings.restart_every
        self._spread = spread
        self._incoming = incoming
        self._came_to_wait: Callable[[Entry], None] = lambda _entry: None
        self._numbers = itertools.count()
        self._entries: dict[PodKey, Entry] = {}
        self._promised: dict[PodKey, Entry] = {}
        """Of pods that were removed and count in their groups until a Kubernetes API has answered their binds."""
        self.gangs = QueuedGangs()
        self.gated: dict[PodKey, Entry] = {}
        """Pods that a PreEnqueue plugin, or their gang, holds back until their own update."""
        turns = Turns(rules.share_of)
        self.active = Active(rules.order, self._lane, turns)
        self.window = window if window is not None else Window(200, 4, task_timeout=3.0)
        self.in_flight = InFlight(settings.confirm_after, clock, self.window)
        self.waiting = Waiting(rules.order, settings.confirm_after, turns)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._entries

    def get(self, key: PodKey) -> Entry | None:
        """The pod's entry, in whichever part; None when it is not queued."""
        return self._entries.get(key)

    def __iter__(self) -> Iterator[PodKey]:
        return iter(self._entries)

    def on_wait(self, call: Callable[[Entry], None]) -> None:
        """Call this with each pod that comes to wait from now on."""
        self._came_to_wait = call

    def may_join(self, entry: Entry) -> bool:
        """Whether the pod may be placed in a group."""
        return not entry.alone and entry.gang is None and not self._rules.alone(entry.pod)

    def _arrives(self, entry: Entry) -> None:
        """The pod queues behind those of equal priority that arrived before now."""
        entry.arrival, entry.number = self._clock(), next(self._numbers)

    def _in_flight(self, entry: Entry) -> bool:
        return self._entries.get(entry.key) is entry and entry.part is Part.IN_FLIGHT

    def _move(self, entry: Entry, part: Part, cause: str, *, told: bool = False) -> None:
        self._leave(entry, told=told)
        self._enter(entry, part, cause, restart_at=self._clock() + self._next_restart())

    def _leave(self, entry: Entry, *, told: bool = False, counts: bool = False) -> None:
        match entry.part:
            case Part.GATED:
                self.gated.pop(entry.key, None)
            case Part.ACTIVE:
                self.active.discard(entry.key)
            case Part.IN_FLIGHT:
                self.in_flight.discard(entry.key, told=told, counts=counts)
            case Part.WAITING:
                self.waiting.discard(entry.key)

    def _set_apart(self, entry: Entry) -> None:
        """The active pod joins no group any more; one with a parked chain waits for its signal again."""
        entry.alone = True
        entry.set_apart += 1
        if entry.together and entry.chained:
            self._move(entry, Part.WAITING, "set apart")
        else:
            entry.together = False
            self.active.add(entry, self._clock())

    def _lane(self, entry: Entry) -> Lane:
        if entry.gang is not None:
            return Lane.GANG
        if entry.together:
            return Lane.TOGETHER
        return Lane.EITHER if self.may_join(entry) else Lane.ALONE

    def _enter(self, entry: Entry, part: Part, cause: str, *, restart_at: float, hold: float = 0.0) -> None:
        entry.together = entry.together and part is not Part.WAITING
        match part:
            case Part.GATED:
                self.gated[entry.key] = entry
            case Part.ACTIVE:
                self.active.add(entry, self._clock())
            case Part.IN_FLIGHT:
                self.in_flight.add(entry)
            case Part.WAITING:
                self.waiting.add(entry, self._clock(), restart_at, hold)
        if part is not Part.IN_FLIGHT:
            entry.cause = cause
        self._arrive(entry, part, cause)

    def _arrive(self, entry: Entry, part: Part, cause: str) -> None:
        entry.part = part
        if self._incoming is not None:
            self._incoming(part.value, cause).inc()
        if part is Part.WAITING:
            self._came_to_wait(entry)

    def _next_restart(self) -> float:
        """Seconds to the next repetition, spread so that a herd of pods does not stay one."""
        return max(self._restart_every, len(self.waiting) / RESTARTS_A_SECOND) * (0.5 + self._spread())

    def _give_back(self, entry: Entry, cause: str) -> None:
        """Make a pod active again of which etcd contains nothing; the second time, it is set apart from its group."""
        twice = entry.cause in (UNCONFIRMED, RUN_FAILED) and cause in (UNCONFIRMED, RUN_FAILED)
        twice = twice and bool(entry.cohort) and entry.gang is None
        self._move(entry, Part.ACTIVE, cause)
        if twice:  # perhaps one of them is what its cohorts fail by
            self._set_apart(entry)
