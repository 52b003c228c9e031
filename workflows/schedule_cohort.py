"""Many pods placed in one run; or a gang, whose members are bound in one transaction or not at all.

The flow is that of every group: `workflows.group_run`. A gang's run is an attempt of all its members: it parks, and its
retry policy starts the next one, as for a single pod.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributeUpdate

    from wharfinger.process.failures import parsed
    from wharfinger.process.names import SCHEDULE_COHORT, pod_digests, pods_listed
    from wharfinger.scheduling.contracts.cohort_scheduling import (
        COHORT_COMMIT_DEADLINE,
        COHORT_COMMIT_TIMEOUT,
        PODS_KEY,
        BindManyInput,
        BoundMany,
        CohortInput,
        CohortResult,
        CohortScheduling,
        PlacedMany,
        PlaceManyInput,
        RecordedMany,
        RecordManyInput,
        RecordReason,
    )
    from wharfinger.scheduling.contracts.group_lines import details, seats_line, waiting_line
    from wharfinger.scheduling.contracts.group_lines import title as names
    from wharfinger.scheduling.contracts.scheduling import PLACE_RETRY
    from wharfinger.workflows.bugs import BUGS
    from wharfinger.workflows.group_run import Group, GroupRun
    from wharfinger.workflows.parking import required_revision, this_run

PLACE_TIMEOUT = timedelta(seconds=10)
"""Of `place_many`, with its waits for the watch and for the cohort before it."""


@workflow.defn(name=SCHEDULE_COHORT, failure_exception_types=BUGS)
class ScheduleCohort(GroupRun):
    """One try to place a cohort or a gang. Input: `CohortInput`."""

    def __init__(self) -> None:
        super().__init__()
        self._cohort: CohortInput
        self._members: list[tuple[str, str]] = []
        """Of a gang: the pods that were decided, by namespace and name."""

    @workflow.run
    async def run(self, request: Any = None) -> CohortResult:
        """Place, bind, record; see `workflows.group_run`. Fails with a `FailureType`."""
        self._cohort = cohort = parsed(CohortInput, request, "a mapping with the pods of a cohort, or with a gang")
        gang = cohort.gang is not None
        group = Group(title(cohort), cohort.timings, COHORT_COMMIT_TIMEOUT, waits=gang, whole=gang)
        return await self._run(request, group)

    def _attributes(self) -> list[SearchAttributeUpdate[Any]]:
        """Members of a gang that the start did not list.

        Only where the start listed members: then the attribute is registered in Temporal.
        """
        listed = workflow.info().typed_search_attributes.get(PODS_KEY)
        if listed is not None and not set(pod_digests(self._members)) <= set(listed):
            return [PODS_KEY.value_set(pods_listed(self._members))]
        return []

    async def _place(self) -> PlacedMany:
        cohort = self._cohort
        placed = await self._decide(
            CohortScheduling.place_many,
            PlaceManyInput.alike(
                cohort,
                revision=max(cohort.revision, required_revision()) if self._group.whole else 0,
                turn=cohort.turn if workflow.info().attempt == 1 else None,
                **this_run(),
            ),
            start_to_close_timeout=PLACE_TIMEOUT,
            retry_policy=PLACE_RETRY,
            summary=self._group.title,
        )
        if not placed.seats:
            workflow.set_current_details(details(placed, BoundMany()))
        if self._group.whole:
            self._members = [(one.namespace, one.name) for one in placed.decided]
        return placed

    async def _bind(self, placed: PlacedMany) -> BoundMany:
        whole = self._group.whole
        bound = await self._commit(
            CohortScheduling.bind_many,
            BindManyInput(
                seats=tuple(seat.to_commit() for seat in placed.seats),
                computations=tuple(
                    one.computation.to_commit().model_copy(update={"nominated": ()}) for one in placed.stretches
                ),
                whole=whole,
                domain=placed.domain if whole else "",
                **this_run(),
            ),
            start_to_close_timeout=self._group.commit_timeout,
            schedule_to_close_timeout=None if whole else COHORT_COMMIT_DEADLINE,
            # A transaction that was sent cannot be called back: a cancelled run waits for its response.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=seats_line(placed) + (" in one transaction" if whole else ""),
        )
        workflow.set_current_details(details(placed, bound))
        return bound

    async def _record(self, placed: PlacedMany, reason: RecordReason, *, parks: bool) -> RecordedMany:
        gang = self._cohort.gang if parks else None
        return await self._commit(
            CohortScheduling.record_many,
            RecordManyInput.alike(placed, revision=placed.revision, reason=reason, gang=gang, **this_run()),
            start_to_close_timeout=self._group.commit_timeout,
            schedule_to_close_timeout=None if parks else COHORT_COMMIT_DEADLINE,
            summary=waiting_line(placed),
        )


def title(cohort: CohortInput) -> str:
    """Its name in the Temporal UI."""
    if cohort.gang is not None:
        return f"gang {cohort.gang.namespace}/{cohort.gang.name}"
    return names((pod.namespace, pod.name) for pod in cohort.pods)
