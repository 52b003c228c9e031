"""Starts a pod's attempt, a waiting pod's chain, a group or a gang, and tries again until Temporal accepts it.

Nothing here waits for results. What fails several times goes back to the queue: a group to its head, where one pod at a
time probes; anything else spread, so that a herd that an outage gathered does not come back as one.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from temporalio.service import RPCError, RPCStatusCode

from wharfinger.objects.model.gang import GangKey
from wharfinger.pressure import Call, ConcurrencyLimiter, Slots, delays
from wharfinger.process.names import AFTER_COHORT
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.contracts.cohort_scheduling import Turn
from wharfinger.scheduling.loops.cohorts import CohortNames, cohort_pod
from wharfinger.scheduling.loops.signals import Attempts
from wharfinger.scheduling.state.pool import Pool
from wharfinger.scheduling.state.queue.entry import LEVEL, SEEN, UNCONFIRMED, Entry, Part
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue

PROMPT = 0.5
"""Seconds within which Temporal takes a start when it has room for more; usual are 5 to 300 ms."""
TRICKLE = 1.0
"""Seconds after which one more is started although the bound is reached: only a start shows that Temporal is quick
again."""
LONGEST_TRICKLE = 8.0
"""The same, after starts that were late again and again: it doubles with each."""


class Pace:
    """The bound, adapted to the latency of starts. Lives on one event loop."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        """`most`: attempts in flight while Temporal is quick."""
        self._window = ConcurrencyLimiter(most, least=1, slow=PROMPT)
        self._clock = clock
        self._asked_at = float("-inf")
        self._trickle = TRICKLE

    @property
    def most(self) -> int:
        """How many may be in flight now, beyond the trickle."""
        return self._window.size

    def allows(self, in_flight: int) -> bool:
        """Whether one more may be started beside so many."""
        return in_flight < self.most or self._clock() - self._asked_at >= self._trickle

    def asked(self) -> None:
        """Record that a start is being sent."""
        self._asked_at = self._clock()

    def accepted(self, began: float, in_flight: int) -> None:
        """Record a start, sent at `began`, that Temporal accepted; `in_flight` counts it."""
        now = self._clock()
        self._trickle = TRICKLE if now - began <= PROMPT else self._longer()
        self._window.answered(began, now, used=in_flight)

    def failed(self, began: float) -> None:
        """Record a start, sent at `began`, that Temporal did not answer or did not accept."""
        self._trickle = self._longer()
        self._window.failed(began, self._clock())

    def _longer(self) -> float:
        return min(self._trickle * 2, LONGEST_TRICKLE)


log = logging.getLogger(__name__)

TRIES = 5
"""Of one start, over about a second and a half, before another pod gets its slot."""
LATER = 5.0
"""Seconds within which a start that failed that often is tried again."""


LEAST = 4
"""Calls at a time, however slow Temporal is, and with which it begins again after an outage."""
SLOW = 1.0
"""Seconds after which Temporal's answer is late; usual are 5 to 300 ms."""


class Starts:
    """The starts that are on their way."""

    def __init__(
        self,
        process: ProcessParts,
        pool: Pool,
        queue: SchedulingQueue,
        attempts: Attempts,
        *,
        at_a_time: int,
        pace: Pace,
        done: Callable[[], None],
    ) -> None:
        """`at_a_time`: calls, at most; `pace` learns from them; `done` is called when a start was accepted or given
        up.
        """
        self._progress = pool.cache.progress
        self._queue = queue
        self._attempts = attempts
        self._clock = process.clock
        self._metrics = process.metrics
        self._tenant_label = pool.ownership.tenant_label
        self._rng = process.rng
        self._pause = process.pause
        self._done = done
        self._pace = pace
        self._slots = Slots(ConcurrencyLimiter(at_a_time, least=LEAST, slow=SLOW), process.clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failing = False
        self.restarting = 0
        """Repeated starts of waiting pods that are on their way."""

    def attempt(self, entry: Entry) -> None:
        """Start the attempt of a pod in flight that counts in no group."""
        self._spawn(self._start_pod(entry, Part.IN_FLIGHT))

    def chain(self, entry: Entry) -> None:
        """Start the chain of a waiting pod that has none."""
        self._spawn(self._start_pod(entry, Part.WAITING))

    def restart(self, entry: Entry) -> None:
        """Start a waiting pod's chain again, which adds nothing to it when it is open."""
        self.restarting += 1
        self._spawn(self._restart(entry))

    def group(self, members: Sequence[Entry], names: CohortNames) -> None:
        """Start a group, whose members are in flight: as a cohort where they have its name, else the one pod's attempt.

        `names` gives a cohort its turn.
        """
        self._metrics.cohort_pods.observe(len(members))
        name = members[0].cohort
        self._spawn(self._start_cohort(name, members, names.next_turn(), names) if name else self._start_one(members))

    def gang(self, members: Sequence[Entry]) -> None:
        """Start a gang, whose members are in flight."""
        [gang] = {entry.gang.key for entry in members if entry.gang is not None}
        self._spawn(self._start_gang(members, gang))

    @property
    def room(self) -> bool:
        """Whether Temporal takes more starts at a time than are on their way."""
        # Repeated starts do not count: the dispatcher bounds them, and new pods must not wait for them.
        return len(self._tasks) - self.restarting < self._slots.size

    def stop(self) -> None:
        """Start nothing more."""
        for task in tuple(self._tasks):
            task.cancel()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._done()

    async def _restart(self, entry: Entry) -> None:
        try:
            await self._start_pod(entry, Part.WAITING)
        finally:
            self.restarting -= 1

    async def _start_pod(self, entry: Entry, part: Part) -> None:
        """Start one pod; what fails several times makes room for others and is tried again later."""
        if await self._accepted(entry, part) is None:
            self._queue.started(entry)
        else:
            self._queue.defer(entry, LATER)

    async def _start_one(self, members: Sequence[Entry]) -> None:
        """Start a group of one pod by its own attempt."""
        self._end(members, await self._accepted(members[0], Part.IN_FLIGHT))

    async def _accepted(self, entry: Entry, part: Part) -> Exception | None:
        """Start a pod's own chain; see `_until_accepted`."""
        repeated = self._queue.waiting.urgent.repeated(entry.key)
        cause = entry.cause if part is Part.IN_FLIGHT else UNCONFIRMED if repeated else LEVEL
        return await self._until_accepted(
            wanted=lambda: self._queue.get(entry.key) is entry and entry.part is part,
            start=lambda: self._ask_for(entry, part, cause),
            what=str(entry.key),
            cause=cause,
        )

    def _end(self, members: Sequence[Entry], failure: Exception | None) -> None:
        """Temporal accepted the start of a group, or it failed for good: then none of its members is lost."""
        if failure is not None:
            self._queue.start_failed(members, LATER, blamed=_is_of_the_input(failure))
            return
        self._queue.window.accepted()
        for entry in members:
            self._queue.started(entry)

    async def _ask_for(self, entry: Entry, part: Part, cause: str) -> None:
        check = self._may_sit_elsewhere(entry, part)
        if entry.gang is not None:
            if self._queue.gangs.leads(entry):  # one start for all that wait
                gang, revision = entry.gang.key, self._progress.revision
                members = self._queue.gangs.keys(gang)
                await self._attempts.start_gang(gang, members, revision=revision, cause=cause, check_queue=check)
            return
        await self._attempts.start(
            entry.pod,
            cause=_after_cohort(entry, part) or cause,
            check_queue=check,
            attempts_before=entry.refusal.attempt if entry.refusal is not None else 0,
        )
        if cause == UNCONFIRMED and self._queue.may_be_parked(entry):
            # The start may have joined a chain that is parked, though no record says so.
            await self._attempts.wake(self._attempts.workflow_id(entry.pod), Wake(event="Unconfirmed"))

    async def _start_gang(self, members: Sequence[Entry], gang: GangKey) -> None:
        """Start a gang, or tell its open chain of members that it may not have seen."""
        cause = _causes(members)
        check = any(self._may_sit_elsewhere(entry, Part.IN_FLIGHT) for entry in members)
        in_it = self._in_it(str(gang))

        async def start() -> None:
            revision = max(self._progress.revision, *(entry.pod.mod_revision for entry in members))
            wake = Wake(revision=revision, event="GangMember", object=str(members[0].key))
            known = self._queue.gangs.keys(gang)
            await self._attempts.start_gang(gang, known, revision=revision, cause=cause, check_queue=check, wake=wake)

        failure = await self._until_accepted(
            wanted=lambda: any(map(in_it, members)), start=start, what=f"gang {gang}", cause="gang"
        )
        for entry in filter(in_it, members):
            if failure is None:
                self._queue.started(entry)
            else:
                self._queue.defer(entry, LATER)

    async def _start_cohort(self, name: str, members: Sequence[Entry], turn: Turn, names: CohortNames) -> None:
        in_it = self._in_it(name)

        async def start() -> None:
            pods = [cohort_pod(entry) for entry in members]
            try:
                await self._attempts.start_cohort(name, pods, cause=_causes(members), turn=turn)
            except RPCError as error:
                if error.status is not RPCStatusCode.ALREADY_EXISTS:  # else a call before had succeeded
                    raise

        failure = await self._until_accepted(
            wanted=lambda: any(map(in_it, members)), start=start, what=f"{len(members)} pods", cause="cohort"
        )
        (names.started if failure is None else names.not_started)(turn)
        self._end([*filter(in_it, members)], failure)

    def _in_it(self, name: str) -> Callable[[Entry], bool]:
        def in_it(entry: Entry) -> bool:
            return self._queue.get(entry.key) is entry and entry.part is Part.IN_FLIGHT and entry.cohort == name

        return in_it

    async def _until_accepted(
        self, *, wanted: Callable[[], bool], start: Callable[[], Awaitable[None]], what: str, cause: str
    ) -> Exception | None:
        """Try until Temporal accepts; the last failure when it never does, None as well when it is wanted no more."""
        failure: Exception | None = None
        for delay in itertools.islice(delays(0.1, 5.0, self._rng), TRIES):
            try:
                async with self._slots.slot() as call:
                    if not wanted():  # it waited for a slot, and the pod may be bound or gone by now
                        return None
                    await self._answered(start(), call)
            except Exception as error:  # whatever it is, the pod must not fall out
                failure = error
                self._failed(what, error)
                if _is_of_the_input(error):
                    break
            else:
                self._succeeded(cause)
                return None
            await self._pause(delay)
        return failure

    async def _answered(self, start: Awaitable[None], call: Call) -> None:
        try:
            await start
        except Exception as error:  # what raises is retried by the caller: only the pace is noted here
            call.blameless = _is_of_the_input(error)  # Temporal is not slow because an input is wrong
            if not call.blameless:
                self._pace.failed(call.began)
            raise
        self._metrics.start_seconds.observe(self._clock() - call.began)
        self._pace.accepted(call.began, self._queue.under_way)

    def _failed(self, what: str, error: Exception) -> None:
        self._metrics.start_failures.inc()
        if not self._failing:
            self._failing = True
            log.warning("starts_fail effect=retried what=%s error=%r", what, str(error))

    def _succeeded(self, cause: str) -> None:
        if self._failing:
            self._failing = False
            log.info("starts_accepted_again")
        self._metrics.attempt_starts.labels(cause).inc()

    def _may_sit_elsewhere(self, entry: Entry, part: Part) -> bool:
        """Whether the pod's open chain, if any, may sit on another tenant's task queue.

        Not for a pod just seen, nor for one found unstarted that never had a tenant; any other is
        looked at, so that no chain stays for ever on a queue that no worker polls.
        """
        if part is Part.WAITING:
            return True
        if entry.cause == SEEN:
            return False
        return entry.cause != "take-over" or entry.refusal is not None or self._tenant_label in entry.pod.labels


def _causes(members: Sequence[Entry]) -> str:
    """Why they are started, for the explanation."""
    return ", ".join(sorted({entry.cause for entry in members}))


def _is_of_the_input(failure: Exception) -> bool:
    """Whether what was to be started is at fault, so that trying again does not help."""
    if isinstance(failure, RPCError):
        return failure.status is RPCStatusCode.INVALID_ARGUMENT
    return isinstance(failure, (ValueError, TypeError))


def _after_cohort(entry: Entry, part: Part) -> str:
    """The cause of a chain that follows on a cohort's record, by which the cohort is found again; empty for others."""
    record = entry.refusal
    if part is not Part.WAITING or record is None or record.parked:
        return ""
    return f"{AFTER_COHORT}{record.workflow_id}@{record.run_id}"
