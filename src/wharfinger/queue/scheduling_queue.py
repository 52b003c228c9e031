"""The queue of one worker: which of its pods are to be started, are started, or wait.

::

             gate refuses                      pop                        record written
    put ──► GATED ──gate gone──► ACTIVE ───────────────► IN_FLIGHT ──────────────────────► WAITING
      └───────────────────────────► ▲ ◄──not confirmed in time──┘                            │
                                    └─────────── restart: its chain is gone ◄────────────────┘

    remove: from any part (bound, deleted, finished, no longer ours)

In: facts about pods that are pending and this worker's, told by `control.intake` as etcd shows them;
telling a fact twice changes nothing. Out: pods to start (`control.dispatcher`) and waiting pods an
event may concern (`control.waker`). It is a view: a restart rebuilds it from etcd.

Invariant: every pod put and not removed is in exactly one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wharfinger.model.pod import Pod, PodKey
from wharfinger.model.refusal import Refusal
from wharfinger.queue.active import Active, by_priority
from wharfinger.queue.entry import Entry, Part
from wharfinger.queue.gated import Gated
from wharfinger.queue.in_flight import InFlight
from wharfinger.queue.waiting import Waiting


def _nobody(_entry: Entry, _cause: str) -> None:
    """Nobody wants to know."""


class SchedulingQueue:
    """The facade over the four parts. Lives on one event loop; every call is synchronous."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        gate: Callable[[Pod], str],
        confirm_after: float = 30.0,
        restart_every: float = 300.0,
        spread: Callable[[], float] = lambda: 0.5,
        order: Callable[[Pod, float], Any] = by_priority,
        entered: Callable[[Entry, str], None] = _nobody,
    ) -> None:
        """`gate` names the plugin that holds a pod back (empty: none does); `spread` draws from [0, 1);
        `entered` is told of each entry that came into a part, and why; durations in seconds.
        """
        self._clock = clock
        self._gate = gate
        self._restart_every = restart_every
        self._spread = spread
        self._entered = entered
        self._entries: dict[PodKey, Entry] = {}
        self.gated = Gated()
        self.active = Active(order)
        self.in_flight = InFlight(confirm_after)
        self.waiting = Waiting()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._entries

    def get(self, key: PodKey) -> Entry | None:
        """The pod's entry, in whichever part; None when it is not queued."""
        return self._entries.get(key)

    def __iter__(self) -> Iterator[PodKey]:
        return iter(self._entries)

    # --- facts ------------------------------------------------------------------------------------

    def put(self, pod: Pod, refusal: Refusal | None, *, cause: str = "seen", not_before: float = 0.0) -> Entry:
        """The pod is pending and ours, as etcd shows it now, with its record if it has one.

        `cause` and `not_before` (clock seconds) count only when the pod is new to the queue.
        """
        if refusal is not None and refusal.create_revision not in (0, pod.create_revision):
            refusal = None  # of an earlier life of the name
        entry = self._entries.get(pod.key)
        if entry is not None and entry.pod.create_revision != pod.create_revision:
            self.remove(pod.key)
            entry = None
        gate = self._gate(pod)
        if entry is None:
            return self._put_new(pod, refusal, gate, cause, not_before)
        self._update(entry, pod, refusal, gate)
        return entry

    def remove(self, key: PodKey) -> Entry | None:
        """The pod is bound, deleted, finished or not ours any more; its last entry, if it was queued."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._leave(entry)
        return entry

    # --- starting ---------------------------------------------------------------------------------

    def pop(self) -> Entry | None:
        """The next pod to start, in flight from now on; None when there is none now."""
        entry = self.active.pop(self._clock())
        if entry is not None:
            self.in_flight.add(entry)
            self._arrive(entry, Part.IN_FLIGHT, "pop")
        return entry

    def started(self, entry: Entry) -> None:
        """Temporal accepted the start; when etcd does not confirm it in time, it is repeated."""
        if self._entries.get(entry.key) is entry:
            self.in_flight.started(entry, self._clock())

    def defer(self, entry: Entry, seconds: float) -> None:
        """The start failed: try it again later, and let other pods go first."""
        if self._entries.get(entry.key) is not entry:
            return
        if entry.part is Part.IN_FLIGHT:
            entry.not_before = self._clock() + seconds
            self._move(entry, Part.ACTIVE, entry.cause)
        elif entry.part is Part.WAITING:
            self.waiting.restart_at(entry.key, self._clock() + seconds)

    def restart(self, entry: Entry, cause: str) -> bool:
        """Start a waiting pod as if it were new: its chain is gone. Whether it still waited."""
        if self._entries.get(entry.key) is not entry or entry.part is not Part.WAITING:
            return False
        self._move(entry, Part.ACTIVE, cause)
        return True

    def return_overdue(self) -> int:
        """Make pods active again whose start etcd has not confirmed in time; how many.

        A start may have joined a run that was just ending, and nobody would ever tell. They go behind pods of equal
        priority: as many as may be in flight, held by a Permit plugin for long, would keep all others out.
        """
        now = self._clock()
        late = self.in_flight.overdue(now)
        for entry in late:
            entry.arrival = now
            self._move(entry, Part.ACTIVE, "unconfirmed")
        return len(late)

    def due_restarts(self, limit: int) -> list[Entry]:
        """At most `limit` waiting pods whose slow, eternal repetition of the start is due."""
        now = self._clock()
        return self.waiting.due_restarts(now, now + self._next_restart(), limit)

    # --- transitions ------------------------------------------------------------------------------

    def _put_new(self, pod: Pod, refusal: Refusal | None, gate: str, cause: str, not_before: float) -> Entry:
        part = Part.GATED if gate else Part.WAITING if refusal is not None else Part.ACTIVE
        now = self._clock()
        entry = Entry(
            pod=pod,
            since=now,
            arrival=now,
            part=part,
            cause=cause,
            refusal=refusal,
            not_before=not_before,
            gate=gate,
        )
        self._entries[pod.key] = entry
        # Taken over with a record: the chain is started again soon, whoever holds it.
        self._enter(entry, part, cause, restart_at=not_before)
        return entry

    def _update(self, entry: Entry, pod: Pod, refusal: Refusal | None, gate: str) -> None:
        known, old = entry.record_revision, entry.pod
        entry.refusal, entry.gate = refusal, gate
        if gate or entry.part is Part.GATED:
            entry.pod = pod
            if not gate:
                self._move(entry, Part.ACTIVE if refusal is None else Part.WAITING, "gates gone")
            elif entry.part is not Part.GATED:
                self._move(entry, Part.GATED, "gated")
            return
        newer = refusal is not None and refusal.record_revision > known
        if newer:
            entry.pod = pod
            self._move(entry, Part.WAITING, "refused")
        elif entry.part is Part.WAITING and refusal is None:
            entry.pod = pod
            self._move(entry, Part.ACTIVE, "record gone")
        else:
            entry.pod = pod
            if pod != old:
                self._refresh(entry)

    def _refresh(self, entry: Entry) -> None:
        """The pod itself changed: its place within its part may have, too."""
        if entry.part is Part.ACTIVE:
            self.active.add(entry, self._clock())
        elif entry.part is Part.WAITING:
            self.waiting.candidates.add(entry)

    def _move(self, entry: Entry, part: Part, cause: str) -> None:
        self._leave(entry)
        self._enter(entry, part, cause, restart_at=self._clock() + self._next_restart())

    def _leave(self, entry: Entry) -> None:
        match entry.part:
            case Part.GATED:
                self.gated.discard(entry.key)
            case Part.ACTIVE:
                self.active.discard(entry.key)
            case Part.IN_FLIGHT:
                self.in_flight.discard(entry.key)
            case Part.WAITING:
                self.waiting.discard(entry.key)

    def _enter(self, entry: Entry, part: Part, cause: str, *, restart_at: float) -> None:
        match part:
            case Part.GATED:
                self.gated.add(entry)
            case Part.ACTIVE:
                self.active.add(entry, self._clock())
            case Part.IN_FLIGHT:
                self.in_flight.add(entry)
            case Part.WAITING:
                self.waiting.add(entry, restart_at)
        if part is not Part.IN_FLIGHT:
            entry.cause = cause
        self._arrive(entry, part, cause)

    def _arrive(self, entry: Entry, part: Part, cause: str) -> None:
        entry.part = part
        self._entered(entry, cause)

    def _next_restart(self) -> float:
        """Seconds to the next repetition, spread so that a herd of pods does not stay one."""
        return self._restart_every * (0.5 + self._spread())
