"""A worker that runs `NodeEviction` on the real server, with scripted activities."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from tests.workflows.conftest import Scripted, sandbox
from wharfinger.process.names import node_workflow_id, task_queue
from wharfinger.scheduling.contracts.node_eviction import (
    Cleared,
    ClearInput,
    Looked,
    LookInput,
    NodeEvictions,
    NodeResult,
)
from wharfinger.scheduling.loops.node_evictions import TemporalNodes
from wharfinger.workflows.node_eviction import NodeEviction

NODE = "n1"
ABSENT = Looked(action="wait", why="node n1 does not exist", absent=True, seconds=60.0)
DUE = Looked(action="clear", why="requeue the 2 pods of absent node n1", absent=True)
EMPTY = Looked(action="done", why="node n1 does not exist and has no pods", absent=True)
THERE = Looked(action="done", why="node n1 is there")
GONE = Cleared(removed=2, made_anew=1, pods=("default/a", "default/b"))


@dataclass
class ScriptedNodes(Scripted, NodeEvictions):
    """Answers in turn what the test wrote down, the last answer for ever."""

    looks: list[Looked | BaseException] = field(default_factory=lambda: [THERE])
    clears: list[Cleared | BaseException] = field(default_factory=lambda: [GONE])
    while_looking: Callable[[], Awaitable[None]] | None = None
    """What happens before the next answer of `look_at_node`."""

    @activity.defn(name="look_at_node")
    async def look_at_node(self, request: LookInput) -> Looked:
        happens, self.while_looking = self.while_looking, None
        if happens is not None:
            await happens()
        return self._next(request, self.looks)

    @activity.defn(name="clear_node")
    async def clear_node(self, request: ClearInput) -> Cleared:
        return self._next(request, self.clears)


@dataclass
class NodeStage:
    """Ways to start and read a node's workflow."""

    client: Client
    activities: ScriptedNodes
    cluster: str

    @property
    def starter(self) -> TemporalNodes:
        return TemporalNodes(self.client, cluster=self.cluster, tenant="common")

    async def start(self, signal: str = "") -> WorkflowHandle[Any, NodeResult]:
        await self.starter.start(NODE, signal=signal, serves=lambda _: True)
        return self.handle

    @property
    def handle(self) -> WorkflowHandle[Any, NodeResult]:
        return self.client.get_workflow_handle_for(NodeEviction.run, node_workflow_id(self.cluster, NODE))

    async def timers(self, number: int) -> None:
        """Return once so many timers were started."""
        while True:
            events = [event async for event in self.handle.fetch_history_events()]
            if sum(event.event_type == EventType.EVENT_TYPE_TIMER_STARTED for event in events) >= number:
                return


@asynccontextmanager
async def node_stage(client: Client, cluster: str = "") -> AsyncIterator[NodeStage]:
    stage = NodeStage(client, ScriptedNodes(), cluster or f"node-{uuid.uuid4().hex[:8]}")
    activities = stage.activities
    async with Worker(
        client,
        task_queue=task_queue(stage.cluster),
        workflows=[NodeEviction],
        activities=[activities.look_at_node, activities.clear_node],
        workflow_runner=sandbox(),
    ):
        yield stage
