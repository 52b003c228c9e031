"""A release whose workflow code does not fit open runs is deployed, and taken back."""

from __future__ import annotations

import asyncio
import logging
import uuid
from datetime import timedelta

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.conftest import TemporalServer
from tests.patience import patient
from tests.workflows.conftest import QUICK, ScriptedScheduling, Stage, placed, refused, worker_for
from tests.workflows.incompatible_release import SleepsFirst
from wharfinger.process.connecting import sdk_metrics
from wharfinger.process.names import SCHEDULE_ATTEMPT
from wharfinger.scheduling.contracts.attempts import AttemptResult, Wake, chain_retry


async def logged(caplog: pytest.LogCaptureFixture, event: str) -> str:
    """The first line of this event, as soon as there is one."""
    async with asyncio.timeout(patient(20)):
        while True:
            for record in caplog.records:
                if record.getMessage().startswith(event):
                    return record.getMessage()
            await asyncio.sleep(0.05)


async def test_an_open_run_outlives_a_release_whose_code_does_not_fit(
    temporal_server: TemporalServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    client = await Client.connect(
        temporal_server.address, data_converter=pydantic_data_converter, runtime=sdk_metrics().runtime
    )
    stage = Stage(client, ScriptedScheduling(places=[refused(), placed()]), cluster=f"test-{uuid.uuid4().hex[:8]}")
    async with worker_for(stage):
        handle = await client.start_workflow(
            SCHEDULE_ATTEMPT,
            {"namespace": "default", "name": "web", "uid": "uid-1", "timings": QUICK.model_dump()},
            id=stage.workflow_id("web"),
            task_queue=stage.queue,
            result_type=AttemptResult,
            retry_policy=chain_retry(QUICK),
            task_timeout=timedelta(seconds=1),
        )
        await stage.parked(handle.id)

    deployed = Worker(
        client, task_queue=stage.queue, workflows=[SleepsFirst], workflow_runner=UnsandboxedWorkflowRunner()
    )
    async with deployed:
        await handle.signal("wake", Wake())
        line = await logged(caplog, "workflow_task_failed")
        described = await handle.describe()
    assert f"run_id={handle.first_execution_run_id} " in line
    assert "Nondeterminism error" in line
    assert (described.status, described.run_id) == (WorkflowExecutionStatus.RUNNING, handle.first_execution_run_id)

    async with worker_for(stage):
        assert await handle.result() == AttemptResult(outcome="bound", node="node-1", attempt=2)
