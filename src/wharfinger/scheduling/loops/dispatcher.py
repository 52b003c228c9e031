"""Starts attempts: pops the queue in order, in groups, and never waits for results.

Etcd's watch shows the outcome of an attempt. `active_queue.Window` decides when the next group starts; it counts until
etcd has told of all its pods, and a Kubernetes API has answered their binds. Pods that are never placed with others,
gangs and chains count in no group and have bounds of their own. Starts are level-triggered: one that etcd does not
confirm in time is repeated, and so, slowly and for ever, is that of every waiting pod; a repeated start joins the open
chain and adds nothing to it. During an outage of Temporal each start is tried again (`loops.starts`), for the client
gives up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

from wharfinger.process.names import MOST_LISTED
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.loops.cohorts import CohortNames, InputBudget
from wharfinger.scheduling.loops.run_ends import OverdueRuns, blames_pods
from wharfinger.scheduling.loops.signals import Attempts
from wharfinger.scheduling.loops.starts import Pace, Starts
from wharfinger.scheduling.state.pool import Pool
from wharfinger.scheduling.state.queue.active_queue import IN_GROUPS, ONE_BY_ONE, Lane
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.settings import DispatchSettings

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between looks for overdue, held and due pods, while there are any."""
RESTARTS = 8
"""Repeated starts of waiting pods at a time: they must not be in the way of new pods."""
CHAINS = 16
"""Starts of chains for urgent pods without one that no record has confirmed: neither must they."""

GANGS = 8
"""Gangs started of whose members etcd has not told; more only contend with each other."""


class Dispatcher:
    """The loop between the queue and Temporal."""

    def __init__(
        self,
        process: ProcessParts,
        pool: Pool,
        queue: SchedulingQueue,
        attempts: Attempts,
        settings: DispatchSettings,
    ) -> None:
        self._queue = queue
        self._attempts = attempts
        self._clock = process.clock
        self._paused: Callable[[], bool] = lambda: False
        self._names = CohortNames(process.rng)
        self._kicked = asyncio.Event()
        self._serving = False
        self._warned: set[tuple[object, ...]] = set()
        self._pace = Pace(settings.in_flight, process.clock)
        process.metrics.in_flight_limit.set_function(lambda: self._pace.most)
        process.metrics.groups_in_flight.set_function(lambda: len(queue.window))
        most = settings.concurrent_starts
        self._starts = Starts(process, pool, queue, attempts, at_a_time=most, pace=self._pace, done=self.kick)
        self._overdue = OverdueRuns(attempts.failure_of, self.run_failed, process.pause)
        self.configure(settings)

    def kick(self) -> None:
        """There may be something to do."""
        self._kicked.set()

    def serve(self, serving: bool) -> None:
        """Start pods from now on, or none (while this worker is withdrawn)."""
        self._serving = serving
        self.kick()

    def pause_while(self, paused: Callable[[], bool]) -> None:
        """Place nothing, whoever's the pods are, while this says so."""
        self._paused = paused

    def configure(self, settings: DispatchSettings) -> None:
        """Go by these from now on, but for `concurrent_starts`; what was started stays started."""
        self._settings = settings
        most = min(settings.cohort_most, MOST_LISTED)  # Temporal finds each of them by name
        if settings.cohort_most > MOST_LISTED and self._is_new("cohort_most", settings.cohort_most):
            log.warning("cohorts_capped cohort_most=%d effect=%d", settings.cohort_most, MOST_LISTED)
        for name, value in (("cohort_from", settings.cohort_from), ("completing", settings.completing)):
            if value is not None and self._is_new(name):
                log.warning("setting_without_effect name=%s reason=groups_take_what_has_arrived", name)
        self._queue.window.configure(most, settings.cohorts_in_flight)
        # With cohorts off, those that were woken before still go so: nothing else places them.
        self._grouped = IN_GROUPS if settings.cohorts else (Lane.TOGETHER,)
        self._single = (Lane.ALONE,) if settings.cohorts else ONE_BY_ONE
        self.kick()

    def _is_new(self, *warning: object) -> bool:
        """Whether it was not logged before; it counts as logged from now on."""
        new = warning not in self._warned
        self._warned.add(warning)
        return new

    @property
    def busy(self) -> bool:
        """Whether there is a flood that what can wait must not be in the way of."""
        return len(self._queue.window) > 1 or self._queue.ready() >= self._settings.cohort_most

    @property
    def together(self) -> bool:
        """Whether pods are placed in groups."""
        return self._settings.cohorts

    @property
    def quiet(self) -> bool:
        """Whether no group counts, and no pod is ready for one."""
        return not len(self._queue.window) and not self._queue.ready()

    def run_failed(self, workflow_id: str, failure: BaseException) -> None:
        """The run failed: its pods do not have to wait until they are overdue."""
        for group, members in self._queue.in_flight.groups.items():
            entry = next(iter(members.values()))
            if workflow_id == (
                self._attempts.cohort_workflow_id(group) if entry.cohort else self._attempts.workflow_id(entry.pod)
            ):
                effect = "pods_return" if entry.cohort else "counts_no_more"
                pods = self._queue.run_failed(group, blamed=blames_pods(failure))
                log.warning("group_failed effect=%s workflow=%s pods=%d", effect, workflow_id, pods)
                self.kick()
                return

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                if self._serving and not self._paused():
                    self._step()
                await self._next_kick()
        finally:
            self._starts.stop()
            self._overdue.follow(())

    def _step(self) -> None:
        late = self._queue.return_overdue()
        if late:
            log.warning("attempts_unconfirmed effect=started_again pods=%d", late)
        self._start_gangs()
        self._start_groups()
        self._start_one_by_one()
        self._start_gangs()  # again: a gang waits for the pods before its first member, and those have been popped now
        self._restart()
        self._start_chains()
        self._overdue.follow(self._overdue_cohorts())

    def _overdue_cohorts(self) -> Iterator[str]:
        """The runs of accepted groups that take longer than usual; a lone pod's chain goes on when its run fails."""
        for group in self._queue.window.overdue(self._clock()):
            entry = next(iter(self._queue.in_flight.groups[group].values()))
            if entry.cohort and entry.started_at is not None:
                yield self._attempts.cohort_workflow_id(group)

    def _restart(self) -> None:
        """The slow, eternal repetition: a call for each parked chain; those without one go into the next group."""
        ready = self._queue.ready()
        for entry in self._queue.due_restarts(RESTARTS - self._starts.restarting):
            self._starts.restart(entry)
        if self._queue.ready() > ready:
            self.kick()

    def _start_gangs(self) -> None:
        """Those whose turn it is: a gang goes as its first member does, after all pods that go before that one."""
        while self._starts.room and self._queue.in_flight.gangs < GANGS:
            members = self._queue.pop_gang()
            if not members:
                break
            self._starts.gang(members)

    def _start_groups(self) -> None:
        window, limit = self._queue.window, self._settings.parked_chains
        while self._starts.room and window.may_start(self._queue.ready(self._grouped), self._clock()):
            members = self._queue.pop_group(
                self._names.fresh(),
                window.size,
                InputBudget().fits,
                self._grouped,
                may_park=self._queue.waiting.chains < limit,
            )
            if not members:
                break
            self._starts.group(members, self._names)

    def _start_one_by_one(self) -> None:
        while self._room():
            entry = self._queue.pop(self._single)
            if entry is None:
                break
            self._pace.asked()
            self._starts.attempt(entry)

    def _start_chains(self) -> None:
        urgent = self._queue.waiting.urgent
        while self._starts.room and urgent.unconfirmed < CHAINS and self._pace.allows(self._queue.under_way):
            entry = self._queue.due_chain()
            if entry is None:
                break
            self._pace.asked()
            self._starts.chain(entry)

    def _room(self) -> bool:
        return (
            self._starts.room
            and self._queue.in_flight.alone < self._settings.in_flight
            and self._pace.allows(self._queue.under_way)
        )

    async def _next_kick(self) -> None:
        idle = not (self._serving and len(self._queue))
        wait = None if idle else max(0.0, min([TICK, *(at - self._clock() for at in self._due())]))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._kicked.wait()
        self._kicked.clear()

    def _due(self) -> Iterator[float]:
        """When there is something to do that no event announces, in clock seconds."""
        if self._paused() or not self._starts.room:
            return  # what is due by then stays where it is: waiting for that would be a busy loop
        for at in (
            self._queue.active.next_due(),
            self._queue.window.overdue_at() if self._queue.ready(self._grouped) else None,
        ):
            if at is not None:
                yield at
