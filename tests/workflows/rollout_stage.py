"""A worker that runs `RollOutPlacement` on the real server, with scripted activities."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle

from tests.workflows.conftest import Scripted
from tests.workflows.hub_stage import HubStage, P, hub_worker, unused_cluster
from wharfinger.placement.contracts.placement_rollouts import (
    Awaited,
    AwaitResultsInput,
    ForgetContentsInput,
    ForgottenContents,
    PlannedRollout,
    PlannedStep,
    PlanRolloutInput,
    RolloutActivities,
    RolloutResult,
    TakenSnapshot,
    TakeSnapshotInput,
    WriteWorksInput,
    WrittenWorks,
)
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.model.delivery import StepKind
from wharfinger.process.names import placement_rollout_id
from wharfinger.workflows.roll_out_placement import RollOutPlacement


def at(hub: int) -> StreamRevisions:
    return StreamRevisions(hub=hub)


def plan(**said: Any) -> PlannedRollout:
    usual = {"snapshot": 3, "target": 2, "ready": 2, "decision": 5, "rollout": 7, "losses": 4, "seen": at(8)}
    return PlannedRollout(**{**usual, **said})


def steps(*members: str) -> tuple[PlannedStep, ...]:
    return tuple(PlannedStep(member=name, kind=StepKind.ADD, counter=1) for name in members)


DONE, WAITING = plan(), plan(waiting=("east",), ready=1)


@dataclass
class ScriptedRollouts(Scripted, RolloutActivities):
    """Answers in turn what the test wrote down, the last answer for ever."""

    plans: list[Any] = field(default_factory=lambda: [DONE])
    snapshots: list[Any] = field(default_factory=lambda: [TakenSnapshot(outcome="taken", number=3, seen=at(9))])
    writes: list[Any] = field(default_factory=lambda: [WrittenWorks(outcome="written", rollout=8, seen=at(12))])
    forgets: list[Any] = field(default_factory=lambda: [ForgottenContents(outcome="forgotten", keys=2, seen=at(20))])
    waits: list[Any] = field(default_factory=lambda: [Awaited(news=True, seen=at(15))])
    on_write: Callable[[], Awaitable[None]] | None = None
    waits_for_ever: bool = False
    is_waiting: asyncio.Event = field(default_factory=asyncio.Event)

    @activity.defn(name="plan_rollout")
    async def plan_rollout(self, request: PlanRolloutInput) -> PlannedRollout:
        return self._next(request, self.plans)

    @activity.defn(name="take_snapshot")
    async def take_snapshot(self, request: TakeSnapshotInput) -> TakenSnapshot:
        return self._next(request, self.snapshots)

    @activity.defn(name="write_works")
    async def write_works(self, request: WriteWorksInput) -> WrittenWorks:
        if self.on_write is not None:
            await self.on_write()
        return self._next(request, self.writes)

    @activity.defn(name="forget_contents")
    async def forget_contents(self, request: ForgetContentsInput) -> ForgottenContents:
        return self._next(request, self.forgets)

    @activity.defn(name="await_results")
    async def await_results(self, request: AwaitResultsInput) -> Awaited:
        self.is_waiting.set()
        if self.waits_for_ever:
            self.asked.append(request)
            await asyncio.Event().wait()
        return self._next(request, self.waits)


class RolloutStage(HubStage[ScriptedRollouts]):
    """Ways to start and read a placement's rollout."""

    @property
    def workflow_id(self) -> str:
        return placement_rollout_id(self.cluster, P)

    @property
    def handle(self) -> WorkflowHandle[Any, RolloutResult]:
        return self.handle_of(RollOutPlacement.run)

    async def start(self) -> WorkflowHandle[Any, RolloutResult]:
        await self.starter.start_rollout(P, at(3), "decision changed")
        return self.handle

    async def run(self) -> RolloutResult:
        return await (await self.start()).result()

    def kinds(self) -> str:
        """What was asked, a letter each: plan, take, write, await, forget."""
        letters = {PlanRolloutInput: "p", TakeSnapshotInput: "t", WriteWorksInput: "w", AwaitResultsInput: "a"}
        return "".join(letters.get(type(one), "f") for one in self.activities.asked)


@asynccontextmanager
async def rollout_stage(client: Client, cluster: str = "") -> AsyncIterator[RolloutStage]:
    stage = RolloutStage(client, ScriptedRollouts(), cluster or unused_cluster())
    scripted = stage.activities
    activities = [
        scripted.plan_rollout,
        scripted.take_snapshot,
        scripted.write_works,
        scripted.forget_contents,
        scripted.await_results,
    ]
    async with hub_worker(client, stage.cluster, RollOutPlacement, activities):
        yield stage
