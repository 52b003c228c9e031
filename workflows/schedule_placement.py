"""One try to decide which members a placement gets; its retries are the chain.

::

    start ── no policy of ours ──► continue as new with it
      │
    decide ── nothing new ────────────────────────► completes: unchanged
      │
    commit_decision ── committed ─────────────────► completes: fulfilled, unfulfilled, gone
                  └─── contended ─────────────────► fails: Contended (the next attempt decides again)

Only this order is decided here. What is decided comes back from `decide` and is a fact in the history, so it shows what
was chosen, what was not and why. A hub starts attempts only where deciding would say something new; at rest no run
is open.
"""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from temporalio.common import RetryPolicy

    from wharfinger.objects.model.texts import shortened
    from wharfinger.placement.contracts.placements import (
        COMMIT_TIMEOUT,
        DECIDE_TIMEOUT,
        CommitDecisionInput,
        CommittedPlacement,
        DecidedPlacement,
        DecideInput,
        PlacementActivities,
        PlacementAttemptInput,
        PlacementAttemptResult,
        StreamRevisions,
        latest,
        required_seen,
    )
    from wharfinger.process.failures import has_chain_policy, parsed
    from wharfinger.process.names import SCHEDULE_PLACEMENT, FailureType
    from wharfinger.scheduling.contracts.scheduling import COMMIT_RETRY
    from wharfinger.workflows.bugs import BUGS
    from wharfinger.workflows.parking import kind_and_message, this_run
    from wharfinger.workflows.placement_runs import IN_HISTORY, OUTCOME_KEY, SUMMARY_LIMIT, go_on

ONE_TRY = RetryPolicy(maximum_attempts=1)
"""A failed decision fails the run: the chain's own retry shows it and decides afresh."""


@workflow.defn(name=SCHEDULE_PLACEMENT, failure_exception_types=BUGS)
class SchedulePlacement:
    """One attempt of one placement. Input: `PlacementAttemptInput`, or a mapping with `placement`."""

    @workflow.run
    async def run(self, request: Any = None) -> PlacementAttemptResult:
        """Decide, and store what is new."""
        given = parsed(PlacementAttemptInput, request, "a mapping with the reference of a placement")
        if not has_chain_policy(workflow.info().retry_policy):
            go_on(given.placement, request)
        try:
            result = await self._attempt(given)
        except (Exception, asyncio.CancelledError) as error:
            ends_as, outcome = _ending(error, _required())
            workflow.upsert_search_attributes([OUTCOME_KEY.value_set(outcome)])
            if ends_as is error:
                raise
            raise ends_as from error
        workflow.upsert_search_attributes([OUTCOME_KEY.value_set(result.outcome)])
        workflow.set_current_details(result.why)
        return result

    async def _attempt(self, given: PlacementAttemptInput) -> PlacementAttemptResult:
        decided = await workflow.execute_local_activity_method(
            PlacementActivities.decide,
            DecideInput(placement=given.placement, seen=latest(given.seen, _required()), **this_run()),
            start_to_close_timeout=DECIDE_TIMEOUT,
            local_retry_threshold=IN_HISTORY,
            retry_policy=ONE_TRY,
            summary=shortened(f"{given.placement}: {given.cause or 'asked for'}", SUMMARY_LIMIT),
        )
        story = message(decided)
        workflow.set_current_details(story)
        if decided.action == "nothing":
            return PlacementAttemptResult(outcome="unchanged", chosen=decided.chosen, why=story)
        committed = await workflow.execute_activity_method(
            PlacementActivities.commit_decision,
            CommitDecisionInput(
                placement=given.placement,
                decided=decided,
                **this_run(),
            ),
            start_to_close_timeout=COMMIT_TIMEOUT,
            retry_policy=COMMIT_RETRY,
            # A transaction that was sent cannot be called back: a cancelled run waits for its response.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=shortened(story, SUMMARY_LIMIT),
        )
        if committed.outcome == "contended":
            raise self._contended(committed)
        if decided.action == "remove":
            return PlacementAttemptResult(outcome="gone", why=story)
        return PlacementAttemptResult(
            outcome="fulfilled" if decided.fulfilled else "unfulfilled",
            chosen=decided.chosen,
            added=decided.added,
            removed=decided.removed,
            why=story,
        )

    def _contended(self, committed: CommittedPlacement) -> ApplicationError:
        return ApplicationError(
            f"{committed.moved} moved after this was decided",
            latest(committed.seen, _required()).model_dump(exclude_defaults=True),
            type=FailureType.CONTENDED,
            category=ApplicationErrorCategory.BENIGN,
        )


def _ending(error: BaseException, required: StreamRevisions) -> tuple[BaseException, str]:
    """The error that the run ends with, and its outcome as a search attribute.

    `required`: what this attempt must have seen by the failures before it. The next one must have seen it, too.
    """
    if is_cancelled_exception(error):
        return error, "cancelled"
    if isinstance(error, ApplicationError) and error.type == FailureType.CONTENDED:
        return error, "contended"
    if isinstance(error, FailureError):  # an activity's
        kind, message = kind_and_message(error)
        return _failure(kind, message, required), "error"
    if isinstance(error, asyncio.CancelledError):
        return error, "error"
    return _failure(FailureType.SCHEDULER_ERROR, f"the scheduler failed: {error}", required), "error"


def _failure(kind: str, message: str, required: StreamRevisions) -> ApplicationError:
    return ApplicationError(
        message,
        required.model_dump(exclude_defaults=True),
        type=kind,
        non_retryable=kind == FailureType.WRONG_ID,
    )


def message(decided: DecidedPlacement) -> str:
    """What was decided, as a sentence."""
    if decided.action == "remove":
        return "nothing of it is left, and its keys go"
    changes = [f"+ {', '.join(decided.added)}"] if decided.added else []
    changes += [f"- {', '.join(decided.removed)}"] if decided.removed else []
    evictions = [f"eviction {one.name}: {one.message}" for one in decided.evictions]
    refused = ", ".join(f"{one.members} by {one.plugin or 'score'}" for one in decided.refused)
    parts = [*changes, decided.condition, *([f"not chosen: {refused}"] if refused else []), *evictions]
    return "; ".join(part for part in parts if part)


def _required() -> StreamRevisions:
    """What this attempt must have seen, by the failure of the one before."""
    last = workflow.get_last_failure()
    return required_seen(last.details if isinstance(last, ApplicationError) else ())
