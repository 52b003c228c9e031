"""The activities of `SchedulePlacement`, as one hub carries them out."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from temporalio import activity

from wharfinger.objects.documents.times import rfc3339
from wharfinger.placement.contracts.placements import (
    CommitDecisionInput,
    CommittedPlacement,
    DecidedPlacement,
    DecideInput,
    PlacementActivities,
)
from wharfinger.placement.effects.committing import commit, draft
from wharfinger.placement.state.catching_up import catch_up
from wharfinger.placement.state.hub_view import HubView
from wharfinger.process.names import placement_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.effects.failures import wrong_id


class DecidingActivities(PlacementActivities):
    """Register with a Temporal worker."""

    def __init__(
        self,
        process: ProcessParts,
        view: HubView,
        *,
        cluster: str,
        new_token: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self._process = process
        self._view = view
        self._cluster = cluster
        self._new_token = new_token

    @property
    def all(self) -> list[Callable[..., object]]:
        """The activities, for `temporalio.worker.Worker(activities=...)`."""
        return [self.decide, self.commit_decision]

    @activity.defn(name="decide")
    async def decide(self, request: DecideInput) -> DecidedPlacement:
        """See `PlacementActivities.decide`."""
        right = placement_workflow_id(self._cluster, request.placement)
        if request.workflow_id != right:
            raise wrong_id(f"placement {request.placement}", request.workflow_id, right)
        await catch_up(self._process.store, self._view, request.seen)
        metrics, began = self._process.metrics, self._process.clock()
        now, failed = rfc3339(self._process.utc_now()), True
        with metrics.scheduling_active_workers.track_inprogress():
            try:
                decided = draft(self._view, request, clock=began, time=now, token=self._new_token())
                failed = False
            finally:
                told = str(failed).lower()
                took = (self._process.clock() - began) * 1000
                metrics.scheduling_cycle_duration.labels(told, told).observe(took)
        if decided.action == "nothing":
            metrics.placement_attempts.labels("unchanged").inc()
        return decided

    @activity.defn(name="commit_decision")
    async def commit_decision(self, request: CommitDecisionInput) -> CommittedPlacement:
        """See `PlacementActivities.commit_decision`."""
        committed = await commit(self._process.store, request, rfc3339(self._process.utc_now()))
        result = "contended" if committed.outcome == "contended" else _result(request.decided)
        self._process.metrics.placement_attempts.labels(result).inc()
        return committed


def _result(decided: DecidedPlacement) -> str:
    if decided.action == "remove":
        return "gone"
    return "fulfilled" if decided.fulfilled else "unfulfilled"
