"""Starts attempts: pops the queue in order, a bounded number in flight, and never waits for results.

What became of an attempt is told by etcd's watch. Starts are level-triggered: one that etcd does not
confirm in time is repeated, and so, slowly and for ever, is that of every waiting pod; a repeated
start joins the open chain and adds nothing to it. During an outage of Temporal each start is tried
again here, for the client gives up.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Callable

from wharfinger.control.backoff import delays
from wharfinger.control.signals import Starter
from wharfinger.queue.entry import Entry, Part
from wharfinger.queue.scheduling_queue import SchedulingQueue
from wharfinger.settings import DispatchSettings
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between looks for overdue, held and due pods, while there are any."""
TRIES = 5
"""Of one start, over about a second and a half, before another pod gets its slot."""
LATER = 5.0
"""Seconds until a start that failed that often is tried again."""
RESTARTS = 8
"""Repeated starts of waiting pods at a time: they must not be in the way of new pods."""


class Dispatcher:
    """The loop between the queue and Temporal."""

    def __init__(
        self,
        queue: SchedulingQueue,
        starter: Starter,
        settings: DispatchSettings,
        metrics: Metrics,
        *,
        tenant_label: str,
        clock: Callable[[], float],
        chance: random.Random,
        completing: Callable[[], int] = lambda: 0,
    ) -> None:
        """`completing`: how many runs, besides those in flight, Temporal still has to complete."""
        self._queue = queue
        self._starter = starter
        self._settings = settings
        self._metrics = metrics
        self._tenant_label = tenant_label
        self._clock = clock
        self._chance = chance
        self._completing = completing
        self._kicked = asyncio.Event()
        self._serving = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._starts = asyncio.Semaphore(settings.concurrent_starts)
        self._restarting = 0
        self._failing = False

    def kick(self) -> None:
        """There may be something to do."""
        self._kicked.set()

    def serve(self, serving: bool) -> None:
        """Start pods from now on, or none (while this worker is withdrawn)."""
        self._serving = serving
        self.kick()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                if self._serving:
                    self._step()
                await self._next_kick()
        finally:
            for task in tuple(self._tasks):
                task.cancel()

    def _step(self) -> None:
        late = self._queue.return_overdue()
        if late:
            log.warning("attempts not confirmed by etcd in time, started again pods=%d", late)
        while self._room():
            entry = self._queue.pop()
            if entry is None:
                break
            self._spawn(entry)
        for entry in self._queue.due_restarts(RESTARTS - self._restarting):
            self._restarting += 1
            self._spawn(entry)

    def _room(self) -> bool:
        in_flight = len(self._queue.in_flight)
        return (
            in_flight < self._settings.in_flight
            and in_flight + self._completing() < self._settings.in_flight + self._settings.completing
        )

    async def _next_kick(self) -> None:
        idle = not (self._serving and len(self._queue))
        due = self._queue.active.next_due()
        wait = None if idle else TICK if due is None else max(0.0, min(TICK, due - self._clock()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._kicked.wait()
        self._kicked.clear()

    def _spawn(self, entry: Entry) -> None:
        task = asyncio.create_task(self._start(entry, entry.part))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, entry: Entry, part: Part) -> None:
        """Start one pod; what fails several times makes room for others and is tried again later."""
        try:
            for delay in itertools.islice(delays(0.1, 5.0, self._chance), TRIES):
                async with self._starts:
                    if not self._wanted(entry, part) or await self._accepted(entry, part):
                        return
                await asyncio.sleep(delay)
            self._queue.defer(entry, LATER)
        finally:
            if part is Part.WAITING:
                self._restarting -= 1
            self.kick()

    def _wanted(self, entry: Entry, part: Part) -> bool:
        return self._queue.get(entry.key) is entry and entry.part is part

    async def _accepted(self, entry: Entry, part: Part) -> bool:
        cause = entry.cause if part is Part.IN_FLIGHT else "level"
        try:
            await self._starter.start(entry.pod, cause=cause, check_queue=self._may_sit_elsewhere(entry, part))
        except Exception as error:  # whatever it is, the pod must not fall out
            self._metrics.start_failures.inc()
            if not self._failing:
                self._failing = True
                log.warning("starts fail, trying again pod=%s error=%r", entry.key, str(error))
            return False
        if self._failing:
            self._failing = False
            log.info("starts are accepted again")
        self._metrics.attempt_starts.labels(cause).inc()
        if part is Part.IN_FLIGHT:
            self._queue.started(entry)
        return True

    def _may_sit_elsewhere(self, entry: Entry, part: Part) -> bool:
        """Whether the pod's open chain, if any, may sit on another tenant's task queue.

        Not for a pod just seen, nor for one found unstarted that never had a tenant; any other is
        looked at, so that no chain stays for ever where nobody polls.
        """
        if part is Part.WAITING:
            return True
        if entry.cause == "seen":
            return False
        return entry.cause != "take-over" or entry.refusal is not None or self._tenant_label in entry.pod.labels
