"""Reads recorded runs from Temporal: which there are in a span of time, and each one's history once, some at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from wharfinger.errors import ServerError
from wharfinger.process.names import SCHEDULE_ATTEMPT, SCHEDULE_COHORT, quoted
from wharfinger.process.temporal_plugins import decode
from wharfinger.replay.memory_limit import UNLIMITED, MemoryLimit
from wharfinger.replay.recorded import DecidedRun
from wharfinger.scheduling.contracts.attempts import AttemptInput
from wharfinger.scheduling.contracts.cohort_scheduling import CohortInput, PlacedMany
from wharfinger.scheduling.contracts.scheduling import Placed, PlaceOutcome, Refused
from wharfinger.scheduling.effects.open_runs import kept
from wharfinger.scheduling.reading.causes import started_with
from wharfinger.scheduling.reading.history import Attempt, read_attempt

CONCURRENT = 24
"""Histories that are fetched at a time, at most."""
AHEAD = 256
"""Runs that are listed before their histories are fetched."""
UNKNOWN = 64 << 10
"""Bytes of a history of which Temporal does not tell the size: its run goes on."""

_ENDS = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    }
)
_OUTCOME: TypeAdapter[PlaceOutcome] = TypeAdapter(PlaceOutcome)


class RunName(NamedTuple):
    """Which run of which workflow."""

    workflow_id: str
    run_id: str


class UnreadRun(NamedTuple):
    """A run of which no decision is known."""

    name: RunName
    lack: Literal["undecided", "gone", "unreadable"]
    """It goes on and has not decided yet; retention has taken its history; this release does not understand it."""
    why: str = ""


def span_query(cluster: str, since: datetime, until: datetime | None) -> str:
    """A visibility query for the runs of attempts and cohorts that began in the span."""
    began = f"StartTime >= {quoted(_text(since))}" + (f" AND StartTime < {quoted(_text(until))}" if until else "")
    types = f"WorkflowType IN ({quoted(SCHEDULE_ATTEMPT)}, {quoted(SCHEDULE_COHORT)})"
    return f"{types} AND WorkflowId STARTS_WITH {quoted(f'{cluster}/')} AND {began}"


async def read_runs(
    client: Client,
    query: str,
    *,
    memory: MemoryLimit = UNLIMITED,
    more: Iterable[RunName] = (),
    known: Callable[[RunName], bool] = lambda _name: False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> AsyncIterator[DecidedRun | UnreadRun]:
    """The runs that the query finds and that decided, or may have, in no order. Raises `ServerError`.

    `more`: runs beside those. Runs that are `known` are left out, unread. At a time, as many histories are fetched, or
    wait to be taken, as there is room for under the limit of memory.
    """
    queue: asyncio.Queue[tuple[RunName, int] | None] = asyncio.Queue(AHEAD)
    found: asyncio.Queue[tuple[DecidedRun | UnreadRun, int] | None] = asyncio.Queue(AHEAD)
    room = BytesAtOnce(memory.histories)
    listed = done = 0

    async def listing() -> None:
        nonlocal listed
        first = set(more)
        for name in first:
            listed += 1
            await queue.put((name, UNKNOWN))
        async for run in client.list_workflows(query, page_size=1000):
            name = RunName(run.id, run.run_id)
            if name not in first and not known(name):
                listed += 1
                await queue.put((name, run.raw_info.history_size_bytes or UNKNOWN))
        for _ in range(CONCURRENT):
            await queue.put(None)

    async def fetching() -> None:
        nonlocal done
        while (named := await queue.get()) is not None:
            name, size = named
            await room.enter(size)
            run = await _fetched(client, name)
            if run is not None:
                await found.put((run, size))
            else:
                room.leave(size)
            done += 1
            progress(done, listed)

    async def everything() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(listing())
                for _ in range(CONCURRENT):
                    group.create_task(fetching())
        finally:
            await found.put(None)

    work = asyncio.create_task(everything())
    try:
        while (one := await found.get()) is not None:
            run, size = one
            yield run
            room.leave(size)
        await work
    except* RPCError as errors:
        first = errors.exceptions[0]  # of the group of tasks
        raise ServerError(f"Temporal did not return the recorded decisions: {first}") from first
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


class BytesAtOnce:
    """For so many bytes at a time. Whoever waits enters in turn; what is larger than all of it enters alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._free = most
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, size: int) -> None:
        """Wait until there is room."""
        size = min(size, self._most)
        if not self._waiting and size <= self._free:
            self._free -= size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        await turn

    def leave(self, size: int) -> None:
        """Make room for others."""
        self._free += min(size, self._most)
        while self._waiting and self._waiting[0][0] <= self._free:
            waiting, turn = self._waiting.popleft()
            if not turn.done():
                self._free -= waiting
                turn.set_result(None)


async def _fetched(client: Client, name: RunName) -> DecidedRun | UnreadRun | None:
    """What a run decided; None for one that ended without a decision."""
    history = await kept(client.get_workflow_handle(name.workflow_id, run_id=name.run_id).fetch_history())
    if history is None:
        return UnreadRun(name, "gone", "Temporal has its history no more")
    try:
        await decode(client, history.events, f"run {name.run_id}")
    except ServerError as error:
        return UnreadRun(name, "unreadable", str(error))
    found = recorded_run(name, history.events)
    if found is None and goes_on(history.events):
        return UnreadRun(name, "undecided")
    return found


def goes_on(events: Sequence[HistoryEvent]) -> bool:
    """Whether a run with this history has not ended."""
    return not events or events[-1].event_type not in _ENDS


def recorded_run(name: RunName, events: Sequence[HistoryEvent]) -> DecidedRun | UnreadRun | None:
    """What a run's history records; None for a run that decided nothing."""
    try:
        attempt = read_attempt(*name, events)
        if attempt is None:
            return None
        if not attempt.placement:  # a cohort's answer has no kind, but tells of a pod
            damaged = any(step.name == "place" and not step.detail for step in attempt.steps)
            return UnreadRun(name, "unreadable", "its decision is no JSON object") if damaged else None
        start = events[0]
        if start.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            return None
        started = start.workflow_execution_started_event_attributes
        alone = started.workflow_type.name == SCHEDULE_ATTEMPT
        decided = (_alone if alone else _together)(attempt, started_with(start))
        if decided is None:
            return None
        return DecidedRun(
            workflow_id=name.workflow_id,
            run_id=name.run_id,
            tenant=started.task_queue.name.rpartition("/")[2],
            attempt=attempt.attempt,
            started=attempt.started.timestamp(),
            **decided,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return UnreadRun(name, "unreadable", f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def _alone(attempt: Attempt, given: Any) -> dict[str, Any] | None:
    """The fields of a lone pod's run; None where it decided nothing."""
    outcome = _OUTCOME.validate_python(attempt.placement)
    if not isinstance(outcome, Placed | Refused):
        return None
    pod = AttemptInput.model_validate(given)
    named = {"kind": "lone", "namespace": pod.namespace, "name": pod.name}
    return {**named, "lone": outcome, "answers": attempt.answers}


def _together(attempt: Attempt, given: Any) -> dict[str, Any] | None:
    """The same of a cohort's, or a gang's."""
    many = PlacedMany.model_validate(attempt.placement)
    if not many.stretches:
        return None
    cohort = CohortInput.model_validate(given)
    gang = cohort.gang
    named = {"kind": "gang", "namespace": gang.namespace, "name": gang.name} if gang is not None else {"kind": "cohort"}
    return {**named, "many": many, "pods": cohort.pods}


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
