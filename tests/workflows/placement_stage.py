"""A worker that runs `SchedulePlacement` on the real server, with scripted activities."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle

from tests.workflows.conftest import Scripted
from tests.workflows.hub_stage import HubStage, P, hub_worker, unused_cluster
from wharfinger.placement.contracts.placements import (
    CommitDecisionInput,
    CommittedPlacement,
    DecidedPlacement,
    DecideInput,
    PlacementActivities,
    PlacementAttemptResult,
    RefusedBy,
    StreamRevisions,
)
from wharfinger.process.names import placement_workflow_id
from wharfinger.workflows.schedule_placement import SchedulePlacement

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
        return self._next(request, self.decisions)

    @activity.defn(name="commit_decision")
    async def commit_decision(self, request: CommitDecisionInput) -> CommittedPlacement:
        return self._next(request, self.commits)


class PlacementStage(HubStage[ScriptedPlacements]):
    """Ways to start and read a placement's attempts."""

    @property
    def workflow_id(self) -> str:
        return placement_workflow_id(self.cluster, P)

    async def start(self, cause: str = "edited") -> WorkflowHandle[Any, PlacementAttemptResult]:
        await self.starter.start(P, StreamRevisions(members=1, objects=2, hub=3), cause)
        return self.handle

    @property
    def handle(self) -> WorkflowHandle[Any, PlacementAttemptResult]:
        return self.handle_of(SchedulePlacement.run)


@asynccontextmanager
async def placement_stage(client: Client, cluster: str = "") -> AsyncIterator[PlacementStage]:
    stage = PlacementStage(client, ScriptedPlacements(), cluster or unused_cluster())
    activities = stage.activities
    async with hub_worker(client, stage.cluster, SchedulePlacement, [activities.decide, activities.commit_decision]):
        yield stage
