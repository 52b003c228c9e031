"""A worker that runs `StagedUpdateRun` on the real server, with scripted activities."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle

from tests.workflows.conftest import Scripted
from tests.workflows.hub_stage import HubStage, P, hub_worker, unused_cluster
from wharfinger.placement.contracts.placement_rollouts import TakenSnapshot, TakeSnapshotInput
from wharfinger.placement.contracts.placements import StreamRevisions
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
    RunWrite,
    UpdateRunActivities,
    UpdateRunResult,
    WriteRunWorksInput,
    WrittenRunWorks,
)
from wharfinger.placement.model.update_runs import RunPhase
from wharfinger.process.names import update_run_id
from wharfinger.workflows.staged_update_run import StagedUpdateRun

RUN, IDENTITY = "release", 7

BEGIN = PlannedRun(action="begin", named=1, why="its plan is to be made")
STEP = PlannedRun(action="step", progress="eJw=", stages=2, members=3)
WRITES = STEP.model_copy(
    update={"writes": (RunWrite(member="a", identity=1, snapshot=1, counter=2),), "why": "waits for a"}
)
WAITS = STEP.model_copy(update={"progress": "", "updated": 1, "why": "waits for a"})
ASKS = STEP.model_copy(
    update={
        "progress": "",
        "phase": RunPhase.WAITING,
        "approvals": ("prod.before",),
        "why": "waits for approval prod.before",
    }
)
STAGE_OVER = STEP.model_copy(update={"ended_stages": 1})
DONE = STEP.model_copy(update={"ends": "succeeded", "updated": 3, "ended_stages": 2})


def ending(outcome: Any, why: str = "") -> PlannedRun:
    """The plan of a run that ends so; `stopped` and `planned` and what is over need no record."""
    if outcome in ("failed", "aborted", "succeeded", "stopped"):
        return DONE.model_copy(update={"ends": outcome, "why": why})
    action = "over" if outcome in ("gone", "planned") else "end"
    return PlannedRun.model_validate({"action": action, "ends": outcome, "why": why})


@dataclass
class ScriptedUpdateRuns(Scripted, UpdateRunActivities):
    """Answers in turn what the test wrote down, the last answer for ever."""

    plans: list[PlannedRun | BaseException] = field(default_factory=lambda: [BEGIN, WRITES, WAITS, DONE])
    begins: list[BegunRun | BaseException] = field(default_factory=lambda: [BegunRun(outcome="begun")])
    records: list[RecordedRun | BaseException] = field(
        default_factory=lambda: [RecordedRun(outcome="recorded", rollout=9, seen=StreamRevisions(hub=9))]
    )
    writes: list[WrittenRunWorks | BaseException] = field(default_factory=lambda: [WrittenRunWorks(written=("a",))])
    waits: list[AwaitedRun | BaseException] = field(default_factory=lambda: [AwaitedRun(news=True, elapsed=1.5)])
    snapshots: list[TakenSnapshot] = field(
        default_factory=lambda: [TakenSnapshot(outcome="taken", number=4, seen=StreamRevisions(hub=8))]
    )
    approvals: list[ApprovedRun] = field(default_factory=lambda: [ApprovedRun(outcome="approved")])
    holds: asyncio.Event | None = None
    """While it is there and not set, waits do not end."""

    @activity.defn(name="plan_run")
    async def plan_run(self, request: PlanRunInput) -> PlannedRun:
        return self._next(request, self.plans)

    @activity.defn(name="take_snapshot")
    async def take_snapshot(self, request: TakeSnapshotInput) -> TakenSnapshot:
        return self._next(request, self.snapshots)

    @activity.defn(name="begin_run")
    async def begin_run(self, request: BeginRunInput) -> BegunRun:
        return self._next(request, self.begins)

    @activity.defn(name="record_run")
    async def record_run(self, request: RecordRunInput) -> RecordedRun:
        return self._next(request, self.records)

    @activity.defn(name="write_run_works")
    async def write_run_works(self, request: WriteRunWorksInput) -> WrittenRunWorks:
        return self._next(request, self.writes)

    @activity.defn(name="await_run")
    async def await_run(self, request: AwaitRunInput) -> AwaitedRun:
        found = self._next(request, self.waits)
        while self.holds is not None and not self.holds.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)
        assert isinstance(found, AwaitedRun)
        return found

    @activity.defn(name="approve_run")
    async def approve_run(self, request: ApproveRunInput) -> ApprovedRun:
        return self._next(request, self.approvals)

    @property
    def all(self) -> list[Any]:
        return [
            self.plan_run, self.take_snapshot, self.begin_run, self.record_run, self.write_run_works, self.await_run,
            self.approve_run,
        ]  # fmt: skip


class UpdateRunStage(HubStage[ScriptedUpdateRuns]):
    """Ways to start and read an update run."""

    @property
    def workflow_id(self) -> str:
        return update_run_id(self.cluster, P, RUN, IDENTITY)

    async def start(self) -> WorkflowHandle[Any, UpdateRunResult]:
        await self.starter.start_update_run(P, RUN, IDENTITY, StreamRevisions(hub=3), "its state is Run")
        return self.handle

    @property
    def handle(self) -> WorkflowHandle[Any, UpdateRunResult]:
        return self.handle_of(StagedUpdateRun.run)


@asynccontextmanager
async def update_run_stage(client: Client, cluster: str = "") -> AsyncIterator[UpdateRunStage]:
    stage = UpdateRunStage(client, ScriptedUpdateRuns(), cluster or unused_cluster())
    async with hub_worker(client, stage.cluster, StagedUpdateRun, stage.activities.all):
        yield stage
