"""A worker that runs `StagedUpdateRun` on the real server, with scripted activities."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from tests.workflows.conftest import Scripted, sandbox
from wharfinger.client.placement_starts import TemporalPlacements
from wharfinger.contracts.names import placement_queue, update_run_id
from wharfinger.contracts.placement_rollouts import TakenSnapshot, TakeSnapshotInput
from wharfinger.contracts.placements import StreamRevisions
from wharfinger.contracts.update_runs import (
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
from wharfinger.model.update_runs import RunPhase
from wharfinger.workflows.staged_update_run import StagedUpdateRun

P, RUN, IDENTITY = "cluster/web", "release", 7

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
        found = self._next(request, self.plans)
        assert isinstance(found, PlannedRun)
        return found

    @activity.defn(name="take_snapshot")
    async def take_snapshot(self, request: TakeSnapshotInput) -> TakenSnapshot:
        found = self._next(request, self.snapshots)
        assert isinstance(found, TakenSnapshot)
        return found

    @activity.defn(name="begin_run")
    async def begin_run(self, request: BeginRunInput) -> BegunRun:
        found = self._next(request, self.begins)
        assert isinstance(found, BegunRun)
        return found

    @activity.defn(name="record_run")
    async def record_run(self, request: RecordRunInput) -> RecordedRun:
        found = self._next(request, self.records)
        assert isinstance(found, RecordedRun)
        return found

    @activity.defn(name="write_run_works")
    async def write_run_works(self, request: WriteRunWorksInput) -> WrittenRunWorks:
        found = self._next(request, self.writes)
        assert isinstance(found, WrittenRunWorks)
        return found

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
        found = self._next(request, self.approvals)
        assert isinstance(found, ApprovedRun)
        return found

    @property
    def all(self) -> list[Any]:
        return [
            self.plan_run, self.take_snapshot, self.begin_run, self.record_run, self.write_run_works, self.await_run,
            self.approve_run,
        ]  # fmt: skip


@dataclass
class UpdateRunStage:
    """Ways to start and read an update run."""

    client: Client
    activities: ScriptedUpdateRuns
    cluster: str

    @property
    def workflow_id(self) -> str:
        return update_run_id(self.cluster, P, RUN, IDENTITY)

    async def start(self) -> WorkflowHandle[Any, UpdateRunResult]:
        starter = TemporalPlacements(self.client, cluster=self.cluster)
        await starter.start_update_run(P, RUN, IDENTITY, StreamRevisions(hub=3), "its state is Run")
        return self.handle

    async def runs(self) -> list[str]:
        """The runs of the chain, in order."""
        runs = [(await self.handle.describe()).run_id]
        while runs[0]:
            handle = self.client.get_workflow_handle(self.workflow_id, run_id=runs[0])
            started = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
            runs.insert(0, started.continued_execution_run_id)
        return runs[1:]

    async def until_asked(self, kind: type, times: int = 1) -> None:
        """Until activities were asked so often for this."""
        async with asyncio.timeout(30):
            while len(self.activities.requests(kind)) < times:
                await asyncio.sleep(0.02)

    @property
    def handle(self) -> WorkflowHandle[Any, UpdateRunResult]:
        return self.client.get_workflow_handle_for(StagedUpdateRun.run, self.workflow_id)


@asynccontextmanager
async def update_run_stage(client: Client, cluster: str = "") -> AsyncIterator[UpdateRunStage]:
    stage = UpdateRunStage(client, ScriptedUpdateRuns(), cluster or f"hub-{uuid.uuid4().hex[:8]}")
    async with Worker(
        client,
        task_queue=placement_queue(stage.cluster),
        workflows=[StagedUpdateRun],
        activities=stage.activities.all,
        workflow_runner=sandbox(),
    ):
        yield stage
