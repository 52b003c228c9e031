"""Many pods placed in one run; or a gang, whose members are bound in one transaction or not at all.

::

    start ── of a gang, without a policy of ours ──► continue as new with it
      │
    place_many ── nobody to place ───────────────────────────► completes: gone
      │   └────── turned away ──► record_many ───────────────► (a gang: evict, park, fail: Unschedulable)
    bind_many ─── bound ─────────────────────────────────────► completes: bound
          └────── unbound ──► record_many ───────────────────► (a gang: fail: Contended)

A cohort never waits: a pod that is turned away or contended gets a record, by which its owner starts an attempt of its
own. A gang's run is an attempt of all its members: it parks, and its retry policy starts the next one, as for a single
pod (`schedule_attempt`). Any exception fails the run; a cohort's pods come back by the queue, which etcd told nothing.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Literal, NoReturn

from temporalio import workflow
from temporalio.exceptions import (
    ApplicationError,
    ApplicationErrorCategory,
    FailureError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

    from wharfinger.contracts.attempts import FailureType, Wake, chain_retry, details, has_chain_policy, parsed
    from wharfinger.contracts.cohort_records import (
        contended,
        evictions,
        gone_reasons,
        numbered,
        rejected_gang,
        turned_away,
    )
    from wharfinger.contracts.cohort_scheduling import (
        COHORT_COMMIT_DEADLINE,
        COHORT_COMMIT_TIMEOUT,
        BindManyInput,
        BoundMany,
        CohortScheduling,
        PlacedMany,
        PlaceManyInput,
        RecordedMany,
        RecordManyInput,
    )
    from wharfinger.contracts.cohorts import CohortInput, CohortResult
    from wharfinger.contracts.names import SCHEDULE_COHORT, SEARCH_OUTCOME
    from wharfinger.contracts.scheduling import COMMIT_RETRY, PLACE_RETRY, Gone, Scheduling
    from wharfinger.contracts.search import PODS_KEY, pod_digests
    from wharfinger.workflows.parking import ONLY_ASSUMED, Parking, kind_and_message, next_delay, required_revision

OUTCOME_KEY = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
PLACE_TIMEOUT = timedelta(seconds=10)
"""Of `place_many`, with its waits for the watch and for the cohort before it."""


@workflow.defn(name=SCHEDULE_COHORT, failure_exception_types=[Exception])
class ScheduleCohort:
    """One try to place a cohort or a gang. Input: `CohortInput`."""

    def __init__(self) -> None:
        self._outcome = "error"
        self._members: list[str] = []
        """Of a gang: digests of the pods that were decided, see `contracts.search`."""
        self._parking = Parking()

    @workflow.signal
    def wake(self, signal: Wake = Wake()) -> None:  # noqa: B008 - frozen
        """An event lets the gang fit now; an empty one means: try again whatever happened."""
        self._parking.signalled(signal)

    @workflow.run
    async def run(self, request: Any = None) -> CohortResult:
        """Place, bind, record; see the module. Fails with a `FailureType`."""
        cohort = parsed(CohortInput, request, "a mapping with the pods of a cohort, or with a gang")
        if cohort.gang is not None and not has_chain_policy(workflow.info().retry_policy):
            workflow.continue_as_new(request, retry_policy=chain_retry(cohort.timings))
        try:
            result = await (self._cohort(cohort) if cohort.gang is None else self._gang(cohort))
        except (Exception, asyncio.CancelledError) as failure:
            if is_cancelled_exception(failure):
                self._outcome = "cancelled"
            self._publish(self._outcome)
            raise
        self._publish(result.outcome)
        return result

    def _publish(self, outcome: str) -> None:
        """The outcome and, of a gang, members that the start did not list, in one upsert of the last task.

        Only where the start listed members: Temporal knows the attribute then.
        """
        updates: list[SearchAttributeUpdate[Any]] = [OUTCOME_KEY.value_set(outcome)]
        listed = workflow.info().typed_search_attributes.get(PODS_KEY)
        if listed is not None and not set(self._members) <= set(listed):
            updates.append(PODS_KEY.value_set(self._members))
        workflow.upsert_search_attributes(updates)

    # --- a cohort -----------------------------------------------------------------------------

    async def _cohort(self, cohort: CohortInput) -> CohortResult:
        placed = await self._place(cohort)
        bound = await self._bind(placed, whole=False) if placed.seats else BoundMany()
        recorded: list[RecordedMany] = []
        away = turned_away(placed, bound)
        if away is not None:
            recorded.append(await self._record(cohort, away, "Unschedulable"))
        lost = contended(placed, bound)
        if lost is not None:
            recorded.append(await self._record(cohort, lost, "Contended"))
        hindered = [kind for kind, found in (("contended", lost), ("refused", away)) if found is not None]
        nobody = not placed.seats and not placed.turned_away
        return CohortResult(
            outcome="gone" if nobody else hindered[0] if hindered else "bound",
            bound=len(bound.bound),
            refused=len(away.turned_away) if away is not None else 0,
            contended=len(lost.turned_away) if lost is not None else 0,
            skipped=len(placed.skipped),
            gone=gone_reasons(placed, bound, *recorded),
            attempt=workflow.info().attempt,
        )

    # --- a gang -------------------------------------------------------------------------------

    async def _gang(self, cohort: CohortInput) -> CohortResult:
        placed = await self._place(cohort)
        decided = [(seat.namespace, seat.name) for seat in placed.seats]
        self._members = pod_digests([*decided, *((pod.namespace, pod.name) for pod in placed.turned_away)])
        if not placed.seats:
            if placed.turned_away:
                return await self._refuse(cohort, placed)
            return CohortResult(
                outcome="gone",
                skipped=len(placed.skipped),
                gone=gone_reasons(placed, BoundMany()),
                detail=placed.skipped[0].reason if placed.skipped else "",
                attempt=workflow.info().attempt,
            )
        bound = await self._bind(placed, whole=True)
        if not bound.bound and workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError  # asked for while the bind was out, and nobody was bound: no next attempt
        rejected = rejected_gang(placed, bound)
        if rejected is not None:
            return await self._refuse(cohort, rejected)
        if not bound.bound:
            self._fail_contended(bound)
        recorded: list[RecordedMany] = []
        away = turned_away(placed, bound)
        if away is not None:  # members beyond those that the gang needs: they go on one by one
            alone = cohort.model_copy(update={"gang": None})
            recorded.append(await self._record(alone, away, "Unschedulable", of_gang=True))
        refused = len(away.turned_away) if away is not None else 0
        return CohortResult(
            outcome="bound",
            bound=len(bound.bound),
            refused=refused,
            skipped=len(placed.skipped),
            gone=gone_reasons(placed, bound, *recorded),
            attempt=workflow.info().attempt,
        )

    async def _refuse(self, cohort: CohortInput, placed: PlacedMany) -> CohortResult:
        """Record for every member, make room where that helps, park, and end as Unschedulable."""
        self._outcome = "refused"
        message = placed.reasons[placed.turned_away[-1].reasons].message
        since = placed.stretches[0].computation.revision if placed.stretches else 0
        wake, delay = Wake(event=ONLY_ASSUMED), None
        if not placed.only_assumed:
            recorded = await self._record(cohort, placed, "Unschedulable", of_gang=True)
            refused_at = workflow.time()
            if recorded.recorded == 0:
                return CohortResult(
                    outcome="gone",
                    skipped=recorded.gone,
                    gone=gone_reasons(placed, BoundMany(), recorded),
                    attempt=workflow.info().attempt,
                )
            room = await self._make_room(placed, recorded)
            if room.lapsed:  # victims, or members, are not what they were: the next attempt chooses anew
                wake = Wake(revision=room.revision, event="NominationLapsed")
            else:
                wake = await self._parking.wait(
                    cohort.timings,
                    message,
                    since=since,
                    leaving=room.leaving or placed.leaving,
                    evicted=room.evicted,
                )
                if room.revision > wake.revision:  # decided on an older state, it would evict once more
                    wake = wake.model_copy(update={"revision": room.revision})
                delay = next_delay(refused_at)
        raise ApplicationError(
            message,
            *details(wake, required_revision()),
            type=FailureType.UNSCHEDULABLE,
            category=ApplicationErrorCategory.BENIGN,
            next_retry_delay=delay,
        )

    async def _make_room(self, placed: PlacedMany, recorded: RecordedMany) -> Room:
        """Evict the victims of all members; nobody as soon as one nomination does not hold."""
        room = Room(lapsed=bool(recorded.lapsed), revision=recorded.revision if recorded.lapsed else 0)
        info = workflow.info()
        if not room.lapsed:
            for request in evictions(placed, recorded, workflow_id=info.workflow_id, run_id=info.run_id):
                try:
                    outcome = await workflow.execute_activity_method(
                        Scheduling.evict,
                        request,
                        start_to_close_timeout=COHORT_COMMIT_TIMEOUT,
                        retry_policy=COMMIT_RETRY,
                        summary=f"{len(request.victims)} pods → off {request.node} for {request.name}",
                    )
                except FailureError as error:
                    self._failed(error)
                room.evicted = True
                if isinstance(outcome, Gone) or not outcome.complete:
                    room.lapsed = True
                    seen = 0 if isinstance(outcome, Gone) else outcome.revision
                    room.revision = max(room.revision, recorded.revision, seen)
                    break
                room.leaving = max(room.leaving, outcome.leaving)
                room.revision = max(room.revision, outcome.revision)
        return room

    def _fail_contended(self, bound: BoundMany) -> NoReturn:
        self._outcome = "contended"
        raise ApplicationError(
            bound.unbound[0].message if bound.unbound else "the gang's transaction did not succeed",
            *details(Wake(), required_revision()),
            type=FailureType.CONTENDED,
            category=ApplicationErrorCategory.BENIGN,
        )

    # --- activities ---------------------------------------------------------------------------

    async def _place(self, cohort: CohortInput) -> PlacedMany:
        info = workflow.info()
        try:
            return await workflow.execute_local_activity_method(
                CohortScheduling.place_many,
                PlaceManyInput(
                    pods=cohort.pods,
                    gang=cohort.gang,
                    revision=max(cohort.revision, required_revision()) if cohort.gang is not None else 0,
                    turn=cohort.turn if info.attempt == 1 else None,
                    workflow_id=info.workflow_id,
                    run_id=info.run_id,
                ),
                start_to_close_timeout=PLACE_TIMEOUT,
                retry_policy=PLACE_RETRY,
                summary=title(cohort),
            )
        except FailureError as error:
            self._failed(error)

    async def _bind(self, placed: PlacedMany, *, whole: bool) -> BoundMany:
        info = workflow.info()
        nodes = len({seat.node for seat in placed.seats})
        try:
            return await workflow.execute_activity_method(
                CohortScheduling.bind_many,
                BindManyInput(
                    seats=tuple(seat.to_commit() for seat in placed.seats),
                    computations=tuple(
                        one.computation.model_copy(update={"assumed": (), "nominated": ()}) for one in placed.stretches
                    ),
                    whole=whole,
                    domain=placed.domain if whole else "",
                    workflow_id=info.workflow_id,
                    run_id=info.run_id,
                ),
                start_to_close_timeout=COHORT_COMMIT_TIMEOUT,
                schedule_to_close_timeout=None if whole else COHORT_COMMIT_DEADLINE,
                retry_policy=COMMIT_RETRY,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"{len(placed.seats)} pods → {nodes} nodes" + (" in one transaction" if whole else ""),
            )
        except FailureError as error:
            self._failed(error)

    async def _record(
        self,
        cohort: CohortInput,
        placed: PlacedMany,
        reason: Literal["Unschedulable", "Contended"],
        *,
        of_gang: bool = False,
    ) -> RecordedMany:
        info = workflow.info()
        revision = placed.stretches[0].computation.revision if placed.stretches else 0
        try:
            return await workflow.execute_activity_method(
                CohortScheduling.record_many,
                RecordManyInput(
                    turned_away=numbered(placed.turned_away, info.attempt) if of_gang else placed.turned_away,
                    reasons=placed.reasons,
                    revision=revision,
                    reason=reason,
                    gang=cohort.gang,
                    workflow_id=info.workflow_id,
                    run_id=info.run_id,
                ),
                start_to_close_timeout=COHORT_COMMIT_TIMEOUT,
                schedule_to_close_timeout=None if cohort.gang is not None else COHORT_COMMIT_DEADLINE,
                retry_policy=COMMIT_RETRY,
                summary=f"{len(placed.turned_away)} pods wait: {reason}",
            )
        except FailureError as error:
            self._failed(error)

    def _failed(self, error: FailureError) -> NoReturn:
        """End as what the activity failed with."""
        if is_cancelled_exception(error):
            raise error
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError from error
        kind, message = kind_and_message(error)
        raise ApplicationError(message, *details(Wake(), required_revision()), type=kind) from error


class Room:
    """What came of making room for a gang."""

    def __init__(self, *, lapsed: bool, revision: int) -> None:
        self.lapsed = lapsed
        self.revision = revision
        self.leaving = 0.0
        self.evicted = False


def title(cohort: CohortInput) -> str:
    """How the Temporal UI calls it."""
    if cohort.gang is not None:
        return f"gang {cohort.gang.namespace}/{cohort.gang.name}"
    return f"{len(cohort.pods)} pods"
