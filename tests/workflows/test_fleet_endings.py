"""Reconcile signals at the end of a run or the beginning of the next one: Temporal has accepted each of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from tests import garbage
from tests.conftest import TemporalServer
from tests.patience import patient
from tests.workflows.conftest import sandbox
from wharfinger.fleet.contracts.actors import FleetInput
from wharfinger.fleet.contracts.fleets import PlanInput, Planned, RecordedFleet, RecordInput
from wharfinger.fleet.model.rollout import Memory, Plan, Writes
from wharfinger.process.names import FLEET, control_queue, fleet_workflow_id
from wharfinger.workflows.fleet import Fleet


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    garbage.collect()


async def test_reconcile_signal_during_the_last_removal_is_handled(
    temporal_server: TemporalServer,
) -> None:
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    cluster = f"test-{uuid.uuid4().hex[:8]}"
    fleet_id = fleet_workflow_id(cluster, "blue")
    done: list[PlanInput | RecordInput] = []

    @activity.defn(name="plan")
    async def plan(request: PlanInput) -> Planned:
        written = any(isinstance(one, RecordInput) for one in done)
        done.append(request)
        writes = Writes() if written else Writes(end=True)
        return Planned(plan=Plan(memory=Memory(), writes=writes, ended=True), read_at=1)

    @activity.defn(name="record_fleet")
    async def record_fleet(request: RecordInput) -> RecordedFleet:
        done.append(request)
        await client.get_workflow_handle(fleet_id).signal("poke")
        return RecordedFleet(epoch=1, ended=True)

    async with Worker(
        client,
        task_queue=control_queue(cluster),
        workflows=[Fleet],
        activities=[plan, record_fleet],
        workflow_runner=sandbox(),
    ):
        await client.execute_workflow(FLEET, FleetInput(tenant="blue"), id=fleet_id, task_queue=control_queue(cluster))

    # How often it looks is not promised: an answer that came late is not followed.
    last = done[-1]
    assert isinstance(last, PlanInput)
    assert last.epoch == 0


async def test_unforwarded_reconcile_signal_is_forwarded_by_the_continued_run(
    temporal_server: TemporalServer,
) -> None:
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    cluster = f"test-{uuid.uuid4().hex[:8]}"
    looks: list[PlanInput] = []

    @activity.defn(name="plan")
    async def plan(request: PlanInput) -> Planned:
        looks.append(request)
        return Planned(plan=Plan(memory=Memory(), ended=True), read_at=1)

    async with Worker(
        client,
        task_queue=control_queue(cluster),
        workflows=[Fleet],
        activities=[plan],
        workflow_runner=sandbox(),
    ):
        async with asyncio.timeout(patient(60)):  # without a poke it looks after 5 minutes
            await client.execute_workflow(
                FLEET,
                FleetInput(tenant="blue", rollout=5, poked=True),
                id=fleet_workflow_id(cluster, "blue"),
                task_queue=control_queue(cluster),
            )

    assert looks[0].generation == 5
