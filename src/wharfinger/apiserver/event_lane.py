"""The lane on which events go to the API server: in the background, as well as it can be done.

Events (`events.py`) are for people; nothing waits for them. `say` only puts an event into a bounded queue. What
gathers there for a moment is sent together, because an event by itself costs the server, its etcd and this process
twice as much. While binds wait for their turn, events do, too, for some seconds. Senders retry while the server is
away, and give up. What is not sent is counted.

Warnings that are said again become a series of one event. What succeeded is not said twice, so
other events are not remembered.

A lane belongs to one event loop. All its methods must be called there.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import NamedTuple

from wharfinger.apiserver.client import CONFLICT, EVENTS, NOT_FOUND, ApiAnswer, ApiClient
from wharfinger.apiserver.events import SCHEDULED, WARNING, ApiEvent, RecentEvents, Said, Series, series_patch
from wharfinger.errors import UpstreamError, UpstreamUnavailable

SENDERS = 16
QUEUE = 4000
GATHER = 0.5
"""Seconds in which events gather that are sent together."""
BEHIND_BINDS = 5.0
"""Seconds that events wait while more binds are to be sent than may be on the way, unless half of the queue waits."""
SWEEP_EVERY = 60.0
"""Seconds between two looks at the series."""
TRIES = 5
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
"""Seconds between tries of one event: doubling, each times 0.5 to 1; behind it what the server asks to wait, at most
this long. A queue that fills meanwhile drops events."""

log = logging.getLogger(__name__)


class EventPolicy(StrEnum):
    """Which events are sent (`--events`)."""

    ALL = "all"
    FAILURES = "failures"
    """All but `Scheduled`: no event for each bind, which costs the server more than the bind."""
    NONE = "none"

    def admits(self, event: ApiEvent) -> bool:
        """Whether the event is sent."""
        return self is EventPolicy.ALL or (self is EventPolicy.FAILURES and event.reason != SCHEDULED)


class EventOutcome(StrEnum):
    """What became of an event; the values are labels of a metric."""

    WRITTEN = "written"
    """Created, or found there."""
    COUNTED = "counted"
    """A repeat, which joined a series."""
    QUEUE_FULL = "queue_full"
    UNAVAILABLE = "unavailable"
    """Given up after `TRIES`."""
    REFUSED = "refused"
    """The server does not want it: forbidden, invalid, or the namespace is being deleted."""
    STOPPED = "stopped"
    """Said after `stop`, or not sent by its deadline."""
    FAILED = "failed"
    """A bug: not even sent."""

    @property
    def lost(self) -> bool:
        """Whether people do not see the event."""
        return self not in (EventOutcome.WRITTEN, EventOutcome.COUNTED)


class _Job(NamedTuple):
    series: Series | None
    """To bring up to date in the server; None = not remembered."""
    event: ApiEvent | None
    """To create; in a job that `repeats`, only where the server no longer has the event. None = written anyway."""
    repeats: bool = False


class EventLane:
    """Sends events; never blocks its caller, and never raises into it."""

    def __init__(
        self,
        apiserver: ApiClient,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        policy: EventPolicy = EventPolicy.ALL,
        on_outcome: Callable[[EventOutcome], None] | None = None,
        binds_wait: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        gather: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`clock`: monotonic seconds. `on_outcome` is called once for each event that the policy admits.

        A retry of an attempt that is remembered counts as no event. `binds_wait`: whether binds wait for their turn;
        `sleep` is for the pauses between tries, `gather` for those in which events gather.
        """
        self._apiserver = apiserver
        self._clock = clock
        self._rng = rng
        self._policy = policy
        self._on_outcome = on_outcome
        self._binds_wait = binds_wait
        self._sleep = sleep
        self._pause = gather
        self._queue: asyncio.Queue[_Job] = asyncio.Queue(QUEUE)
        self._some = asyncio.Event()
        """Set by a write that is to be gathered."""
        self._open = asyncio.Event()
        """While it is set, senders take what waits."""
        self._yields = False
        """Whether senders stop as soon as binds wait."""
        self._recent = RecentEvents()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self._lost = 0
        """Events that were lost since the last sweep, for the log."""

    @property
    def waiting(self) -> int:
        """Writes that no sender has taken yet."""
        return self._queue.qsize()

    def start(self) -> None:
        """Begin to send. Events that were said before wait in the queue."""
        self._tasks = [asyncio.create_task(self._send(), name=f"event sender {number}") for number in range(SENDERS)]
        self._tasks.append(asyncio.create_task(self._sweep_often(), name="event series"))
        self._tasks.append(asyncio.create_task(self._gather(), name="event gathering"))

    def say(self, event: ApiEvent) -> None:
        """Send an event some time soon, or count it as a repeat, or drop it."""
        if not self._policy.admits(event):
            return
        if self._stopped:
            self._end(EventOutcome.STOPPED)
            return
        if event.type != WARNING:
            if not self._put(_Job(None, event)):
                self._end(EventOutcome.QUEUE_FULL)
            return
        said, series = self._recent.say(event, self._clock())
        if said is Said.AGAIN:
            self._end(EventOutcome.COUNTED)
            if series.due:
                self._put(_Job(series, event, repeats=True))
        elif said is Said.FIRST and not self._put(_Job(series, event)):
            self._recent.forget(series)
            self._end(EventOutcome.QUEUE_FULL)

    def sweep(self) -> None:
        """Queue the counts of series that are due, and log losses. The lane does so each `SWEEP_EVERY`."""
        for series in self._recent.sweep(self._clock()):
            self._put(_Job(series, None, repeats=True))
        if self._lost:
            log.warning("events_lost count=%d", self._lost)
            self._lost = 0

    async def stop(self, deadline: float) -> None:
        """Send what waits and the counts of series, for at most `deadline` seconds. Idempotent."""
        self._stopped = True
        self._open.set()
        if self._tasks:
            try:
                async with asyncio.timeout(deadline):
                    await self._queue.join()  # first: a create under way may have repeats to write
                    for series in self._recent.close():
                        await self._queue.put(_Job(series, None, repeats=True))
                        self._some.set()
                    await self._queue.join()
            except TimeoutError:
                log.warning("event_lane_stopped effect=events_lost waiting=%d", self.waiting)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        while not self._queue.empty():
            if not self._queue.get_nowait().repeats:
                self._end(EventOutcome.STOPPED)

    def _put(self, job: _Job) -> bool:
        """Whether there was room. A count without room is tried again while its series is open."""
        try:
            self._queue.put_nowait(job)
        except asyncio.QueueFull:
            return False
        self._some.set()
        if job.series is not None:
            job.series.queued = True
        return True

    def _end(self, outcome: EventOutcome) -> None:
        self._lost += outcome.lost
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    async def _sweep_often(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            self.sweep()

    async def _gather(self) -> None:
        """Let senders go at what has gathered."""
        while True:
            await self._some.wait()
            waited = 0.0
            while waited < GATHER or (waited < BEHIND_BINDS and self._binds_wait() and self.waiting < QUEUE // 2):
                if self._stopped:
                    break
                await self._pause(GATHER)
                waited += GATHER
            self._some.clear()
            self._yields = waited < BEHIND_BINDS and self.waiting < QUEUE // 2
            self._open.set()

    async def _send(self) -> None:
        while True:
            await self._open.wait()
            if self._queue.empty():
                self._open.clear()
                continue
            if self._yields and not self._stopped and self._binds_wait():
                self._open.clear()
                self._some.set()
                continue
            job = self._queue.get_nowait()
            try:
                if not job.repeats:
                    await self._say_first(job)
                if job.series is not None and job.series.behind:
                    await self._say_again(job.series, job.event)
            except Exception:  # a sender must survive whatever one event does
                log.exception("event_failed")
            finally:
                if job.series is not None:
                    job.series.queued = False
                self._queue.task_done()

    async def _say_first(self, job: _Job) -> None:
        assert job.event is not None, "only a repeat may come without its event"
        outcome = EventOutcome.FAILED
        try:
            outcome = await self._create(job.event)
        except asyncio.CancelledError:
            outcome = EventOutcome.STOPPED
            raise
        finally:
            self._end(outcome)
            if job.series is not None:
                if outcome is EventOutcome.WRITTEN:
                    job.series.tell(1, self._clock())
                else:
                    self._recent.forget(job.series)

    async def _say_again(self, series: Series, event: ApiEvent | None) -> None:
        """Write the count of a series. Where the server no longer has the event, create it as the repeat says it."""
        count, patch = series.count, series_patch(series.count, series.last)
        answer = await self._ask(lambda: self._apiserver.patch(EVENTS, series.name, patch, namespace=series.namespace))
        if answer is None:
            return  # the next repeat, or a sweep, tries again
        written = answer.done
        if answer.code == NOT_FOUND and event is not None and event.name != series.name:
            written = await self._create(event, count) is EventOutcome.WRITTEN
            series.name = event.name
        if written:
            series.tell(count, self._clock())
        else:
            log.debug("event_series_ended event=%s code=%d message=%r", series.name, answer.code, answer.message)
            self._recent.forget(series)

    async def _create(self, event: ApiEvent, count: int = 1) -> EventOutcome:
        body = event.body(count)
        answer = await self._ask(lambda: self._apiserver.create(EVENTS, body, namespace=event.namespace))
        if answer is None:
            return EventOutcome.UNAVAILABLE
        if answer.done or answer.code == CONFLICT:  # an earlier try, here or on another worker, created it
            return EventOutcome.WRITTEN
        log.debug("event_refused event=%s code=%d message=%r", event.name, answer.code, answer.message)
        return EventOutcome.REFUSED

    async def _ask(self, request: Callable[[], Awaitable[ApiAnswer]]) -> ApiAnswer | None:
        """The server's answer; None after `TRIES` without one."""
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            try:
                return await request()
            except UpstreamError as error:
                log.debug("event_not_sent tries_left=%d error=%r", left, str(error))
                asked = error.retry_after if isinstance(error, UpstreamUnavailable) else None
            if left:
                await self._sleep(min(asked or 0.0, LONGEST_PAUSE) + pause * (0.5 + self._rng.random() / 2))
                pause = min(pause * 2, LONGEST_PAUSE)
        return None
