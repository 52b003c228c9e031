"""Wakes waiting pods that fit now, and no others.

::

    event ──hints of the plugins that refused──► candidates ──decision on a scratch snapshot──┬──► queue, next group
    record arrived: events since its snapshot ──────► ▲                                       └──► signal
    older than the log, or the sweep ───────────────► ▲

Decisions are coalesced: one a class of equal pods, in priority order, each pod that fits is placed on
the scratch snapshot so that one room wakes one pod. A pod that fits but for what is only expected (pods
assumed or just woken) is decided again soon, for no event would tell that those never came.

A woken pod joins the next group. One that is never placed with others is signalled, and so is a pod with a parked chain
that is the only one in a quiet system.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from wharfinger.errors import PluginError
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.conditions import UNSCHEDULABLE
from wharfinger.objects.model.gang import Gang
from wharfinger.process.following import breathe
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.loops.candidacy import Candidacy, EventLog, events_of
from wharfinger.scheduling.loops.dispatcher import Dispatcher
from wharfinger.scheduling.loops.reservations import Reservations
from wharfinger.scheduling.loops.signals import WakeSignals
from wharfinger.scheduling.loops.waking_gangs import WakingGangs
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.pool import Pool
from wharfinger.scheduling.state.queue.entry import Entry, Reason
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.scheduling.state.queue.waiting import Equals

log = logging.getLogger(__name__)

COALESCE = 0.02
"""Seconds for events to gather before a decision."""
AGAIN = 1.0
"""Seconds until pods are decided again that only expected pods keep out; doubles while nothing changes."""
AGAIN_AT_MOST = 16.0
STRETCH = 0.005
"""Seconds of deciding at a stretch before the loop may run something else."""
RECONFIGURED = "ConfigurationChanged"
"""Stands for the event where other weights or plugin arguments are in force."""
OWN_ATTEMPT = "OwnAttempt"
"""Stands for the event where a pod's chain is woken because a cohort could not do all for it that an attempt can."""


class Waker:
    """The loop from events to signals; a `Subscriber` that only notes, and works in its own task."""

    follows = ("pods", "nodes", "storage", "reclassified", "released")

    def __init__(
        self,
        process: ProcessParts,
        pool: Pool,
        queue: SchedulingQueue,
        *,
        signals: WakeSignals,
        groups: Dispatcher,
        sweep_every: float = 300.0,
    ) -> None:
        """`groups` places woken pods together; `sweep_every`: seconds."""
        self._queue = queue
        self._cache = pool.cache
        self._profiles = pool.profiles
        self._signals = signals
        self._metrics = process.metrics
        self._clock = process.clock
        self._groups = groups
        self._joining: list[tuple[Entry, Reason, int]] = []
        """Woken in this round, to join a group, with the revision of the snapshot that they fit on."""
        self._sweep_every = sweep_every
        self._again_next = AGAIN
        self._log = EventLog()
        self._candidacy = Candidacy(queue, pool.profiles, self._log)
        self._gangs = WakingGangs(queue, pool, process.metrics)
        self._reserved = Reservations(queue, pool.cache, process.clock)
        self._kicked = asyncio.Event()
        self._position = 0
        self._arrived: dict[Entry, None] = {}
        self._again_at: float | None = None
        self._sweep_at = process.clock() + sweep_every
        queue.on_wait(self._arrive)

    # --- synchronous inputs -----------------------------------------------------------------------

    def apply(self, changes: Changes) -> None:
        """Note the events of one revision; a list is no event, but older records are decided once."""
        before = self._log.position
        if changes.listed:
            self._log.begin(changes.revision)
            self._arrived.update(dict.fromkeys(self._queue.waiting))
        else:
            for event in events_of(changes):
                self._log.append(event)
        if not self._queue.waiting:  # a pod that comes to wait looks by itself at the events since its snapshot
            self._position = self._log.position
        elif changes.listed or self._log.position != before:
            self._kicked.set()

    def _arrive(self, entry: Entry) -> None:
        """A pod came to wait (or came back with a newer record)."""
        self._arrived[entry] = None
        self._kicked.set()

    def reconfigured(self) -> None:
        """Others decide now: every waiting pod is worth a decision."""
        self._candidacy.all_waiting(RECONFIGURED)
        self._kicked.set()

    # --- the loop ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._next_round()
            await asyncio.sleep(COALESCE)
            await self.round()

    async def round(self) -> None:
        """Look at what was noted, and decide."""
        self._kicked.clear()
        try:
            await self._gather()
            try:
                await self._decide()
            finally:  # they are reserved already, so no other round would wake them soon
                self._send_joining()
        except Exception:  # one broken round must not end waking
            log.exception("waking_failed effect=left_to_the_next_sweep")

    def has_work(self) -> bool:
        """Whether a round is due."""
        return self._kicked.is_set() or (self._next_due() <= self._clock() and len(self._queue.waiting) > 0)

    async def _next_round(self) -> None:
        while not self.has_work():
            wait = max(0.05, self._next_due() - self._clock()) if self._queue.waiting else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._kicked.wait()

    def _next_due(self) -> float:
        return min(at for at in (self._sweep_at, self._again_at, self._reserved.next_expiry()) if at is not None)

    async def _gather(self) -> None:
        """Turn what was noted into candidates."""
        now = self._clock()
        if now >= self._sweep_at or self._log.missed(self._position):
            self._sweep_at = now + self._sweep_every
            self._candidacy.all_waiting("Sweep")
        if self._again_at is not None and now >= self._again_at:
            self._again_at = None
            self._candidacy.release_deferred()
        arrived, self._arrived = self._arrived, {}
        for entry in arrived:
            self._reserved.release(entry)
            self._call_for(entry)
        began = self._clock()
        for _ in self._candidacy.arrived(arrived):
            began = await breathe(began, self._clock, STRETCH)
        for expired in self._reserved.expire():
            self._candidacy.add(expired, Reason("WakeUnanswered"))
        events = list(self._log.after_position(self._position))
        self._position = self._log.position
        for _ in self._candidacy.events(events):
            began = await breathe(began, self._clock, STRETCH)

    async def _decide(self) -> None:
        """Decide the candidates on one scratch snapshot; wake those that fit."""
        candidates = self._candidacy.take()
        if not candidates:
            return
        scratch = self._reserved.placed_on(self._cache.snapshot())
        # Assumed and woken pods may never come, so what fits only without them is decided again soon.
        expecting = bool(self._cache.assumed()) or len(self._reserved) > 0
        real = self._cache.snapshot(without_assumed=True) if expecting else scratch
        left: dict[Equals, list[tuple[Entry, Reason]]] = {}
        """Those that do not fit now, by class."""
        gangs: dict[Gang, list[tuple[Entry, Reason]]] = {}
        """Those of gangs that do not fit now."""
        began = self._clock()
        for entry, reason in candidates:
            if not self._undecided(entry):
                continue
            if entry.gang is not None:
                if entry.gang not in gangs:
                    scratch, woken = self._decide_gang(entry.gang, reason, scratch)
                    gangs[entry.gang] = [] if woken else [(entry, reason)]
                    began = await breathe(began, self._clock, STRETCH)
                continue
            equals = self._queue.waiting.candidates.equals_of(entry.key)
            if equals in left:
                left[equals].append((entry, reason))
                continue
            node = self._node_for(entry, scratch)
            if node is None:  # other plugins may refuse it now: they have moved it
                left[self._queue.waiting.candidates.equals_of(entry.key)] = [(entry, reason)]
            else:
                scratch = scratch.place(entry.pod, node) if node else scratch
                self._wake(entry, reason, node, scratch.revision)
            began = await breathe(began, self._clock, STRETCH)
        if scratch is not real:
            await self._defer(left.values(), real)
            for gang, members in gangs.items():
                if members and self._gangs.fits(gang, real) is not None:
                    self._candidacy.defer(*members[0])
        self._look_again()

    def _decide_gang(self, gang: Gang, reason: Reason, scratch: Snapshot) -> tuple[Snapshot, bool]:
        """Decide a gang as a whole: its room is kept for all members, and one signal wakes its chain."""
        fits = self._gangs.fits(gang, scratch)
        if fits is None:
            return scratch, False
        members = self._gangs.waiting(gang)
        for entry in members:
            self._reserved.add(entry, fits.nodes.get(entry.key, ""))
        self._again_next = AGAIN
        self._metrics.wakes.labels(reason.event).inc()
        self._signal(members[0], reason, scratch.revision, _newest(members))
        return fits.snapshot, True

    async def _defer(self, left: Iterable[list[tuple[Entry, Reason]]], real: Snapshot) -> None:
        """Decide those again later that would fit without the pods that are only expected."""
        began = self._clock()
        for equals in left:
            if self._node_for(equals[0][0], real) is not None:
                for entry, reason in equals:
                    self._candidacy.defer(entry, reason)
            began = await breathe(began, self._clock, STRETCH)

    def _look_again(self) -> None:
        """Set when deferred pods are decided again: the longer nothing came of it, the later."""
        if not self._candidacy.deferred:
            self._again_at, self._again_next = None, AGAIN
        elif self._again_at is None:
            self._again_at = self._clock() + self._again_next
            self._again_next = min(self._again_next * 2, AGAIN_AT_MOST)

    def _undecided(self, entry: Entry) -> bool:
        return (
            self._queue.waiting.get(entry.key) is entry
            and entry not in self._reserved
            and entry.refusal is not None
            # Chains that failed otherwise retry by themselves; not so those of pods that a cohort left over.
            and (entry.refusal.reason == UNSCHEDULABLE or entry.refusal.urgent)
        )

    def _node_for(self, entry: Entry, snapshot: Snapshot) -> str | None:
        """The node where the pod fits now, None for none; empty: its next attempt can tell, or make room for it."""
        try:
            evaluation = self._profiles[entry.pod.scheduler_name].evaluate(entry.pod, snapshot)
            node = evaluation.node if evaluation.nominated_node is None else ""
            if node is None:  # what helps is no event that concerns those of its record only
                self._queue.waiting.candidates.refused_again(entry.key, evaluation.rejectors)
        except PluginError as error:
            log.warning("waking_undecided pod=%s error=%r", entry.key, str(error))
            node = ""
        self._metrics.wake_decisions.labels("no" if node is None else "yes").inc()
        return node

    def _wake(self, entry: Entry, reason: Reason, node: str, revision: int) -> None:
        self._reserved.add(entry, node)
        self._again_next = AGAIN
        self._metrics.wakes.labels(reason.event).inc()
        if self._groups.together and self._queue.may_join(entry):
            self._joining.append((entry, reason, revision))
        else:
            self._signal(entry, reason, revision, _newest([entry]))

    def _send_joining(self) -> None:
        """Put those into the queue that join the next group."""
        joining, self._joining = self._joining, []
        if len(joining) == 1 and joining[0][0].chained and self._groups.quiet:
            # Its own chain goes on, with its number and its back-off. A group would leave that chain behind, to be
            # ended by one more signal and one more run.
            [(entry, reason, revision)] = joining
            self._signal(entry, reason, revision, _newest([entry]))
            return
        for entry, reason, _ in joining:
            self._queue.wake(entry, reason)
        if joining:
            self._groups.kick()

    def _call_for(self, entry: Entry) -> None:
        """Wake the parked chain of a pod that a cohort left over, if an attempt of its own may help at once."""
        refusal = entry.refusal
        if self._queue.waiting.get(entry.key) is not entry or entry.gang is not None or refusal is None:
            return
        if refusal.urgent and refusal.parked:
            self._reserved.add(entry, "")
            self._metrics.wakes.labels(OWN_ATTEMPT).inc()
            self._signal(entry, Reason(OWN_ATTEMPT), 0, refusal.revision)

    def _signal(self, entry: Entry, reason: Reason, revision: int, known: int) -> None:
        # An attempt that has seen this snapshot's revision already ignores the signal; when nothing has
        # moved since its refusal (a sweep), the signal names no revision and always counts.
        self._signals.send(
            entry,
            Wake(
                revision=revision if revision > known else 0,
                event=reason.event,
                object=reason.object,
                plugin=reason.plugin,
                attempts=entry.refusal.attempt if entry.refusal is not None and entry.gang is None else 0,
            ),
        )


def _newest(entries: Iterable[Entry]) -> int:
    """The revision of the newest snapshot that refused one of them."""
    return max(entry.refusal.revision if entry.refusal is not None else 0 for entry in entries)
