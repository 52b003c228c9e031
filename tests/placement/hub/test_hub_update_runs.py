"""A whole hub on real servers delivers stage by stage: approval, stop, resume, another hub that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client

from tests.placement.hub.test_hub import WEB, World, client, store, until_seen
from tests.placement.run_scene import APPROVAL, external, stage, strategy_object
from wharfinger.errors import NotFound, UsageError
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord
from wharfinger.placement.reading.update_runs import UpdateRuns
from wharfinger.process.names import update_run_id

__all__ = ["client", "store"]
RUN = "release"
PROD = stage("prod", maxConcurrency=2, beforeStageTasks=[APPROVAL]) | {
    "labelSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["west"]}]}
}


@pytest.fixture
async def world(store: EtcdStore, client: Client) -> World:
    world = World(store, client)
    for name, region in (("a", "east"), ("b", "east"), ("c", "west")):
        await world.member(name, labels={"region": region})
    await world.put(strategy_object(stage("canary", {"region": "east"}), PROD))
    await world.put(external())
    return world


@asynccontextmanager
async def agents(world: World) -> AsyncIterator[None]:
    """Agents that call everything available at once."""

    async def report() -> None:
        while True:
            async for page in world.store.list(placement_keys.work.below(WEB)):
                for kv in page.items:
                    work, member = WorkRecord.model_validate_json(kv.value), kv.key.rpartition("/")[2]
                    result = ResultRecord(counter=work.counter, identity=work.identity, applied=True, available=True)
                    await world.store.put(placement_keys.result(WEB, member), result.to_bytes())
            await asyncio.sleep(0.2)

    running = asyncio.create_task(report())
    yield
    running.cancel()


async def delivered(world: World) -> list[str]:
    return [kv.key[-1] async for page in world.store.list(placement_keys.work.below(WEB)) for kv in page.items]


async def test_a_run_waits_for_its_approval_and_outlives_its_hub(world: World) -> None:
    runs = UpdateRuns(world.store)

    async def phase() -> str:
        try:
            return str((await runs.status(RUN))["phase"])
        except NotFound:
            return ""

    async def is_phase(wanted: str) -> bool:
        return await phase() == wanted

    async with agents(world):
        async with world.hub("h1"):
            await runs.start(RUN, placement="web", strategy="slowly")
            await until_seen(lambda: is_phase("waiting"))
            assert await delivered(world) == ["a", "b"]
            with pytest.raises(UsageError, match="does not wait for approval prod"):
                await runs.approve(RUN, "prod", "after")
            await runs.stop(RUN)
            await until_seen(lambda: is_phase("stopped"))
        await runs.resume(RUN)
        async with world.hub("h2") as hub:
            await until_seen(lambda: is_phase("waiting"))
            kv = (await world.store.get(placement_keys.update_run("", RUN))).kv
            assert kv is not None
            handle = world.client.get_workflow_handle(update_run_id(world.cluster, WEB, RUN, kv.create_revision))

            async def approved() -> bool:
                try:
                    answered = await handle.execute_update("approve", {"stage": "prod", "when": "before", "who": "ann"})
                except Exception:  # the workflow has not looked yet
                    return False
                return bool(answered["outcome"] == "approved")

            await until_seen(approved)
            await until_seen(lambda: is_phase("succeeded"))
            assert await delivered(world) == ["a", "b", "c"]
            assert (await handle.result())["outcome"] == "succeeded"
            hub.refresh_metrics()
            await world.store.delete(placement_keys.update_run("", RUN))

            async def forgotten() -> bool:
                return not [
                    kv async for page in world.store.list(placement_keys.run_record.prefix) for kv in page.items
                ]

            await until_seen(forgotten)
