"""What the workflows of placements share: search attributes, calls of activities, and how one goes on as a new run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NoReturn, Protocol, TypeVar

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from wharfinger.objects.model.texts import shortened
    from wharfinger.placement.contracts.placement_rollouts import (
        BEAT,
        PLAN_TIMEOUT,
        SNAPSHOT_TIMEOUT,
        RolloutActivities,
        TakenSnapshot,
        TakeSnapshotInput,
        rollout_retry,
    )
    from wharfinger.placement.contracts.placements import StreamRevisions, latest, placement_retry
    from wharfinger.process.names import SEARCH_OUTCOME, SEARCH_PLACEMENT, FailureType, placement_attribute
    from wharfinger.workflows.parking import failure, kind_and_message

OUTCOME_KEY = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
PLACEMENT_KEY = SearchAttributeKey.for_keyword(SEARCH_PLACEMENT)
SUMMARY_LIMIT = 120
"""Characters of a summary in the UI's event list (the server takes 400 bytes)."""
IN_HISTORY = timedelta(seconds=5)
"""A decision or a plan that takes no longer is one event in the history."""
CONTENDED = timedelta(seconds=1)
"""Between two plans when others were first."""

A = TypeVar("A")
P = TypeVar("P")


class WithSeen(Protocol):
    """The answer of an activity: also what it has seen of etcd."""

    @property
    def seen(self) -> StreamRevisions:
        """The revisions of the streams."""


class WithOutcome(Protocol):
    """The result of a run."""

    @property
    def outcome(self) -> str:
        """How it ended."""


R = TypeVar("R", bound=WithSeen)
E = TypeVar("E", bound=WithOutcome)


class PlacementRun:
    """The base of the workflows that change the works of one placement."""

    def __init__(self) -> None:
        self._poked = False
        self._seen = StreamRevisions()
        """What the next activity must have seen."""
        self._waves = 0

    @workflow.signal
    def poke(self) -> None:
        """Look again now."""
        self._poked = True

    async def _to_its_end(self, work: Awaitable[E]) -> E:
        """Do the work, and write its outcome into the search attributes; an activity's failure fails the run."""
        try:
            result = await work
        except (Exception, asyncio.CancelledError) as error:
            cancelled = is_cancelled_exception(error)
            workflow.upsert_search_attributes([OUTCOME_KEY.value_set("cancelled" if cancelled else "error")])
            if isinstance(error, FailureError) and not cancelled:
                kind, message = kind_and_message(error)
                raise failure(kind, message, non_retryable=kind == FailureType.WRONG_ID) from error
            raise
        workflow.upsert_search_attributes([OUTCOME_KEY.value_set(result.outcome)])
        return result

    async def _look(self, activity: Callable[[A, P], Awaitable[R]], request: P, summary: str) -> R:
        """Execute a local activity that plans."""
        planned = await workflow.execute_local_activity_method(
            activity,
            request,
            start_to_close_timeout=PLAN_TIMEOUT,
            local_retry_threshold=IN_HISTORY,
            retry_policy=rollout_retry(),
            summary=shortened(summary, SUMMARY_LIMIT),
        )
        self._seen = latest(self._seen, planned.seen)
        return planned

    async def _call(
        self, activity: Callable[[A, P], Awaitable[R]], request: P, summary: str, timeout: timedelta = SNAPSHOT_TIMEOUT
    ) -> R:
        """Execute an activity that writes."""
        written = await workflow.execute_activity_method(
            activity,
            request,
            start_to_close_timeout=timeout,
            retry_policy=rollout_retry(),
            summary=shortened(summary, SUMMARY_LIMIT),
        )
        self._seen = latest(self._seen, written.seen)
        return written

    async def _snapshot_taken(self, request: TakeSnapshotInput) -> TakenSnapshot:
        """Take a snapshot of the selected objects."""
        return await self._call(RolloutActivities.take_snapshot, request, f"{request.placement}: read what is selected")

    def _awaiting(
        self, activity: Callable[[A, P], Awaitable[R]], request: P, summary: str, longest: float
    ) -> workflow.ActivityHandle[R]:
        """Start an activity that waits at most so many seconds for news."""
        return workflow.start_activity_method(
            activity,
            request,
            start_to_close_timeout=timedelta(seconds=2 * longest),
            heartbeat_timeout=BEAT,
            retry_policy=rollout_retry(),
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            summary=shortened(summary, SUMMARY_LIMIT),
        )


def go_on(reference: str, request: Any) -> NoReturn:
    """Continue as a new run, with the retry policy of placements, found by the placement."""
    attributes = TypedSearchAttributes(
        [
            *(pair for pair in workflow.info().typed_search_attributes if pair.key != PLACEMENT_KEY),
            SearchAttributePair(PLACEMENT_KEY, placement_attribute(reference)),
        ]
    )
    workflow.continue_as_new(request, retry_policy=placement_retry(), search_attributes=attributes)
