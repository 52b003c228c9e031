"""Staged update runs on a real server: endings, approvals, waits, what the UI shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError

from tests import garbage
from tests.conftest import TemporalServer
from tests.patience import patient
from tests.workflows.update_run_stage import (
    ASKS,
    BEGIN,
    DONE,
    IDENTITY,
    RUN,
    STAGE_OVER,
    STEP,
    WAITS,
    WRITES,
    P,
    UpdateRunStage,
    ending,
    update_run_stage,
)
from wharfinger.placement.contracts.placement_rollouts import TakenSnapshot, TakeSnapshotInput
from wharfinger.placement.contracts.update_runs import (
    ApproveRunInput,
    AwaitedRun,
    AwaitRunInput,
    BeginRunInput,
    BegunRun,
    PlannedRun,
    PlanRunInput,
    RecordedRun,
    RecordRunInput,
    WriteRunWorksInput,
    WrittenRunWorks,
)
from wharfinger.process.installation import register_search_attributes
from wharfinger.process.names import SEARCH_OUTCOME, SEARCH_PLACEMENT, STAGED_UPDATE_RUN, placement_queue
from wharfinger.workflows.staged_update_run import message

APPROVAL = {"stage": "prod", "when": "before", "who": "ann", "why": "looks well"}


@pytest.fixture
async def stage(temporal_server: TemporalServer) -> AsyncIterator[UpdateRunStage]:
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    await register_search_attributes(client)
    async with update_run_stage(client) as stage:
        yield stage
    garbage.collect()


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "aborted", "stopped", "planned", "superseded", "gone"])
async def test_a_run_ends_as_it_was_planned(stage: UpdateRunStage, outcome: str) -> None:
    stage.activities.plans = [ending(outcome, "so it is")]
    handle = await stage.start()
    result = await handle.result()
    assert (result.outcome, result.why) == (outcome, "so it is")
    described = await handle.describe()
    found = {pair.key.name: pair.value for pair in described.typed_search_attributes}
    assert (found[SEARCH_PLACEMENT], found[SEARCH_OUTCOME]) == (P, outcome)
    recorded = len(stage.activities.requests(RecordRunInput))
    assert recorded == (0 if outcome in ("gone", "planned") else 1)


async def test_progress_is_recorded_before_works_are_written(stage: UpdateRunStage) -> None:
    handle = await stage.start()
    assert (await handle.result()).outcome == "succeeded"
    kinds = [type(one) for one in stage.activities.asked]
    assert kinds == [
        PlanRunInput,
        BeginRunInput,
        PlanRunInput,
        RecordRunInput,
        WriteRunWorksInput,
        PlanRunInput,
        AwaitRunInput,
        PlanRunInput,
        RecordRunInput,
    ]
    (written,) = stage.activities.requests(WriteRunWorksInput)
    assert written.rollout == 9
    waves = [one.wave for one in stage.activities.requests(RecordRunInput)]
    assert len(set(waves)) == 2


async def test_a_run_reads_like_a_story(stage: UpdateRunStage) -> None:
    handle = await stage.start()
    await handle.result()
    history = await handle.fetch_history()
    assert len(history.events) < 60
    summaries = [event.user_metadata.summary.data.decode().strip('"') for event in history.events]
    assert "release: plan its stages for snapshot 1" in summaries
    assert "running: 0 of 3 members; 0 of 2 stages; writes a; waits for a" in summaries
    started = history.events[0].workflow_execution_started_event_attributes
    assert sum(len(one.data) for one in started.input.payloads) < 4096


async def test_a_snapshot_is_taken_where_the_run_names_none(stage: UpdateRunStage) -> None:
    stage.activities.plans = [BEGIN.model_copy(update={"named": None, "selected": "s", "rollout": 5}), DONE]
    await (await stage.start()).result()
    (taken,) = stage.activities.requests(TakeSnapshotInput)
    (begun,) = stage.activities.requests(BeginRunInput)
    assert (taken.role, taken.rollout, begun.snapshot, begun.rollout) == ("run", 5, 4, 8)


async def test_seen_seconds_of_waits_count_until_they_are_recorded(stage: UpdateRunStage) -> None:
    stage.activities.plans = [WAITS, WAITS, STEP.model_copy(update={"timer": 5.0}), WAITS, DONE]
    await (await stage.start()).result()
    assert [one.elapsed for one in stage.activities.requests(PlanRunInput)] == [0.0, 1.5, 3.0, 1.5, 3.0]


async def test_waits_with_a_timer_are_slices_of_a_minute(stage: UpdateRunStage) -> None:
    timed = [WAITS.model_copy(update={"timer": timer}) for timer in (3600.0, 0.2)]
    stage.activities.plans = [*timed, WAITS, DONE]
    await (await stage.start()).result()
    assert [one.seconds for one in stage.activities.requests(AwaitRunInput)] == [60.0, 1.0, 600.0]


async def test_a_rollback_that_begins_is_looked_at_again_at_once(stage: UpdateRunStage) -> None:
    stage.activities.plans = [STEP.model_copy(update={"timer": 0.0}), ending("failed")]
    assert (await (await stage.start()).result()).outcome == "failed"
    assert stage.activities.requests(AwaitRunInput) == []


async def test_a_new_run_begins_after_each_stage(stage: UpdateRunStage) -> None:
    stage.activities.plans = [WAITS, STAGE_OVER, STAGE_OVER.model_copy(update={"progress": ""}), DONE]
    handle = await stage.start()
    assert (await handle.result()).outcome == "succeeded"
    assert len(await stage.runs()) == 2
    assert {one.run for one in stage.activities.requests(PlanRunInput)} == {RUN}


@pytest.mark.parametrize("step", ["begin", "record", "write", "snapshot"])
async def test_where_others_were_first_it_is_planned_again(stage: UpdateRunStage, step: str) -> None:
    activities = stage.activities
    if step == "begin":
        activities.plans, activities.begins = [BEGIN, DONE], [BegunRun(outcome="contended")]
    elif step == "record":
        activities.plans = [STAGE_OVER, DONE]
        activities.records = [RecordedRun(outcome="contended"), RecordedRun(outcome="recorded", rollout=2)]
    elif step == "write":
        activities.plans, activities.writes = [WRITES, DONE], [WrittenRunWorks(moved=("a: its work",))]
    else:
        activities.plans = [BEGIN.model_copy(update={"named": None}), DONE]
        activities.snapshots = [TakenSnapshot(outcome="contended")]
    assert (await (await stage.start()).result()).outcome == "succeeded"
    assert len(await stage.runs()) == 1


async def test_a_message_ends_the_rest_after_trouble(stage: UpdateRunStage) -> None:
    """What is selected cannot be placed: the run looks again soon, and at once when it is poked."""
    stage.activities.plans = [BEGIN.model_copy(update={"named": None}), DONE]
    stage.activities.snapshots = [TakenSnapshot(outcome="trouble", why="it selects nothing")]
    handle = await stage.start()

    async def timers(kind: EventType.ValueType) -> int:
        return sum(event.event_type == kind for event in (await handle.fetch_history()).events)

    async with asyncio.timeout(patient(20)):
        while not await timers(EventType.EVENT_TYPE_TIMER_STARTED):
            await asyncio.sleep(0.02)
        await handle.signal("poke")
        assert (await handle.result()).outcome == "succeeded"
    assert len(stage.activities.requests(TakeSnapshotInput)) == 1
    assert await timers(EventType.EVENT_TYPE_TIMER_FIRED) == 0, "the rest of five seconds was not waited out"


async def test_activities_are_tried_until_etcd_answers(stage: UpdateRunStage) -> None:
    away = ApplicationError("etcd does not answer", type="Unavailable")
    stage.activities.records = [away, RecordedRun(outcome="recorded", rollout=9)]
    stage.activities.writes = [away, WrittenRunWorks(written=("a",))]
    stage.activities.waits = [away, AwaitedRun(news=True)]
    assert (await (await stage.start()).result()).outcome == "succeeded"
    first, again, *_ = stage.activities.requests(RecordRunInput)
    assert first.wave == again.wave


# --- messages ---


async def test_an_approval_is_taken_while_the_stage_waits_for_it(stage: UpdateRunStage) -> None:
    stage.activities.holds = asyncio.Event()
    stage.activities.plans = [ASKS, DONE]
    handle = await stage.start()
    await stage.until_asked(AwaitRunInput)
    assert await approve(handle) == "approved"
    assert (await handle.result()).outcome == "succeeded"
    (asked,) = stage.activities.requests(ApproveRunInput)
    assert (asked.approval.key, asked.approval.who, asked.identity) == ("prod.before", "ann", IDENTITY)


@pytest.mark.parametrize("changed", [{"when": "after"}, {"stage": "canary"}])
async def test_an_approval_that_is_not_awaited_is_refused(stage: UpdateRunStage, changed: dict[str, str]) -> None:
    stage.activities.holds = asyncio.Event()
    stage.activities.plans = [ASKS, DONE]
    handle = await stage.start()
    await stage.until_asked(AwaitRunInput)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await approve(handle, **changed)
    key = ".".join({**APPROVAL, **changed}[part] for part in ("stage", "when"))
    assert f"run release does not wait for approval {key}; it is: waiting" in str(refused.value.cause)
    assert stage.activities.requests(ApproveRunInput) == []
    await handle.terminate()


async def test_an_approval_that_was_given_is_refused_the_second_time(stage: UpdateRunStage) -> None:
    stage.activities.holds = asyncio.Event()
    stage.activities.plans = [ASKS, WAITS, DONE]
    handle = await stage.start()
    await stage.until_asked(AwaitRunInput)
    await approve(handle)
    with pytest.raises(WorkflowUpdateFailedError):
        await approve(handle)
    stage.activities.holds.set()
    await handle.result()


async def test_a_poke_looks_again_and_keeps_the_wait_under_way(stage: UpdateRunStage) -> None:
    stage.activities.holds = asyncio.Event()
    stage.activities.plans = [WAITS, WAITS, DONE]
    handle = await stage.start()
    await stage.until_asked(AwaitRunInput)
    await handle.signal("poke")
    await stage.until_asked(PlanRunInput, 2)
    stage.activities.holds.set()
    assert (await handle.result()).outcome == "succeeded"
    assert len(stage.activities.requests(AwaitRunInput)) == 1
    assert stage.activities.requests(PlanRunInput)[-1].elapsed == 1.5


# --- inputs ---


async def test_a_client_needs_to_name_the_run_only(stage: UpdateRunStage) -> None:
    handle = await stage.client.start_workflow(
        STAGED_UPDATE_RUN,
        {"placement": P, "run": RUN, "identity": IDENTITY},
        id=stage.workflow_id,
        task_queue=placement_queue(stage.cluster),
    )
    assert (await handle.result())["outcome"] == "succeeded"
    assert len(await stage.runs()) == 2


@pytest.mark.parametrize("given", [None, {"placement": P}, {"placement": P, "run": "", "identity": 1}])
async def test_an_input_that_names_no_run_fails_for_good(stage: UpdateRunStage, given: object) -> None:
    handle = await stage.client.start_workflow(
        STAGED_UPDATE_RUN, given, id=stage.workflow_id, task_queue=placement_queue(stage.cluster)
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "InvalidInput"


async def test_a_run_that_is_cancelled_ends_cancelled(stage: UpdateRunStage) -> None:
    stage.activities.holds = asyncio.Event()
    stage.activities.plans = [WAITS]
    handle = await stage.start()
    await stage.until_asked(AwaitRunInput)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    found = {pair.key.name: pair.value for pair in (await handle.describe()).typed_search_attributes}
    assert found[SEARCH_OUTCOME] == "cancelled"


async def approve(handle: Any, **changed: str) -> str:
    answered = await handle.execute_update("approve", {**APPROVAL, **changed})
    outcome: str = answered["outcome"]
    return outcome


def test_plans_are_told_as_sentences() -> None:
    assert message(PlannedRun(action="queue", why="waits for run x to end")) == "waits for run x to end"
    assert message(ASKS) == "waiting: 0 of 3 members; 0 of 2 stages; waits for approval prod.before"
