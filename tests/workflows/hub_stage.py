"""What stages of a hub's workflows share: one worker of one workflow, and the chain of runs under one workflow id."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from tests.patience import patient
from tests.workflows.conftest import Scripted, sandbox
from wharfinger.placement.reading.placement_starts import TemporalPlacements
from wharfinger.process.names import placement_queue

P = "cluster/web"

Activities = TypeVar("Activities", bound=Scripted)


def unused_cluster() -> str:
    """The name of a hub that no other test has."""
    return f"hub-{uuid.uuid4().hex[:8]}"


def hub_worker(client: Client, cluster: str, workflow: type, activities: Sequence[Callable[..., Any]]) -> Worker:
    """A sandboxed worker of a hub for one workflow."""
    return Worker(
        client,
        task_queue=placement_queue(cluster),
        workflows=[workflow],
        activities=activities,
        workflow_runner=sandbox(),
    )


@dataclass
class HubStage(Generic[Activities]):
    """Ways to start and read one workflow of a hub."""

    client: Client
    activities: Activities
    cluster: str

    @property
    def workflow_id(self) -> str:
        raise NotImplementedError

    @property
    def starter(self) -> TemporalPlacements:
        """Starts workflows as a hub does."""
        return TemporalPlacements(self.client, cluster=self.cluster)

    def handle_of(self, run: Any) -> WorkflowHandle[Any, Any]:
        """The handle of the stage's workflow, whose `run` method this is."""
        return self.client.get_workflow_handle_for(run, self.workflow_id)

    async def runs(self) -> list[str]:
        """The runs of the chain, in order."""
        newest = self.client.get_workflow_handle(self.workflow_id)
        runs = [(await newest.describe()).run_id]
        while runs[0]:
            handle = self.client.get_workflow_handle(self.workflow_id, run_id=runs[0])
            started = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
            runs.insert(0, started.continued_execution_run_id)
        return runs[1:]

    async def until_asked(self, kind: type, times: int = 1) -> None:
        """Return once activities were asked so often for this."""
        async with asyncio.timeout(patient(30)):
            while len(self.activities.requests(kind)) < times:
                await asyncio.sleep(0.02)
