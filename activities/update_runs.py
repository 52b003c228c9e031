"""The activities of `StagedUpdateRun`, as one hub carries them out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from temporalio import activity

from wharfinger.objects.documents.times import rfc3339
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
from wharfinger.placement.effects.update_steps import look, planned_run
from wharfinger.placement.state.catching_up import catch_up, until_changed
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_view import HubView
from wharfinger.process.names import update_run_id
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.effects.failures import wrong_id

SPARING = 5.0
"""Between two looks, so many times what one takes: a run of thousands of members leaves the hub to others."""
TICK = 3.0
"""Seconds between two heart-beats of a wait, and two looks at it."""


class StagingActivities(UpdateRunActivities):
    """Register with a Temporal worker."""

    def __init__(self, process: ProcessParts, view: HubView, contents: ContentsView, *, cluster: str) -> None:
        self._process = process
        self._view = view
        self._contents = contents
        self._cluster = cluster

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
        if request.workflow_id != right:
            raise wrong_id(f"run {request.run}", request.workflow_id, right)
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

    def _now(self) -> str:
        return rfc3339(self._process.utc_now())


def _seconds_before() -> float:
    """Seen seconds of this wait that an earlier try has counted."""
    details = activity.info().heartbeat_details
    return float(details[0]) if details and isinstance(details[0], float | int) else 0.0
