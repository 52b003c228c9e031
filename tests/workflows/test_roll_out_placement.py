"""Rollouts of placements on a real server: endings, order of the steps, signals, what the UI shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError, CancelledError

from tests import garbage
from tests.conftest import TemporalServer
from tests.workflows.rollout_stage import DONE, WAITING, P, RolloutStage, at, plan, rollout_stage, steps
from wharfinger.placement.contracts import placement_rollouts
from wharfinger.placement.contracts.placement_rollouts import (
    Awaited,
    AwaitResultsInput,
    ForgetContentsInput,
    ForgottenContents,
    PlannedRollout,
    PlanRolloutInput,
    TakenSnapshot,
    TakeSnapshotInput,
    WriteWorksInput,
    WrittenWorks,
)
from wharfinger.process.installation import register_search_attributes
from wharfinger.process.names import ROLL_OUT_PLACEMENT, SEARCH_OUTCOME, SEARCH_PLACEMENT, placement_queue


@pytest.fixture
async def stage(temporal_server: TemporalServer) -> AsyncIterator[RolloutStage]:
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    await register_search_attributes(client)
    async with rollout_stage(client) as stage:
        yield stage
    garbage.collect()


async def attributes(stage: RolloutStage) -> dict[str, Any]:
    described = await stage.handle.describe()
    return {pair.key.name: pair.value for pair in described.typed_search_attributes}


@pytest.mark.parametrize(
    ("ending", "outcome", "why"),
    [
        (DONE, "done", "snapshot 3; 2 of 2 ready (floor 0, ceiling 0)"),
        (plan(failed=("east",)), "stalled", "failed: east"),
        (plan(held=2), "stalled", "2 held by the budget"),
        (plan(trouble="it selects nothing"), "stalled", "it selects nothing"),
        (plan(gone=True), "gone", "nothing of it is on any member"),
    ],
    ids=["done", "failed", "held", "trouble", "gone"],
)
async def test_a_rollout_without_a_step_ends(
    stage: RolloutStage, ending: PlannedRollout, outcome: str, why: str
) -> None:
    stage.activities.plans = [plan(steps=steps("east", "west")), ending]
    result = await stage.run()
    assert (result.outcome, result.waves) == (outcome, 1)
    assert why in result.why
    assert stage.kinds() == "pwp"
    found = await attributes(stage)
    assert (found[SEARCH_PLACEMENT], found[SEARCH_OUTCOME]) == (P, outcome)


async def test_a_snapshot_is_taken_before_works_are_written(stage: RolloutStage) -> None:
    stage.activities.plans = [
        plan(snapshot_in=0.0, selected="stamp", steps=steps("east")),
        plan(steps=steps("east")),
        DONE,
    ]
    assert (await stage.run()).outcome == "done"
    assert stage.kinds() == "ptpwp"
    (taken,) = stage.activities.requests(TakeSnapshotInput)
    assert (taken.selected, taken.decision, taken.rollout) == ("stamp", 5, 7)
    (written,) = stage.activities.requests(WriteWorksInput)
    assert (written.snapshot, written.decision, written.rollout, written.losses) == (3, 5, 7, 4)
    plans = stage.activities.requests(PlanRolloutInput)
    assert [one.seen.hub for one in plans] == [3, 9, 12]


async def test_a_large_plan_is_written_in_parts_each_by_the_last_ones_wave(stage: RolloutStage) -> None:
    stage.activities.plans = [plan(steps=steps(*(f"m{number}" for number in range(130)))), DONE]
    stage.activities.writes = [WrittenWorks(outcome="written", rollout=number) for number in (11, 12, 13)]
    assert (await stage.run()).waves == 3
    written = stage.activities.requests(WriteWorksInput)
    assert [(len(one.steps), one.rollout) for one in written] == [(60, 7), (60, 11), (10, 12)]
    assert len({one.wave for one in written}) == 3


async def test_what_is_left_of_a_plan_is_dropped_when_something_moved(stage: RolloutStage) -> None:
    many = plan(steps=steps(*(f"m{number}" for number in range(130))))
    stage.activities.plans = [many, many, DONE]
    stage.activities.writes = [
        WrittenWorks(outcome="written", rollout=11, moved=("m1: losses",), seen=at(30)),
        WrittenWorks(outcome="contended", seen=at(40)),
    ]
    assert (await stage.run()).outcome == "done"
    assert stage.kinds() == "pwpwp"
    assert [one.seen.hub for one in stage.activities.requests(PlanRolloutInput)] == [3, 30, 40]


@pytest.mark.parametrize("outcome", ["contended", "gone"])
async def test_a_snapshot_that_was_not_taken_is_planned_again(stage: RolloutStage, outcome: Any) -> None:
    stage.activities.plans = [plan(snapshot_in=0.0), DONE]
    stage.activities.snapshots = [TakenSnapshot(outcome=outcome, seen=at(30))]
    assert (await stage.run()).outcome == "done"
    assert stage.kinds() == "ptp"


async def test_a_rollout_that_is_gone_forgets_its_snapshots_first(stage: RolloutStage) -> None:
    stage.activities.plans = [plan(gone=True, forgets=True), plan(gone=True, forgets=True), plan(gone=True)]
    stage.activities.forgets = [
        ForgottenContents(outcome="contended", seen=at(30)),
        ForgottenContents(outcome="forgotten", seen=at(40)),
    ]
    assert (await stage.run()).outcome == "gone"
    assert stage.kinds() == "pfpfp"
    assert [one.decision for one in stage.activities.requests(ForgetContentsInput)] == [5, 5]
    assert [one.seen.hub for one in stage.activities.requests(PlanRolloutInput)] == [3, 30, 40]


async def test_results_are_awaited_and_what_follows_is_written(stage: RolloutStage) -> None:
    stage.activities.plans = [plan(steps=steps("east")), WAITING, plan(steps=steps("west")), WAITING, DONE]
    stage.activities.waits = [Awaited(news=True, seen=at(15)), Awaited(news=True, seen=at(16))]
    result = await stage.run()
    assert (result.outcome, result.waves, stage.kinds()) == ("done", 2, "pwpapwpap")
    assert [one.seconds for one in stage.activities.requests(AwaitResultsInput)] == [60.0, 60.0]


async def test_a_wait_is_as_long_as_the_shortest_timer(stage: RolloutStage) -> None:
    stage.activities.plans = [plan(timer=7.5, snapshot_in=20.0, held=1), plan(snapshot_in=12.5), DONE]
    assert (await stage.run()).outcome == "done"
    assert [one.seconds for one in stage.activities.requests(AwaitResultsInput)] == [7.5, 12.5]


@pytest.mark.parametrize("awaited", [{"waiting": ("east",)}, {"away": ("east",)}])
async def test_a_rollout_that_waits_in_vain_ends_as_stalled(
    stage: RolloutStage, awaited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement_rollouts, "PATIENCE", 0.001)
    stage.activities.plans = [plan(**awaited)]
    stage.activities.waits = [Awaited(news=False, seen=at(15))]
    result = await stage.run()
    assert result.outcome == "stalled"
    assert "east" in result.why
    assert "a" in stage.kinds()


async def test_a_poke_ends_a_wait(stage: RolloutStage) -> None:
    stage.activities.plans = [WAITING, DONE]
    stage.activities.waits_for_ever = True
    handle = await stage.start()
    await stage.activities.is_waiting.wait()
    await handle.signal("poke")
    assert (await handle.result()).outcome == "done"
    assert stage.kinds() == "pap"


async def test_a_poke_before_a_wait_is_not_lost(stage: RolloutStage) -> None:
    """It comes while works are written; the plan after them is made with it."""
    stage.activities.plans = [plan(steps=steps("east")), WAITING, DONE]

    async def poke() -> None:
        await stage.handle.signal("poke")

    stage.activities.on_write = poke
    stage.activities.waits = [Awaited(news=True, seen=at(15))]
    assert (await stage.run()).outcome == "done"


async def test_a_rollout_that_is_cancelled_ends_cancelled(stage: RolloutStage) -> None:
    stage.activities.plans = [WAITING]
    stage.activities.waits_for_ever = True
    handle = await stage.start()
    await stage.activities.is_waiting.wait()
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, CancelledError)
    assert (await attributes(stage))[SEARCH_OUTCOME] == "cancelled"


async def test_a_long_history_continues_as_a_new_run(stage: RolloutStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_rollouts, "EVENTS", 10)
    stage.activities.plans = [plan(steps=steps("east")), plan(steps=steps("west")), DONE]
    result = await stage.run()
    assert (result.outcome, result.waves) == ("done", 2)
    plans = stage.activities.requests(PlanRolloutInput)
    assert len({one.run_id for one in plans}) > 1
    assert plans[-1].seen.hub == 12
    assert (await attributes(stage))[SEARCH_PLACEMENT] == P


async def test_a_large_history_continues_as_a_new_run(stage: RolloutStage) -> None:
    """Temporal asks for it long before there are too many events: plans of many members are large."""
    large = plan(steps=steps("east"), selected="x" * 1_200_000)
    stage.activities.plans = [large, large, large, large, large, DONE]
    assert (await stage.run()).outcome == "done"
    assert len({one.run_id for one in stage.activities.requests(PlanRolloutInput)}) > 1


async def test_a_plan_is_tried_until_the_hub_has_seen_enough(stage: RolloutStage) -> None:
    stage.activities.plans = [ApplicationError("behind", type="Behind"), DONE]
    assert (await stage.run()).outcome == "done"


async def test_a_wrong_workflow_id_fails_for_good(stage: RolloutStage) -> None:
    stage.activities.plans = [ApplicationError("wrong", type="WrongWorkflowId", non_retryable=True)]
    handle = await stage.start()
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "WrongWorkflowId"
    assert stage.kinds() == "p"
    assert (await attributes(stage))[SEARCH_OUTCOME] == "error"


@pytest.mark.parametrize("given", [None, {}, {"placement": ""}, {"placement": "x" * 401}])
async def test_an_input_that_names_no_placement_fails_for_good(stage: RolloutStage, given: object) -> None:
    handle = await stage.client.start_workflow(
        ROLL_OUT_PLACEMENT, given, id=stage.workflow_id, task_queue=placement_queue(stage.cluster)
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "InvalidInput"


async def test_a_client_needs_to_name_the_placement_only(stage: RolloutStage) -> None:
    handle = await stage.client.start_workflow(
        ROLL_OUT_PLACEMENT, {"placement": P}, id=stage.workflow_id, task_queue=placement_queue(stage.cluster)
    )
    assert (await handle.result())["outcome"] == "done"
    assert (await attributes(stage))[SEARCH_PLACEMENT] == P


async def test_the_history_reads_like_a_story(stage: RolloutStage) -> None:
    stage.activities.plans = [plan(snapshot_in=0.0), plan(steps=steps("east", "west")), WAITING, DONE]
    await stage.run()
    history = await stage.handle.fetch_history()
    summaries = [event.user_metadata.summary.data.decode().strip('"') for event in history.events]
    told = [one for one in summaries if one and not one.endswith("what follows")]
    assert told == [
        "placement cluster/web",
        "cluster/web: read what is selected",
        "snapshot 3: add east, west",
        "cluster/web: wait for results",
    ]
