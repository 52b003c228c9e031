"""A client, a worker with the real activities on a store in memory, and the real Temporal server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from tests import garbage
from tests.conftest import TemporalServer
from tests.scheduling.world import Hand, World
from tests.workflows.conftest import sandbox
from wharfinger.client import Wharfinger
from wharfinger.process.failures import ActivityFailures
from wharfinger.process.names import task_queue
from wharfinger.scheduling.effects.failures import PODS_AND_NODES
from wharfinger.workflows.schedule_attempt import ScheduleAttempt


@dataclass
class Cluster:
    """A client, a worker and their store."""

    wharfinger: Wharfinger
    client: Client
    world: World
    hand: Hand
    name: str


@asynccontextmanager
async def running(temporal_server: TemporalServer, world: World, **hand: Any) -> AsyncIterator[Cluster]:
    """A cluster of a name of its own."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    made = await world.hand(cluster=name, **hand)
    async with Worker(
        client,
        task_queue=task_queue(name),
        workflows=[ScheduleAttempt],
        activities=made.activities.all,
        interceptors=[ActivityFailures(PODS_AND_NODES)],
        workflow_runner=sandbox(),
    ):
        yield Cluster(Wharfinger(client, world.store, cluster=name), client, world, made, name)
    garbage.collect()
