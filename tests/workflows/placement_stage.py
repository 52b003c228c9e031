"""A worker that runs `SchedulePlacement` on the real server, with scripted activities."""

from __future__ import annotations

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
from wharfinger.contracts.names import placement_queue, placement_workflow_id
from wharfinger.contracts.placements import (
    CommitDecisionInput,
    CommittedPlacement,
    DecidedPlacement,
    DecideInput,
    PlacementActivities,
    PlacementAttemptResult,
    RefusedBy,
    StreamRevisions,
)
from wharfinger.workflows.schedule_placement import SchedulePlacement

P = "cluster/web"
CHOSEN = DecidedPlacement(
    action="store",
    decision="eJw=",
    fulfilled=True,
    condition="found all cluster needed as specified by the scheduling policy, found 2 cluster(s)",
    chosen=2,
    added=("east", "west"),
    refused=(RefusedBy(plugin="TaintToleration", reason="taint cannot be tolerated", members=3),),
    token="t",
)
TOO_FEW = CHOSEN.model_copy(update={"fulfilled": False, "added": ("east",), "chosen": 1})
NOTHING = DecidedPlacement(action="nothing", chosen=2)
REMOVE = DecidedPlacement(action="remove")
COMMITTED = CommittedPlacement(outcome="committed", revision=9)
CONTENDED = CommittedPlacement(outcome="contended", seen=StreamRevisions(hub=12), moved="its decision")


@dataclass
class ScriptedPlacements(Scripted, PlacementActivities):
    """Answers in turn what the test wrote down, the last answer for ever."""

    decisions: list[DecidedPlacement | BaseException] = field(default_factory=lambda: [CHOSEN])
    commits: list[CommittedPlacement | BaseException] = field(default_factory=lambda: [COMMITTED])

    @activity.defn(name="decide")
    async def decide(self, request: DecideInput) -> DecidedPlacement:
        found = self._next(request, self.decisions)
        assert isinstance(found, DecidedPlacement)
        return found

    @activity.defn(name="commit_decision")
    async def commit_decision(self, request: CommitDecisionInput) -> CommittedPlacement:
        found = self._next(request, self.commits)
        assert isinstance(found, CommittedPlacement)
        return found


@dataclass
class PlacementStage:
    """Ways to start and read a placement's attempts."""

    client: Client
    activities: ScriptedPlacements
    cluster: str

    @property
    def workflow_id(self) -> str:
        return placement_workflow_id(self.cluster, P)

    async def start(self, cause: str = "edited") -> WorkflowHandle[Any, PlacementAttemptResult]:
        starter = TemporalPlacements(self.client, cluster=self.cluster)
        await starter.start(P, StreamRevisions(members=1, objects=2, hub=3), cause)
        return self.handle

    async def runs(self) -> list[str]:
        """The runs of the placement's chain, in order."""
        runs = [(await self.handle.describe()).run_id]
        while runs[0]:
            handle = self.client.get_workflow_handle(self.workflow_id, run_id=runs[0])
            started = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
            runs.insert(0, started.continued_execution_run_id)
        return runs[1:]

    @property
    def handle(self) -> WorkflowHandle[Any, PlacementAttemptResult]:
        return self.client.get_workflow_handle_for(SchedulePlacement.run, self.workflow_id)


@asynccontextmanager
async def placement_stage(client: Client, cluster: str = "") -> AsyncIterator[PlacementStage]:
    stage = PlacementStage(client, ScriptedPlacements(), cluster or f"hub-{uuid.uuid4().hex[:8]}")
    activities = stage.activities
    async with Worker(
        client,
        task_queue=placement_queue(stage.cluster),
        workflows=[SchedulePlacement],
        activities=[activities.decide, activities.commit_decision],
        workflow_runner=sandbox(),
    ):
        yield stage
