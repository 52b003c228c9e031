"""`NodeEviction` on the real server: what it waits for, and when it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError

from tests.conftest import TemporalServer
from tests.workflows.node_stage import ABSENT, DUE, EMPTY, GONE, NODE, THERE, NodeStage, node_stage
from wharfinger.scheduling.contracts.node_eviction import Cleared, ClearInput, LookInput, NodeResult
from wharfinger.scheduling.loops.node_evictions import TemporalNodes


@pytest.fixture
async def stage(temporal_server: TemporalServer) -> AsyncIterator[NodeStage]:
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    async with node_stage(client) as stage:
        yield stage


def looks(stage: NodeStage) -> list[LookInput]:
    return [one for one in stage.activities.asked if isinstance(one, LookInput)]


async def test_pods_are_requeued_after_the_wait(stage: NodeStage) -> None:
    stage.activities.looks = [ABSENT.model_copy(update={"seconds": 0.2}), DUE, EMPTY]

    handle = await stage.start()

    assert await handle.result() == NodeResult(outcome="cleared", removed=2, why=EMPTY.why)
    first, second, _ = looks(stage)
    assert first.absent_for == 0
    assert second.absent_for >= 0.2
    [cleared] = [one for one in stage.activities.asked if isinstance(one, ClearInput)]
    assert cleared.absent
    found = (await handle.describe()).search_attributes
    assert (found["WharfingerNode"], found["WharfingerOutcome"]) == ([NODE], ["cleared"])


async def test_node_that_returns_ends_the_wait(stage: NodeStage) -> None:
    stage.activities.looks = [ABSENT, THERE]
    handle = await stage.start()
    await stage.timers(1)

    await stage.starter.signal(NODE, "returned")

    assert (await handle.result()).outcome == "returned"
    assert not [one for one in stage.activities.asked if isinstance(one, ClearInput)]


async def test_clearing_that_waited_too_long_for_a_worker_is_looked_at_again(stage: NodeStage) -> None:
    stage.activities.looks = [DUE, DUE, EMPTY]
    stage.activities.clears = [Cleared(again=True), GONE]

    handle = await stage.start()

    assert await handle.result() == NodeResult(outcome="cleared", removed=2, why=EMPTY.why)
    assert len(looks(stage)) == 3


async def test_node_that_returned_while_it_was_looked_at_is_looked_at_again(stage: NodeStage) -> None:
    stage.activities.looks = [DUE, THERE]
    stage.activities.while_looking = lambda: stage.starter.signal(NODE, "returned")

    handle = await stage.start()

    assert (await handle.result()).outcome == "returned"
    assert not [one for one in stage.activities.asked if isinstance(one, ClearInput)]


async def test_node_that_flaps_is_waited_for_anew(stage: NodeStage) -> None:
    """The node returned and vanished again before the workflow looked."""
    stage.activities.looks = [ABSENT, ABSENT, THERE]
    handle = await stage.start()
    await stage.timers(1)

    await stage.starter.signal(NODE, "returned")
    await stage.timers(2)
    await stage.starter.signal(NODE, "poke")
    await handle.result()

    assert [one.absent_for == 0 for one in looks(stage)] == [True, True, False]


async def test_budget_that_is_used_up_is_waited_for(stage: NodeStage) -> None:
    held = Cleared(held=0.2, notes=("10 nodes were cleared within 300 s, 10 may be: only reported",))
    stage.activities.looks = [DUE, DUE, EMPTY]
    stage.activities.clears = [held, GONE]

    handle = await stage.start()

    assert (await handle.result()).removed == 2
    await stage.timers(1)


async def test_clearing_that_does_nothing_ends_the_run(stage: NodeStage) -> None:
    stage.activities.looks = [DUE]
    stage.activities.clears = [Cleared(notes=("default/a cannot be read",))]

    handle = await stage.start()

    assert await handle.result() == NodeResult(outcome="settled", removed=0, why="default/a cannot be read")


async def test_repeated_start_joins_the_open_run_and_signals_it(stage: NodeStage) -> None:
    stage.activities.looks = [ABSENT, THERE]
    handle = await stage.start()
    await stage.timers(1)
    before = (await handle.describe()).run_id

    await stage.start()
    await stage.start("poke")

    assert (await handle.result()).outcome == "returned"
    assert (await handle.describe()).run_id == before


async def test_run_on_a_task_queue_without_workers_is_replaced(stage: NodeStage) -> None:
    elsewhere = TemporalNodes(stage.client, cluster=stage.cluster, tenant="gold")
    await elsewhere.start(NODE, signal="", serves=lambda _: True)
    asked: list[str] = []

    def serves(tenant: str) -> bool:
        asked.append(tenant)
        return False

    await stage.starter.start(NODE, signal="", serves=serves)

    assert (await stage.handle.result()).outcome == "settled"
    assert asked == ["gold"]


async def test_activity_that_etcd_does_not_answer_is_tried_again(stage: NodeStage) -> None:
    stage.activities.looks = [ApplicationError("no answer", type="Unavailable"), DUE, EMPTY]
    stage.activities.clears = [ApplicationError("no answer", type="Unavailable"), GONE]

    assert (await (await stage.start()).result()).removed == 2


async def test_first_sight_of_a_taint_is_remembered(stage: NodeStage) -> None:
    seen = {"flaky=": "2026-03-01T12:00:00Z"}
    waits = ABSENT.model_copy(update={"absent": False, "seconds": 0.1, "tainted_since": seen})
    stage.activities.looks = [waits, THERE]

    await (await stage.start()).result()

    assert [one.tainted_since for one in looks(stage)] == [{}, seen]
