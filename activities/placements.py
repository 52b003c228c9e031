"""The activities of `SchedulePlacement`, `RollOutPlacement` and `StagedUpdateRun`, as one hub carries them out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from uuid import uuid4

from temporalio import activity

from wharfinger.objects.documents.times import rfc3339
from wharfinger.placement.contracts.placement_rollouts import (
    Awaited,
    AwaitResultsInput,
    ForgetContentsInput,
    ForgottenContents,
    PlannedRollout,
    PlanRolloutInput,
    RolloutActivities,
    TakenSnapshot,
    TakeSnapshotInput,
    WriteWorksInput,
    WrittenWorks,
)
from wharfinger.placement.contracts.placements import (
    CommitDecisionInput,
    CommittedPlacement,
    DecidedPlacement,
    DecideInput,
    PlacementActivities,
)
from wharfinger.placement.contracts.update_runs import (
    ApprovedRun,
    ApproveRunInput,
    AwaitedRun,
    AwaitRunInput,
    BeginRunInput,
    BegunRun,
    PlannedRun,
    PlanRunInput,
    RecordedRun,
    RecordRunInput,
    UpdateRunActivities,
    WriteRunWorksInput,
    WrittenRunWorks,
)
from wharfinger.placement.effects import update_writing
from wharfinger.placement.effects.committing import commit, draft
from wharfinger.placement.effects.rolling_out import planned
from wharfinger.placement.effects.snapshots import forget, take
from wharfinger.placement.effects.update_steps import look, planned_run
from wharfinger.placement.effects.works import write
from wharfinger.placement.state.catching_up import catch_up, until_changed
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_view import HubView
from wharfinger.process.names import placement_rollout_id, placement_workflow_id, update_run_id
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.effects.failures import check_workflow_id

TICK = 3.0
"""Seconds between two heart-beats of a wait, and two looks at it."""
GATHER = 0.05
"""Seconds for more results after the first one: a wave costs Temporal as much as ten works."""
SPARING = 5.0
"""Between two looks, so many times what one takes: a run of thousands of members leaves the hub to others."""
REST = 8.0
"""Times as long as a look takes, until the next one: of a thousand members, not each result is worth a look."""


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
        check_workflow_id(f"placement {request.placement}", request.workflow_id, right)
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


class WorksActivities:
    """What the activities that change works have of a hub."""

    def __init__(self, process: ProcessParts, view: HubView, contents: ContentsView, *, cluster: str) -> None:
        self._process = process
        self._view = view
        self._contents = contents
        self._cluster = cluster

    def _now(self) -> str:
        return rfc3339(self._process.utc_now())


class RollingActivities(WorksActivities, RolloutActivities):
    """Register with a Temporal worker."""

    @property
    def all(self) -> list[Callable[..., object]]:
        """The activities, for `temporalio.worker.Worker(activities=...)`."""
        return [self.plan_rollout, self.take_snapshot, self.write_works, self.forget_contents, self.await_results]

    @activity.defn(name="plan_rollout")
    async def plan_rollout(self, request: PlanRolloutInput) -> PlannedRollout:
        """See `RolloutActivities.plan_rollout`."""
        right = placement_rollout_id(self._cluster, request.placement)
        check_workflow_id(f"placement {request.placement}", request.workflow_id, right)
        await catch_up(self._process.store, self._view, request.seen)
        return planned(self._view, self._contents, request.placement, self._process.clock())

    @activity.defn(name="take_snapshot")
    async def take_snapshot(self, request: TakeSnapshotInput) -> TakenSnapshot:
        """See `RolloutActivities.take_snapshot`."""
        return await take(self._process.store, self._view, request, self._now())

    @activity.defn(name="write_works")
    async def write_works(self, request: WriteWorksInput) -> WrittenWorks:
        """See `RolloutActivities.write_works`."""
        await catch_up(self._process.store, self._view, request.seen)
        written = await write(self._process.store, self._view, request, self._now())
        for step in request.steps:
            if step.member in written.written:
                self._process.metrics.works_written.labels(step.kind).inc()
        return written

    @activity.defn(name="forget_contents")
    async def forget_contents(self, request: ForgetContentsInput) -> ForgottenContents:
        """See `RolloutActivities.forget_contents`."""
        return await forget(self._process.store, request)

    @activity.defn(name="await_results")
    async def await_results(self, request: AwaitResultsInput) -> Awaited:
        """See `RolloutActivities.await_results`."""
        await catch_up(self._process.store, self._view, request.seen)
        clock, reference = self._process.clock, request.placement
        end = clock() + request.seconds
        while True:
            changed, began = self._view.delivery.waiter(reference), time.perf_counter()
            found = planned(self._view, self._contents, reference, clock())
            rest = max(GATHER, REST * (time.perf_counter() - began))
            settled = not (found.waiting or found.away or found.timers)
            if found.steps or found.gone or settled or found.snapshot_is_due:
                return Awaited(news=True, seen=self._view.newest)
            left = end - clock()
            if left <= 0:
                return Awaited(news=False, seen=self._view.newest)
            activity.heartbeat()
            soon = min(left, TICK, *filter(None, found.timers))
            await until_changed(self._view.delivery, changed, soon, rest=rest)


class StagingActivities(WorksActivities, UpdateRunActivities):
    """Register with a Temporal worker."""

    @property
    def all(self) -> list[Callable[..., object]]:
        """The activities, for `temporalio.worker.Worker(activities=...)`."""
        return [
            self.plan_run,
            self.begin_run,
            self.record_run,
            self.write_run_works,
            self.await_run,
            self.approve_run,
        ]

    @activity.defn(name="plan_run")
    async def plan_run(self, request: PlanRunInput) -> PlannedRun:
        """See `UpdateRunActivities.plan_run`."""
        right = update_run_id(self._cluster, request.placement, request.run, request.identity)
        check_workflow_id(f"run {request.run}", request.workflow_id, right)
        await catch_up(self._process.store, self._view, request.seen)
        return planned_run(self._view, self._contents, request)

    @activity.defn(name="begin_run")
    async def begin_run(self, request: BeginRunInput) -> BegunRun:
        """See `UpdateRunActivities.begin_run`."""
        await catch_up(self._process.store, self._view, request.seen)
        return await update_writing.begin(self._process.store, self._view, request, self._now())

    @activity.defn(name="record_run")
    async def record_run(self, request: RecordRunInput) -> RecordedRun:
        """See `UpdateRunActivities.record_run`."""
        return await update_writing.record(self._process.store, request, self._now())

    @activity.defn(name="write_run_works")
    async def write_run_works(self, request: WriteRunWorksInput) -> WrittenRunWorks:
        """See `UpdateRunActivities.write_run_works`."""
        await catch_up(self._process.store, self._view, request.seen)
        written = await update_writing.write(self._process.store, self._view, request)
        self._process.metrics.works_written.labels("run").inc(len(written.written))
        return written

    @activity.defn(name="await_run")
    async def await_run(self, request: AwaitRunInput) -> AwaitedRun:
        """See `UpdateRunActivities.await_run`."""
        await catch_up(self._process.store, self._view, request.seen)
        clock, delivery, reference = self._process.clock, self._view.delivery, request.placement
        begun, end = delivery.seen_seconds, clock() + request.seconds
        before = _seconds_before()
        while True:
            changed = delivery.waiter(reference)
            elapsed = before + delivery.seen_seconds - begun
            looked = clock()
            which, counted = (reference, request.run, request.identity), request.elapsed + elapsed
            found = look(self._view, *which, counted, contents=self._contents)
            rest, left = SPARING * (clock() - looked), end - clock()
            if found.news or left <= 0:
                return AwaitedRun(news=found.news, elapsed=elapsed, seen=self._view.newest)
            activity.heartbeat(elapsed)
            await until_changed(delivery, changed, min(left, TICK, max(found.timer or TICK, 0.1)))
            await asyncio.sleep(min(rest, TICK))

    @activity.defn(name="approve_run")
    async def approve_run(self, request: ApproveRunInput) -> ApprovedRun:
        """See `UpdateRunActivities.approve_run`."""
        return await update_writing.approve(self._process.store, request, self._now())


def _seconds_before() -> float:
    """Seen seconds of this wait that an earlier try has counted."""
    details = activity.info().heartbeat_details
    return float(details[0]) if details and isinstance(details[0], float | int) else 0.0
