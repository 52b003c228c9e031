"""Many pods placed in one run; or a gang, whose members are bound in one transaction or not at all.

::

    start ── of a gang, without a policy of ours ──► continue as new with it
      │
    place_many ── no pod to place ───────────────────────────► completes: gone
      │   └────── turned away ──► record_many ───────────────► (a gang: evict, park, fail: Unschedulable)
    bind_many ─── bound ─────────────────────────────────────► completes: bound
          └────── unbound ──► record_many ───────────────────► (a gang: fail: Contended)

A cohort never waits: a pod that is turned away or contended gets a record, by which its owner starts an attempt of its
own. A gang's run is an attempt of all its members: it parks, and its retry policy starts the next one, as for a single
pod (`schedule_attempt`). A bug fails the run; a cohort's pods come back by the queue, which etcd told nothing.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Literal

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributeUpdate

    from wharfinger.contracts.attempts import FailureType, chain_retry, has_chain_policy, parsed
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
    from wharfinger.contracts.cohorts import CohortInput, CohortResult, GangName
    from wharfinger.contracts.names import SCHEDULE_COHORT
    from wharfinger.contracts.scheduling import PLACE_RETRY, Gone, Scheduling
    from wharfinger.contracts.search import PODS_KEY, pod_digests
    from wharfinger.workflows.attempt_run import ONLY_ASSUMED, AttemptRun, EvictionResult, failure, required_revision
    from wharfinger.workflows.bugs import BUGS

PLACE_TIMEOUT = timedelta(seconds=10)
"""Of `place_many`, with its waits for the watch and for the cohort before it."""


@workflow.defn(name=SCHEDULE_COHORT, failure_exception_types=BUGS)
class ScheduleCohort(AttemptRun):
    """One try to place a cohort or a gang. Input: `CohortInput`."""

    def __init__(self) -> None:
        super().__init__()
        self._members: list[str] = []
        """Of a gang: digests of the pods that were decided, see `contracts.search`."""

    @workflow.run
    async def run(self, request: Any = None) -> CohortResult:
        """Place, bind, record; see the module. Fails with a `FailureType`."""
        cohort = parsed(CohortInput, request, "a mapping with the pods of a cohort, or with a gang")
        if cohort.gang is not None and not has_chain_policy(workflow.info().retry_policy):
            workflow.continue_as_new(request, retry_policy=chain_retry(cohort.timings))
        return await self._published(self._attempt(cohort))

    async def _attempt(self, cohort: CohortInput) -> CohortResult:
        result = await (self._cohort(cohort) if cohort.gang is None else self._gang(cohort, cohort.gang))
        self._outcome = result.outcome
        return result.model_copy(update={"attempt": workflow.info().attempt})

    def _attributes(self) -> list[SearchAttributeUpdate[Any]]:
        """Members of a gang that the start did not list.

        Only where the start listed members: then the attribute is registered in Temporal.
        """
        listed = workflow.info().typed_search_attributes.get(PODS_KEY)
        if listed is not None and not set(self._members) <= set(listed):
            return [PODS_KEY.value_set(self._members)]
        return []

    # --- a cohort -----------------------------------------------------------------------------

    async def _cohort(self, cohort: CohortInput) -> CohortResult:
        placed = await self._place(cohort)
        bound = await self._bind(placed, whole=False) if placed.seats else BoundMany()
        recorded: list[RecordedMany] = []
        away = turned_away(placed, bound)
        if away is not None:
            recorded.append(await self._record(away, "Unschedulable"))
        lost = contended(placed, bound)
        if lost is not None:
            recorded.append(await self._record(lost, "Contended"))
        hindered: list[Literal["contended", "refused"]] = []
        hindered += ["contended"] if lost is not None else []
        hindered += ["refused"] if away is not None else []
        nothing = not placed.seats and not placed.turned_away
        return CohortResult(
            outcome="gone" if nothing else hindered[0] if hindered else "bound",
            bound=len(bound.bound),
            refused=len(away.turned_away) if away is not None else 0,
            contended=len(lost.turned_away) if lost is not None else 0,
            skipped=len(placed.skipped),
            gone=gone_reasons(placed, bound, *recorded),
        )

    # --- a gang -------------------------------------------------------------------------------

    async def _gang(self, cohort: CohortInput, gang: GangName) -> CohortResult:
        placed = await self._place(cohort)
        decided = [(seat.namespace, seat.name) for seat in placed.seats]
        self._members = pod_digests([*decided, *((pod.namespace, pod.name) for pod in placed.turned_away)])
        if not placed.seats:
            if placed.turned_away:
                return await self._refuse(cohort, gang, placed)
            return CohortResult(
                outcome="gone",
                skipped=len(placed.skipped),
                gone=gone_reasons(placed, BoundMany()),
                detail=placed.skipped[0].reason if placed.skipped else "",
            )
        bound = await self._bind(placed, whole=True)
        if not bound.bound and workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError  # requested while the bind ran, and no pod was bound: no next attempt
        rejected = rejected_gang(placed, bound)
        if rejected is not None:
            return await self._refuse(cohort, gang, rejected)
        if not bound.bound:
            raise self._contended(
                bound.unbound[0].message if bound.unbound else "the gang's transaction did not succeed"
            )
        recorded: list[RecordedMany] = []
        away = turned_away(placed, bound)
        if away is not None:  # members beyond those that the gang needs: they go on one by one
            recorded.append(await self._record(_numbered(away), "Unschedulable"))
        return CohortResult(
            outcome="bound",
            bound=len(bound.bound),
            refused=len(away.turned_away) if away is not None else 0,
            skipped=len(placed.skipped),
            gone=gone_reasons(placed, bound, *recorded),
        )

    async def _refuse(self, cohort: CohortInput, gang: GangName, placed: PlacedMany) -> CohortResult:
        """Record for every member, make room where that helps, park, and fail as Unschedulable."""
        self._outcome = "refused"
        message = placed.reasons[placed.turned_away[-1].reasons].message
        if placed.only_assumed:
            raise failure(FailureType.UNSCHEDULABLE, message, ONLY_ASSUMED)
        recorded = await self._record(_numbered(placed), "Unschedulable", gang)
        refused_at = workflow.time()
        if recorded.recorded == 0:
            gone = gone_reasons(placed, BoundMany(), recorded)
            return CohortResult(outcome="gone", skipped=recorded.gone, gone=gone)
        raise await self._parked(
            cohort.timings,
            message,
            await self._make_room(placed, recorded),
            since=_revision(placed),
            leaving=placed.leaving,
            refused_at=refused_at,
        )

    async def _make_room(self, placed: PlacedMany, recorded: RecordedMany) -> EvictionResult:
        """Evict the victims of all members; stop as soon as one nomination does not hold."""
        if recorded.lapsed:
            return EvictionResult(lapsed=True, revision=recorded.revision)
        room, info = EvictionResult(), workflow.info()
        for request in evictions(placed, recorded, workflow_id=info.workflow_id, run_id=info.run_id):
            outcome = await self._commit(
                Scheduling.evict,
                request,
                start_to_close_timeout=COHORT_COMMIT_TIMEOUT,
                summary=f"{len(request.victims)} pods → off {request.node} for {request.name}",
            )
            room.evicted = True
            if isinstance(outcome, Gone) or not outcome.complete:
                room.lapsed = True
                seen = 0 if isinstance(outcome, Gone) else outcome.revision
                room.revision = max(room.revision, recorded.revision, seen)
                break
            room.leaving = max(room.leaving, outcome.leaving)
            room.revision = max(room.revision, outcome.revision)
        return room

    async def _record_failure(self, kind: str, message: str) -> None:
        """Record nothing: the queue brings the pods back, because etcd does not contain an outcome."""

    # --- activities ---------------------------------------------------------------------------

    async def _place(self, cohort: CohortInput) -> PlacedMany:
        info = workflow.info()
        return await self._decide(
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

    async def _bind(self, placed: PlacedMany, *, whole: bool) -> BoundMany:
        info = workflow.info()
        nodes = len({seat.node for seat in placed.seats})
        return await self._commit(
            CohortScheduling.bind_many,
            BindManyInput(
                seats=tuple(seat.to_commit() for seat in placed.seats),
                computations=tuple(
                    one.computation.to_commit().model_copy(update={"nominated": ()}) for one in placed.stretches
                ),
                whole=whole,
                domain=placed.domain if whole else "",
                workflow_id=info.workflow_id,
                run_id=info.run_id,
            ),
            start_to_close_timeout=COHORT_COMMIT_TIMEOUT,
            schedule_to_close_timeout=None if whole else COHORT_COMMIT_DEADLINE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"{len(placed.seats)} pods → {nodes} nodes" + (" in one transaction" if whole else ""),
        )

    async def _record(
        self, placed: PlacedMany, reason: Literal["Unschedulable", "Contended"], gang: GangName | None = None
    ) -> RecordedMany:
        """Record the pods that were turned away; `gang`: they wait with the gang's own chain."""
        info = workflow.info()
        return await self._commit(
            CohortScheduling.record_many,
            RecordManyInput(
                turned_away=placed.turned_away,
                reasons=placed.reasons,
                revision=_revision(placed),
                reason=reason,
                gang=gang,
                workflow_id=info.workflow_id,
                run_id=info.run_id,
            ),
            start_to_close_timeout=COHORT_COMMIT_TIMEOUT,
            schedule_to_close_timeout=None if gang is not None else COHORT_COMMIT_DEADLINE,
            summary=f"{len(placed.turned_away)} pods wait: {reason}",
        )


def _revision(placed: PlacedMany) -> int:
    """The revision of the first snapshot; 0 = nothing was decided."""
    return placed.stretches[0].computation.revision if placed.stretches else 0


def _numbered(placed: PlacedMany) -> PlacedMany:
    """The members that were turned away, with the number of this attempt of the gang."""
    away = numbered(placed.turned_away, workflow.info().attempt)
    return placed.model_copy(update={"turned_away": away})


def title(cohort: CohortInput) -> str:
    """Its name in the Temporal UI."""
    if cohort.gang is not None:
        return f"gang {cohort.gang.namespace}/{cohort.gang.name}"
    return f"{len(cohort.pods)} pods"
