"""One attempt to place a group: a lone pod, a cohort, or a gang.

::

    start ── it waits, without a policy of ours ─► continue as new with it
      │
    place ── no pod to place ─────────────────────────────────────────► completes: gone
      │  └── a node for none ─────────────────► refuse
    bind ─── none bound ─┬─ a lone pod is gone ───────────────────────► completes: gone
      │                  ├─ rejected ─────────► refuse
      │                  └─ contended ────────────────────────────────► fails: Contended
    record those that are left over ──────────────────────────────────► completes: bound, refused or contended

    refuse ── by assumed pods only ───────────────────────────────────► fails: Unschedulable (tried again at once)
      │
    record ── nominates, where preemption can make room ─► evict
      │
    parked ── woken ──────────────────────────────────────────────────► fails: Unschedulable (next attempt)

The run of a lone pod or of a gang waits, and its retry policy starts the next attempt. A cohort never waits: it goes
straight down. A pod of a cohort that is turned away or contended gets a record, by which its owner tries it again.

Only this order is decided here. What is decided about nodes comes back from activities and is a fact in the history.
The body reads all of it as a group's (`scheduling.contracts.cohort_scheduling`); `group_payloads` there maps the flat
payloads of a lone pod. A bug (`workflows.bugs`) fails the run: it leads to the next attempt and never to a stuck
pod. A cohort's pods come back by the queue then, because etcd contains no outcome of them.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributeKey, SearchAttributeUpdate, TypedSearchAttributes

    from wharfinger.objects.model.texts import shortened
    from wharfinger.process.failures import has_chain_policy
    from wharfinger.process.names import SEARCH_OUTCOME, FailureType
    from wharfinger.scheduling.contracts.attempts import ONLY_ASSUMED, AttemptTimings, chain_retry
    from wharfinger.scheduling.contracts.cohort_scheduling import (
        BoundMany,
        CohortResult,
        PlacedMany,
        RecordedMany,
        RecordReason,
    )
    from wharfinger.scheduling.contracts.group_payloads import (
        contended,
        evictions,
        gone_reasons,
        numbered,
        rejected_together,
        turned_away,
        victims_listed,
    )
    from wharfinger.scheduling.contracts.scheduling import COMMIT_RETRY, Gone, Scheduling
    from wharfinger.workflows.parking import (
        EvictionResult,
        Parking,
        kind_and_message,
        this_run,
    )

OUTCOME_KEY = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
EVICT = 0.05
"""Seconds more for each of very many victims: two transactions."""
SUMMARY_LIMIT = 120
"""Characters of a line in the UI's event list (the server takes 400 bytes)."""

A = TypeVar("A")
P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Group:
    """What a run places."""

    title: str
    """Its name in the Temporal UI."""
    timings: AttemptTimings
    commit_timeout: timedelta
    """Start-to-close of the activities that write to etcd."""
    waits: bool
    """Whether a refused run parks, and its retry policy starts the next attempt."""
    whole: bool = False
    """A gang: its pods are bound in one transaction, or not at all."""


class GroupRun(Parking, ABC):
    """The body of `ScheduleAttempt` and `ScheduleCohort`, which give it their steps."""

    def __init__(self) -> None:
        super().__init__()
        self._group: Group
        self._outcome = "error"
        """Of a run that fails."""
        self._last: Any = None
        """Of a lone pod: the last outcome of a step."""

    # --- steps --------------------------------------------------------------------------------

    @abstractmethod
    async def _place(self) -> PlacedMany:
        """Decide about the pods."""

    @abstractmethod
    async def _bind(self, placed: PlacedMany) -> BoundMany:
        """Commit the seats."""

    @abstractmethod
    async def _record(self, placed: PlacedMany, reason: RecordReason, *, parks: bool) -> RecordedMany:
        """Record the pods that were turned away; `parks`: they wait with this run."""

    async def _record_failure(self, kind: str, message: str) -> None:
        """Record the failure of an activity, before the run fails with it; a group's pods come back by the queue."""

    @abstractmethod
    def _attributes(self) -> list[SearchAttributeUpdate[Any]]:
        """Search attributes to write beside the outcome."""

    # --- the flow -----------------------------------------------------------------------------

    async def _run(self, request: Any, group: Group, attributes: TypedSearchAttributes | None = None) -> CohortResult:
        """Place the group, and write the outcome into the search attributes, in the run's last task.

        A run that brings no policy by which it is tried again continues as new with the `request`, and with these
        attributes.
        """
        self._group = group
        if group.waits and not has_chain_policy(workflow.info().retry_policy):
            workflow.continue_as_new(request, retry_policy=chain_retry(group.timings), search_attributes=attributes)
        try:
            result = await self._attempt()
        except (Exception, asyncio.CancelledError) as failure:
            self._publish("cancelled" if is_cancelled_exception(failure) else self._outcome)
            raise
        self._publish(result.outcome)
        return result

    def _publish(self, outcome: str) -> None:
        workflow.upsert_search_attributes([OUTCOME_KEY.value_set(outcome), *self._attributes()])

    async def _attempt(self) -> CohortResult:
        placed = await self._place()
        bound = await self._bind(placed) if placed.seats else BoundMany()
        if self._group.waits and not bound.bound:
            return await self._none_bound(placed, bound)
        recorded: list[RecordedMany] = []
        refused = turned_away(placed, bound)  # of a gang: members beyond those that it needs go on one by one
        if refused is not None:
            recorded.append(await self._record(self._numbered(refused), "Unschedulable", parks=False))
        lost = contended(placed, bound) if not self._group.waits else None
        if lost is not None:
            recorded.append(await self._record(lost, "Contended", parks=False))
        if not placed.seats and not placed.turned_away:
            return self._gone(placed)
        hindered = "contended" if lost is not None else "refused" if refused is not None else "bound"
        return CohortResult(
            outcome="bound" if self._group.waits else hindered,
            bound=len(bound.bound),
            refused=len(refused.turned_away) if refused is not None else 0,
            contended=len(lost.turned_away) if lost is not None else 0,
            skipped=len(placed.skipped),
            gone=gone_reasons(placed, bound, *recorded),
            attempt=self._number,
        )

    async def _none_bound(self, placed: PlacedMany, bound: BoundMany) -> CohortResult:
        """End or park a run that waits, and that bound no pod."""
        if not placed.seats:
            return await self._refuse(placed) if placed.turned_away else self._gone(placed)
        if not self._group.whole and all(one.kind == "gone" for one in bound.unbound):
            return self._gone(placed, bound)  # of a gang, other members may be left
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError  # requested while the bind ran, and no pod was bound: no next attempt
        rejected = rejected_together(placed, bound)
        if rejected is not None:
            return await self._refuse(rejected)
        self._outcome = "contended"
        why = bound.unbound[0].message if bound.unbound else "the gang's transaction did not succeed"
        raise self._failure(FailureType.CONTENDED, why)

    async def _refuse(self, placed: PlacedMany) -> CohortResult:
        """Record, make room where that helps, park, and fail as Unschedulable."""
        self._outcome = "refused"
        message = placed.reasons[placed.turned_away[-1].reasons].message
        if placed.only_assumed:
            raise self._failure(FailureType.UNSCHEDULABLE, message, ONLY_ASSUMED)
        recorded = await self._record(self._numbered(placed), "Unschedulable", parks=True)
        refused_at = workflow.time()
        if recorded.recorded == 0:
            return self._gone(placed, recorded=recorded)
        room = await self._make_room(placed, recorded)
        if isinstance(self._last, Gone):
            return self._gone(placed)
        raise await self._parked(
            self._group.timings,
            message,
            room,
            since=placed.revision,
            leaving=placed.leaving,
            refused_at=refused_at,
        )

    async def _make_room(self, placed: PlacedMany, recorded: RecordedMany) -> EvictionResult:
        """Evict the victims of all pods; stop as soon as one nomination does not hold."""
        if recorded.lapsed:
            return EvictionResult(lapsed=True, revision=recorded.revision)
        room = EvictionResult()
        for one, request in evictions(placed, recorded, **this_run()):
            whose = f" for {request.name}" if self._group.whole else ""
            outcome = await self._commit(
                Scheduling.evict,
                request,
                start_to_close_timeout=self._group.commit_timeout + timedelta(seconds=EVICT * one.victim_count),
                summary=shortened(f"{victims_listed(one)} → off {request.node}{whose}", SUMMARY_LIMIT),
            )
            if isinstance(outcome, Gone):
                self._last = None if self._group.whole else outcome  # of a gang, others are left
                return EvictionResult(lapsed=True, revision=max(room.revision, recorded.revision))
            room.evicted = True
            room.leaving = max(room.leaving, outcome.leaving)
            room.revision = max(room.revision, outcome.revision)
            if not outcome.complete:
                room.lapsed, room.revision = True, max(room.revision, recorded.revision)
                break
        return room

    def _numbered(self, placed: PlacedMany) -> PlacedMany:
        """The pods that were turned away, with the number of this attempt; those of a cohort bring their own."""
        if not self._group.waits:
            return placed
        return placed.model_copy(update={"turned_away": numbered(placed.turned_away, self._number)})

    def _gone(
        self, placed: PlacedMany, bound: BoundMany | None = None, recorded: RecordedMany | None = None
    ) -> CohortResult:
        """No pod is left to place."""
        return CohortResult(
            outcome="gone",
            skipped=len(placed.skipped) if recorded is None else recorded.gone,
            gone=gone_reasons(placed, bound or BoundMany(), *(() if recorded is None else (recorded,))),
            detail=placed.skipped[0].reason if self._group.whole and placed.skipped and recorded is None else "",
            attempt=self._number,
        )

    # --- activities ---------------------------------------------------------------------------

    async def _decide(self, activity: Callable[[A, P], Awaitable[R]], request: P, **options: Any) -> R:
        """Execute a local activity; fail with its failure."""
        try:
            return await workflow.execute_local_activity_method(activity, request, **options)
        except FailureError as error:
            await self._failed(error)

    async def _commit(self, activity: Callable[[A, P], Awaitable[R]], request: P, **options: Any) -> R:
        """Execute an activity that needs etcd, until etcd answers; fail with its failure."""
        try:
            return await workflow.execute_activity_method(activity, request, retry_policy=COMMIT_RETRY, **options)
        except FailureError as error:
            await self._failed(error)

    async def _failed(self, error: FailureError) -> NoReturn:
        """Fail with the type of the activity's failure, or as cancelled."""
        if is_cancelled_exception(error):
            raise error
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError from error  # requested while the activity ran: no next attempt
        kind, message = kind_and_message(error)
        await self._record_failure(kind, message)
        raise self._failure(kind, message, non_retryable=kind == FailureType.WRONG_ID) from error
