"""Reads recorded runs from Temporal: which there are in a span of time, and each one's history once, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime

from pydantic import TypeAdapter, ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.contracts.attempts import AttemptInput
from wharfinger.contracts.cohort_scheduling import PlacedMany
from wharfinger.contracts.cohorts import CohortInput
from wharfinger.contracts.names import SCHEDULE_ATTEMPT, SCHEDULE_COHORT
from wharfinger.contracts.scheduling import Placed, PlaceOutcome, Refused
from wharfinger.contracts.search import quoted
from wharfinger.errors import ServerError
from wharfinger.observe.history import Attempt, read_attempt, started_with
from wharfinger.replaying.recorded import DecidedRun

CONCURRENT = 24
"""Histories that are fetched at a time."""
AHEAD = 256
"""Runs that are listed, or whose histories have come, before those are taken."""

_OUTCOME: TypeAdapter[PlaceOutcome] = TypeAdapter(PlaceOutcome)


def span_query(cluster: str, since: datetime, until: datetime | None) -> str:
    """A visibility query for the runs of attempts and cohorts that began in the span."""
    began = f"StartTime >= {quoted(_text(since))}" + (f" AND StartTime < {quoted(_text(until))}" if until else "")
    types = f"WorkflowType IN ({quoted(SCHEDULE_ATTEMPT)}, {quoted(SCHEDULE_COHORT)})"
    return f"{types} AND WorkflowId STARTS_WITH {quoted(f'{cluster}/')} AND {began}"


async def read_runs(
    client: Client,
    query: str,
    *,
    concurrent: int = CONCURRENT,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> AsyncIterator[DecidedRun]:
    """The runs that the query finds and that decided, in no order. Raises `ServerError`.

    Those whose history retention has taken meanwhile, or that no release of ours wrote, are left out.
    """
    queue: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue(AHEAD)
    found: asyncio.Queue[DecidedRun | None] = asyncio.Queue(AHEAD)
    listed = done = 0

    async def listing() -> None:
        nonlocal listed
        async for run in client.list_workflows(query, page_size=1000):
            listed += 1
            await queue.put((run.id, run.run_id))
        for _ in range(concurrent):
            await queue.put(None)

    async def fetching() -> None:
        nonlocal done
        while (named := await queue.get()) is not None:
            run = await _fetched(client, *named)
            if run is not None:
                await found.put(run)
            done += 1
            progress(done, listed)

    async def everything() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(listing())
                for _ in range(concurrent):
                    group.create_task(fetching())
        finally:
            await found.put(None)

    work = asyncio.create_task(everything())
    try:
        while (run := await found.get()) is not None:
            yield run
        await work
    except* RPCError as errors:
        first = next(_flat(errors))
        raise ServerError(f"Temporal did not return the recorded decisions: {first}") from first
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def _flat(group: BaseExceptionGroup[RPCError]) -> Iterator[RPCError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error


async def _fetched(client: Client, workflow_id: str, run_id: str) -> DecidedRun | None:
    try:
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return recorded_run(workflow_id, run_id, history.events)


def recorded_run(workflow_id: str, run_id: str, events: Sequence[HistoryEvent]) -> DecidedRun | None:
    """What a run's history records; None for a run that decided nothing, or whose record cannot be read."""
    attempt = read_attempt(workflow_id, run_id, events)
    if attempt is None or not attempt.placement:
        return None
    start = events[0]
    if start.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
        return None
    started = start.workflow_execution_started_event_attributes
    tenant = started.task_queue.name.rpartition("/")[2]
    try:
        if started.workflow_type.name == SCHEDULE_ATTEMPT:
            return _alone(attempt, AttemptInput.model_validate(started_with(start)), tenant)
        return _together(attempt, CohortInput.model_validate(started_with(start)), tenant)
    except ValidationError:
        return None


def _alone(attempt: Attempt, pod: AttemptInput, tenant: str) -> DecidedRun | None:
    outcome = _OUTCOME.validate_python(attempt.placement)
    if not isinstance(outcome, Placed | Refused):
        return None
    return DecidedRun(
        kind="lone",
        workflow_id=attempt.workflow_id,
        run_id=attempt.run_id,
        tenant=tenant,
        attempt=attempt.attempt,
        started=attempt.started.timestamp(),
        namespace=pod.namespace,
        name=pod.name,
        lone=outcome,
        answers=attempt.answers,
    )


def _together(attempt: Attempt, cohort: CohortInput, tenant: str) -> DecidedRun | None:
    many = PlacedMany.model_validate(attempt.placement)
    if not many.stretches:
        return None
    return DecidedRun(
        kind="cohort" if cohort.gang is None else "gang",
        workflow_id=attempt.workflow_id,
        run_id=attempt.run_id,
        tenant=tenant,
        attempt=attempt.attempt,
        started=attempt.started.timestamp(),
        namespace=cohort.gang.namespace if cohort.gang is not None else "",
        name=cohort.gang.name if cohort.gang is not None else "",
        many=many,
        pods=cohort.pods,
    )


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
