"""Temporal in memory: chains of runs, their tasks, and everything that may go wrong on the way.

A chain is an open workflow id: a run, or the back-off before the next one. Its tasks go to workers that poll. A worker
that dies keeps its tasks until they time out; a server that stands still or is away keeps its state, and nothing goes
on. Answers are lost, activities are carried out twice, or late, when another try has long begun.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Protocol

from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    RetryState,
    TerminatedError,
    TimeoutError,
    TimeoutType,
)
from temporalio.service import RPCError, RPCStatusCode

from tests.scheduling.lives.loop import VirtualLoop
from tests.scheduling.lives.sdk import RunningWorkflow
from tests.scheduling.lives.weather import Troubles
from wharfinger.scheduling.contracts.attempts import backoff
from wharfinger.workflows.schedule_attempt import ScheduleAttempt
from wharfinger.workflows.schedule_cohort import ScheduleCohort

TASK_TIMEOUT = 3.0
"""Seconds that a worker that died keeps a task of a workflow."""
RPC_TIMEOUT = 5.0
"""Seconds after which a client gives up a call."""
LONGEST_FAULT = 60.0
"""Seconds: after so much trouble in one activity, it goes well."""


CALM = Troubles()


class Worker(Protocol):
    """Whoever polls."""

    name: str
    alive: bool
    context: contextvars.Context

    async def carry_out(self, activity: str, request: Any) -> Any:
        """Carry out an activity."""

    def ended(self, workflow_id: str, failure: BaseException | None) -> None:
        """A run has ended whose last task this worker had."""


@dataclass(eq=False)
class Chain:
    """An open workflow id."""

    workflow_id: str
    kind: str
    request: Any
    retry: RetryPolicy
    pods: tuple[str, ...]
    """Names, for the story."""
    uids: tuple[str, ...]
    """Of the same pods; none for a gang, whose members are looked up."""
    by: str
    """The worker that started it."""
    worker: Worker | None
    """Who has its tasks."""
    run: RunningWorkflow = field(init=False)
    attempt: int = 0
    began: float = 0.0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    failure: BaseException | None = None
    """Of its last run, once it has ended."""


class TemporalServer:
    """The server. Whatever it does runs in the world's own tasks, never in a worker's."""

    def __init__(self, loop: VirtualLoop, rng: Random, tell: Callable[..., None]) -> None:
        """`tell` takes the words of one line of the story."""
        self._loop = loop
        self._rng = rng
        self._tell = tell
        self._context = contextvars.copy_context()
        self.troubles = CALM
        self.started: Callable[[Chain], None] = lambda _: None
        """Called with each chain before it is opened."""
        self.failed: Callable[[Chain], None] = lambda _: None
        """Called with each chain that has ended in a failure."""
        self.polling: dict[str, Worker] = {}
        """By name."""
        self.open: dict[str, Chain] = {}
        self.accepted: dict[str, Chain] = {}
        """The last chain of each workflow id that ever was."""
        self._runs = count(1)
        self._awake = asyncio.Event()
        self._awake.set()
        self._away = False
        self._polls = asyncio.Event()

    # --- what the world does to it ----------------------------------------------------------------

    def stop(self, *, away: bool) -> None:
        """Stand still: calls hang; or be away: they fail at once."""
        self._tell("Temporal", "dies" if away else "stands still")
        self._awake.clear()
        self._away = away

    def go_on(self) -> None:
        """Go on, with all that was known."""
        self._tell("Temporal", "goes on")
        self._away = False
        self._awake.set()

    @property
    def stopped(self) -> bool:
        """Whether nothing goes on."""
        return not self._awake.is_set()

    def poll(self, worker: Worker, polls: bool) -> None:
        """A worker begins to poll, or ends."""
        if polls:
            self.polling[worker.name] = worker
            self._polls.set()
        else:
            self.polling.pop(worker.name, None)

    # --- what clients call ------------------------------------------------------------------------

    async def call(self, what: str, effect: Callable[[], Any]) -> Any:
        """One call of a client: `effect` happens on the server. Raises `RPCError`, having happened or not."""
        began = self._loop.now
        await self._travel()
        if self._away:
            raise RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")
        fate = self._rng.random()
        if fate < self.troubles.request_lost:
            return await self._no_answer(began, what, "is lost")
        if self.stopped:
            late = self._rng.random() < 0.5  # the server has the request, and looks at it when it goes on
            try:
                async with asyncio.timeout(RPC_TIMEOUT):
                    await self._awake.wait()
            except builtin_timeout:
                if late:
                    self._spawn(self._later(effect))
                raise RPCError("deadline exceeded", RPCStatusCode.DEADLINE_EXCEEDED, b"") from None
        answer = effect()
        if fate < self.troubles.request_lost + self.troubles.answer_lost:
            return await self._no_answer(began, what, "is accepted, its answer lost")
        await self._travel()
        return answer

    async def end_of(self, workflow_id: str) -> BaseException | None:
        """Wait for the end of a chain; what it failed with. Raises `RPCError`."""
        await self.probe()
        chain = self.accepted.get(workflow_id)
        if chain is None:
            raise RPCError("it never ran", RPCStatusCode.NOT_FOUND, b"")
        await chain.ended.wait()
        await self._awake.wait()
        return chain.failure

    async def probe(self) -> None:
        """Answer whether it is there. Raises `RPCError`."""
        if self._away:
            raise RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")
        await self._awake.wait()

    async def _no_answer(self, began: float, what: str, became: str) -> Any:
        self._tell("Temporal", what, became)
        hangs = self._rng.random() < 0.5
        await asyncio.sleep(RPC_TIMEOUT if hangs else 0.05)
        status = RPCStatusCode.DEADLINE_EXCEEDED if hangs else RPCStatusCode.UNAVAILABLE
        raise RPCError(f"no answer to {what}", status, b"")

    async def _later(self, effect: Callable[[], Any]) -> None:
        await self._awake.wait()
        try:
            effect()
        except RPCError:
            return  # nobody waits for the answer

    def start(self, chain: Chain, *, join: bool) -> None:
        """Start a workflow; `join`: where one of that id is open, that is as good."""
        if chain.workflow_id in self.open:
            if join:
                return
            raise RPCError("it runs", RPCStatusCode.ALREADY_EXISTS, b"")
        if not join and chain.workflow_id in self.accepted:
            raise RPCError("it ran", RPCStatusCode.ALREADY_EXISTS, b"")
        self.started(chain)
        self.accepted[chain.workflow_id] = chain
        self.open[chain.workflow_id] = chain
        chain.began = self._loop.now
        self._tell(chain.by, "starts", chain.kind, *chain.pods)
        self._next_run(chain, None)
        self._spawn(self._live(chain))

    def signal(self, workflow_id: str, name: str, argument: Any) -> bool:
        """Signal the open run; whether there is one."""
        chain = self.open.get(workflow_id)
        if chain is None:
            return False
        self._tell("Temporal", "signals", workflow_id.rpartition("/")[0] or workflow_id, argument.event)
        self._spawn(self._deliver(chain, name, argument))
        return True

    async def _deliver(self, chain: Chain, name: str, argument: Any) -> None:
        await self._awake.wait()
        chain.run.signal(name, argument)

    # --- the life of a chain ----------------------------------------------------------------------

    def _next_run(self, chain: Chain, failure: BaseException | None) -> None:
        chain.attempt += 1
        chain.run = RunningWorkflow(
            self,
            ScheduleAttempt() if chain.kind == "attempt" else ScheduleCohort(),
            workflow_id=chain.workflow_id,
            run_id=f"run-{next(self._runs)}",
            attempt=chain.attempt,
            retry=chain.retry,
            last_failure=failure,
            rng=Random(self._rng.getrandbits(32)),
        )
        chain.run.chain = chain  # type: ignore[attr-defined]

    def _close(self, chain: Chain, failure: BaseException | None) -> None:
        del self.open[chain.workflow_id]
        chain.failure = failure
        chain.ended.set()
        if failure is not None:
            self.failed(chain)

    async def _live(self, chain: Chain) -> None:
        await self._travel()
        if self._rng.random() < self.troubles.terminated:
            self._tell("operator", "terminates", chain.kind, *chain.pods)
            self._close(chain, TerminatedError("terminated"))
            return
        while True:
            failure: ApplicationError | None = None
            try:
                result = await chain.run.execute(chain.request)
            except ApplicationError as error:
                failure = error
            except Exception as error:  # the SDK would repeat the task for ever
                self._loop.call_exception_handler({"message": "a workflow's task fails", "exception": error})
                failure = ApplicationError(repr(error), type="Bug", non_retryable=True)
            await self._awake.wait()
            if failure is None:
                self._tell(chain.kind, *chain.pods, "ends:", result.outcome)
            else:
                self._tell(chain.kind, *chain.pods, "fails:", failure.type, failure.message[:70])
            if failure is None or not self._goes_on(chain, failure):
                self._close(chain, failure)
            if chain.worker is not None and chain.worker.alive:
                chain.worker.context.run(chain.worker.ended, chain.workflow_id, failure)
            if failure is None or chain.workflow_id not in self.open:
                return
            delay = backoff(chain.retry, chain.attempt)
            if failure.next_retry_delay is not None:
                delay = failure.next_retry_delay.total_seconds()
            self._next_run(chain, failure)
            await asyncio.sleep(delay)
            await self._awake.wait()

    @staticmethod
    def _goes_on(chain: Chain, failure: ApplicationError) -> bool:
        retry = chain.retry
        ended = failure.non_retryable or failure.type in (retry.non_retryable_error_types or ())
        return not ended and (retry.maximum_attempts == 0 or chain.attempt < retry.maximum_attempts)

    # --- activities -------------------------------------------------------------------------------

    async def local(self, run: Any, name: str, request: Any, timeout: float) -> Any:
        """A local activity: within a task of the workflow, which another worker repeats if this one dies."""
        chain: Chain = run.chain
        while True:
            worker = await self._worker_for(chain)
            outcome = await self._on(worker, name, request, timeout)
            await self._awake.wait()
            if outcome is LOST or self._rng.random() < self.troubles.twice:
                self._tell("Temporal", "task of", *chain.pods, "timed out on", worker.name)
                chain.worker = None
                await asyncio.sleep(TASK_TIMEOUT)
                continue
            if outcome is LATE:
                raise _timed_out(name)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

    async def remote(
        self, run: Any, name: str, request: Any, timeout: float, deadline: float, retry: RetryPolicy
    ) -> Any:
        """An ordinary activity, until one try of it ends well."""
        chain: Chain = run.chain
        began, pause = self._loop.now, retry.initial_interval.total_seconds()
        longest = retry.maximum_interval.total_seconds() if retry.maximum_interval is not None else pause * 100
        while True:
            outcome = await self._try(chain, name, request, timeout, began)
            await self._awake.wait()
            if isinstance(outcome, ApplicationError) and outcome.non_retryable:
                raise _wrapped(name, outcome)
            if outcome is not LATE and outcome is not LOST and not isinstance(outcome, ApplicationError):
                return outcome
            if self._loop.now + pause >= deadline:
                raise _timed_out(name)
            await asyncio.sleep(pause)
            await self._awake.wait()
            pause = min(pause * 2, longest)

    async def _try(self, chain: Chain, name: str, request: Any, timeout: float, since: float) -> Any:
        worker = await self._worker_for(chain)
        troubles = self.troubles if self._loop.now - since < LONGEST_FAULT else CALM
        fate = self._rng.random()
        if fate < troubles.late:
            self._tell("Temporal", name, *chain.pods, "will be late on", worker.name)
            self._loop.create_task(self._late(worker, name, request, timeout), context=worker.context)
            await asyncio.sleep(timeout)
            return LATE
        began = self._loop.now
        outcome = await self._on(worker, name, request, timeout)
        if outcome is LOST or troubles.late <= fate < troubles.late + troubles.answer_lost:
            self._tell("Temporal", name, *chain.pods, "has no outcome of", worker.name)
            await asyncio.sleep(max(0.0, began + timeout - self._loop.now))
            return LATE
        if fate >= 1 - troubles.twice:
            self._tell("Temporal", name, *chain.pods, "is repeated after", worker.name)
            return await self._on(await self._worker_for(chain), name, request, timeout)
        return outcome

    async def _late(self, worker: Worker, name: str, request: Any, timeout: float) -> None:
        await asyncio.sleep(timeout + self._rng.uniform(0, 4))
        try:
            await worker.carry_out(name, request)
        except ApplicationError:
            return  # nobody waits for it

    async def _on(self, worker: Worker, name: str, request: Any, timeout: float) -> Any:
        """Carry it out there: the outcome, its failure, `LATE` or `LOST` with the worker."""
        await self._travel()
        if not worker.alive:
            return LOST
        task = self._loop.create_task(worker.carry_out(name, request), context=worker.context)
        await asyncio.wait((task,), timeout=timeout)
        if not task.done():
            return LATE
        if task.cancelled():
            return LOST
        return task.exception() or task.result()

    async def _worker_for(self, chain: Chain) -> Worker:
        """Who gets the next task of a chain: who had the last, while it polls."""
        await self._awake.wait()
        if chain.worker is not None and not chain.worker.alive:
            chain.worker = None
            await asyncio.sleep(TASK_TIMEOUT)  # its tasks are kept for it
        while chain.worker is None or self.polling.get(chain.worker.name) is not chain.worker:
            while not self.polling:
                self._polls.clear()
                await self._polls.wait()
            chain.worker = self._rng.choice(list(self.polling.values()))
        if self._rng.random() < self.troubles.elsewhere:
            return self._rng.choice(list(self.polling.values()))
        return chain.worker

    async def _travel(self) -> None:
        await asyncio.sleep(self.troubles.latency * (0.5 + self._rng.random()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._loop.create_task(work, context=self._context.copy())


builtin_timeout = asyncio.TimeoutError
LATE, LOST = object(), object()
"""Outcomes of a try that nobody has: its time is over, or its worker is dead."""


def _timed_out(name: str) -> ActivityError:
    return _wrapped(
        name, TimeoutError("activity timed out", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[])
    )


def _wrapped(name: str, cause: BaseException) -> ActivityError:
    error = ActivityError(
        f"{name} failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="",
        activity_type=name,
        activity_id="1",
        retry_state=RetryState.NON_RETRYABLE_FAILURE,
    )
    error.__cause__ = cause
    return error
