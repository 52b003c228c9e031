"""The measure that attempts are held against: a workflow of one trivial local and one trivial ordinary activity.

A plain process of its own (what a worker does about garbage is its own merit). Same worker options, start options,
data converter and number in flight as the real worker's, but no search attributes: attempts pay for theirs, and gain
by naming their build (docs/decisions/0019). Each counts from its start to its result. Prints
`{"seconds": ..., "lone": [...]}`: of all of them, and of each lone one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from datetime import timedelta
from typing import Any

import uvloop
from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from wharfinger.process.connecting import connect_temporal, sdk_metrics, temporal_configuration
from wharfinger.process.polling import worker_factory
from wharfinger.scheduling.contracts.attempts import AttemptTimings, chain_retry
from wharfinger.scheduling.effects.failures import PODS_AND_NODES
from wharfinger.scheduling.effects.open_runs import TASK_TIMEOUT
from wharfinger.settings import DispatchSettings, TemporalSettings, WorkerSettings

QUEUE = "bare"
TIMEOUT = timedelta(seconds=3)


class Item(BaseModel):
    """What goes in and out."""

    number: str


@workflow.defn
class Bare:
    """One trivial local activity, then one trivial ordinary one."""

    @workflow.run
    async def run(self, item: Item) -> Item:
        """Pass the item through both."""
        decided = await workflow.execute_local_activity("decide", item, start_to_close_timeout=TIMEOUT)
        return Item(**await workflow.execute_activity("commit", decided, start_to_close_timeout=TIMEOUT))


@activity.defn
async def decide(item: Item) -> Item:
    """Nothing."""
    return item


@activity.defn
async def commit(item: Item) -> Item:
    """Nothing."""
    return item


async def start(client: Client, number: str) -> WorkflowHandle[Any, Any]:
    """Start one as the dispatcher starts attempts."""
    return await client.start_workflow(
        Bare.run,
        Item(number=number),
        id=f"bare/{number}",
        task_queue=QUEUE,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        retry_policy=chain_retry(AttemptTimings()),
        task_timeout=TASK_TIMEOUT,
        request_eager_start=True,
    )


async def throughput(client: Client, name: str, count: int) -> float:
    """Seconds for all, as many in flight as the dispatcher has."""
    in_flight = asyncio.Semaphore(DispatchSettings().in_flight)

    async def one(number: str) -> None:
        async with in_flight:
            await (await start(client, number)).result()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for index in range(count):
            group.create_task(one(f"{name}-{index}"))
    return time.perf_counter() - began


async def latency(client: Client, name: str, count: int) -> list[float]:
    """Seconds from a lone workflow's start to its result, one after another."""
    taken = []
    for index in range(count):
        began = time.perf_counter()
        await (await start(client, f"{name}-{index}")).result()
        taken.append(time.perf_counter() - began)
    return taken


async def measure(address: str, workflows: int, lone: int) -> dict[str, Any]:
    """Run a worker, warm up, and measure."""
    settings = WorkerSettings()
    client = await connect_temporal(
        temporal_configuration(TemporalSettings(address=address, namespace="default")),
        identity=f"{os.getpid()}@bare",
        runtime=sdk_metrics().runtime,
        rng=random.Random(),
    )
    make = worker_factory(
        client,
        task_queue=QUEUE,
        workflows=[Bare],
        activities=[decide, commit],
        failures=PODS_AND_NODES,
        max_cached_workflows=settings.max_cached_workflows,
        drain_timeout=settings.drain_timeout,
    )
    async with make():
        name = f"{os.getpid()}"
        await throughput(client, f"{name}-warm", max(20, workflows // 10))
        taken = await latency(client, f"{name}-lone", lone)
        return {"seconds": await throughput(client, f"{name}-many", workflows), "lone": taken}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--temporal", required=True)
    parser.add_argument("--workflows", type=int, required=True)
    parser.add_argument("--lone", type=int, required=True)
    given = parser.parse_args()
    print(json.dumps(uvloop.run(measure(given.temporal, given.workflows, given.lone))))
    sys.stdout.flush()
    os._exit(0)  # the SDK's threads may abort an interpreter that is torn down
