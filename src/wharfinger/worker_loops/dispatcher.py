"""Starts attempts: pops the queue in order, a bounded number in flight, and never waits for results.

Etcd's watch shows the outcome of an attempt. Starts are level-triggered: one that etcd does not
confirm in time is repeated, and so, slowly and for ever, is that of every waiting pod; a repeated
start joins the open chain and adds nothing to it. During an outage of Temporal each start is tried
again (`worker_loops.starts`), for the client gives up. When many pods are ready they are placed by cohorts
(`worker_loops.cohorts`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from wharfinger.engine.parts import ProcessParts
from wharfinger.queue.active import IN_COHORTS
from wharfinger.queue.scheduling_queue import SchedulingQueue
from wharfinger.settings import DispatchSettings
from wharfinger.worker_loops.cohorts import Backlog, Cohort, CohortNames, Forming, InputBudget
from wharfinger.worker_loops.pace import Pace
from wharfinger.worker_loops.signals import Attempts
from wharfinger.worker_loops.starts import Starts

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between looks for overdue, held and due pods, while there are any."""
RESTARTS = 8
"""Repeated starts of waiting pods at a time: they must not be in the way of new pods."""
CHAINS = 16
"""Starts of chains for waiting pods without one that no record has confirmed: neither must they."""

GANGS = 8
"""Gangs started of whose members etcd has not told; more only contend with each other."""


class Dispatcher:
    """The loop between the queue and Temporal."""

    def __init__(
        self,
        process: ProcessParts,
        queue: SchedulingQueue,
        attempts: Attempts,
        settings: DispatchSettings,
        *,
        tenant_label: str,
        completing: Callable[[], int] = lambda: 0,
        seen: Callable[[], int] = lambda: 0,
        paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """`completing`: how many runs, besides those in flight, Temporal still has to complete; `seen`: the revision of
        etcd that is known here; `paused`: whether nothing may be placed now, whoever's the pods are.
        """
        self._queue = queue
        self._settings = settings
        self._clock = process.clock
        self._completing = completing
        self._paused = paused
        self._forming = Forming(settings, lambda ruled: queue.throughput.a_second(ruled=ruled))
        self._names = CohortNames(process.rng)
        self._kicked = asyncio.Event()
        self._serving = False
        self._pace = Pace(settings.in_flight, process.clock)
        process.metrics.in_flight_limit.set_function(lambda: self._pace.most)
        self._starts = Starts(
            process,
            queue,
            attempts,
            at_a_time=settings.concurrent_starts,
            pace=self._pace,
            tenant_label=tenant_label,
            done=self.kick,
            seen=seen,
        )

    def kick(self) -> None:
        """There may be something to do."""
        self._kicked.set()

    def serve(self, serving: bool) -> None:
        """Start pods from now on, or none (while this worker is withdrawn)."""
        self._serving = serving
        self.kick()

    def configure(self, settings: DispatchSettings) -> None:
        """Go by these from now on, but for `concurrent_starts`; what was started stays started."""
        self._settings = settings
        self._forming.configure(settings)
        self.kick()

    @property
    def busy(self) -> bool:
        """Whether there is a backlog that what can wait must not be in the way of."""
        return self._queue.in_flight.cohorts > 0 or self._queue.ready() >= self._settings.cohort_from

    @property
    def cohort_from(self) -> int | None:
        """From how many pods on they are placed by cohorts; None = never."""
        return self._settings.cohort_from if self._settings.cohorts else None

    def most_alone(self) -> int:
        """How many plain pods are left to single attempts at once; more are placed by cohorts."""
        return self._forming.most_alone(ruled=False)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                if self._serving and not self._paused():
                    self._step()
                await self._next_kick()
        finally:
            self._starts.stop()

    def _step(self) -> None:
        late = self._queue.return_overdue()
        if late:
            log.warning("attempts_unconfirmed effect=started_again pods=%d", late)
        self._start_gangs()
        self._form_cohorts()
        self._start_one_by_one()
        self._start_gangs()
        for entry in self._queue.due_restarts(RESTARTS - self._starts.restarting):
            self._starts.restart(entry)
        self._start_chains()

    def _start_gangs(self) -> None:
        """Those whose turn it is: a gang goes as its first member does, after all pods that go before that one."""
        while self._starts.room and self._queue.in_flight.gangs < GANGS:
            members = self._queue.pop_gang()
            if not members:
                break
            self._starts.gang(members)

    def _form_cohorts(self) -> None:
        while self._starts.room and (size := self._forming.size(self._load(), self._clock())):
            name = self._names.fresh()
            members = self._queue.pop_many(name, size, InputBudget().fits)
            if not members:
                break
            self._starts.cohort(Cohort(name, tuple(members), self._names.next_turn()))

    def _start_one_by_one(self) -> None:
        while self._room():
            entry = self._queue.pop(either=self._forming.one_by_one(self._load(), self._clock()))
            if entry is None:
                break
            self._pace.asked()
            self._starts.attempt(entry)

    def _start_chains(self) -> None:
        chainless = self._queue.waiting.chainless
        while self._starts.room and chainless.unconfirmed < CHAINS and self._pace.allows(self._queue.under_way):
            entry = self._queue.due_chain(urgent_only=not self._forming.may_park(self._load()))
            if entry is None:
                break
            self._pace.asked()
            self._starts.chain(entry)

    def _load(self) -> Backlog:
        return Backlog(
            ready=self._queue.ready(),
            ruled=self._queue.active.ready_ruled(IN_COHORTS),
            together=self._queue.ready_together(),
            alone=self._queue.in_flight.alone,
            cohorts=self._queue.in_flight.cohorts,
            chains=self._queue.waiting.chains,
        )

    def _room(self) -> bool:
        alone = self._queue.in_flight.alone
        return (
            self._starts.room
            and alone < self._settings.in_flight
            and alone + self._completing() < self._settings.in_flight + self._settings.completing
            and self._pace.allows(self._queue.under_way)
        )

    async def _next_kick(self) -> None:
        idle = not (self._serving and len(self._queue))
        # Where nothing may be placed, held pods stay held when they are due: waiting for that would be a busy loop.
        held = self._paused() or not self._starts.room
        due = None if held else self._queue.active.next_due()
        wait = None if idle else TICK if due is None else max(0.0, min(TICK, due - self._clock()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._kicked.wait()
        self._kicked.clear()
