"""Attempts of placements on a real server: endings, retries, what the UI shows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError

from tests import garbage
from tests.conftest import TemporalServer
from tests.workflows.placement_stage import (
    CHOSEN,
    COMMITTED,
    CONTENDED,
    NOTHING,
    REMOVE,
    TOO_FEW,
    P,
    PlacementStage,
    placement_stage,
)
from wharfinger.placement.contracts.placements import (
    CommitDecisionInput,
    DecidedPlacement,
    DecideInput,
    StreamRevisions,
)
from wharfinger.process.installation import register_search_attributes
from wharfinger.process.names import SCHEDULE_PLACEMENT, SEARCH_OUTCOME, SEARCH_PLACEMENT, placement_queue


@pytest.fixture
async def stage(temporal_server: TemporalServer) -> AsyncIterator[PlacementStage]:
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    await register_search_attributes(client)
    async with placement_stage(client) as stage:
        yield stage
    garbage.collect()


@pytest.mark.parametrize(
    ("decided", "outcome"),
    [(CHOSEN, "fulfilled"), (TOO_FEW, "unfulfilled"), (NOTHING, "unchanged"), (REMOVE, "gone")],
    ids=["fulfilled", "unfulfilled", "unchanged", "gone"],
)
async def test_an_attempt_ends_as_it_was_decided(
    stage: PlacementStage, decided: DecidedPlacement, outcome: str
) -> None:
    stage.activities.decisions = [decided]
    handle = await stage.start()
    result = await handle.result()
    assert result.outcome == outcome
    described = await handle.describe()
    found = {pair.key.name: pair.value for pair in described.typed_search_attributes}
    assert (found[SEARCH_PLACEMENT], found[SEARCH_OUTCOME]) == (P, outcome)


async def test_a_run_has_fewer_than_twenty_events_and_reads_like_a_story(stage: PlacementStage) -> None:
    handle = await stage.start("member east changed")
    await handle.result()
    history = await handle.fetch_history()
    assert len(history.events) < 20
    summaries = [event.user_metadata.summary.data.decode().strip('"') for event in history.events]
    told = [summary for summary in summaries if summary]
    assert told[0] == "placement cluster/web"
    assert f"{P}: member east changed" in told
    assert any(summary.startswith("+ east, west; found all cluster needed") for summary in told)


async def test_a_contended_attempt_is_followed_by_one_that_has_seen_more(stage: PlacementStage) -> None:
    stage.activities.commits = [CONTENDED, COMMITTED]
    handle = await stage.start()
    assert (await handle.result()).outcome == "fulfilled"
    seen = [one.seen for one in stage.activities.asked if isinstance(one, DecideInput)]
    assert seen == [StreamRevisions(members=1, objects=2, hub=3), StreamRevisions(members=1, objects=2, hub=12)]
    assert len(await stage.runs()) == 2


async def test_a_decision_that_failed_is_made_anew_by_the_next_attempt(stage: PlacementStage) -> None:
    stage.activities.decisions = [ApplicationError("behind", type="Behind"), CHOSEN]
    handle = await stage.start()
    assert (await handle.result()).outcome == "fulfilled"


async def test_a_commit_is_tried_until_etcd_answers(stage: PlacementStage) -> None:
    stage.activities.commits = [ApplicationError("etcd does not answer", type="Unavailable"), COMMITTED]
    handle = await stage.start()
    assert (await handle.result()).outcome == "fulfilled"
    commits = [one for one in stage.activities.asked if isinstance(one, CommitDecisionInput)]
    assert len(commits) == 2
    assert commits[0].decided.token == commits[1].decided.token


async def test_a_client_needs_to_name_the_placement_only(stage: PlacementStage) -> None:
    handle = await stage.client.start_workflow(
        SCHEDULE_PLACEMENT,
        {"placement": P},
        id=stage.workflow_id,
        task_queue=placement_queue(stage.cluster),
    )
    assert (await handle.result())["outcome"] == "fulfilled"
    assert len(await stage.runs()) == 2


@pytest.mark.parametrize("given", [None, {}, {"placement": ""}, {"placement": "x" * 401}])
async def test_an_input_that_names_no_placement_fails_for_good(stage: PlacementStage, given: object) -> None:
    handle = await stage.client.start_workflow(
        SCHEDULE_PLACEMENT, given, id=stage.workflow_id, task_queue=placement_queue(stage.cluster)
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "InvalidInput"


async def test_a_run_that_is_cancelled_ends_cancelled(stage: PlacementStage) -> None:
    stage.activities.commits = [ApplicationError("etcd does not answer", type="Unavailable")]
    handle = await stage.start()
    while not any(
        event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        for event in (await handle.fetch_history()).events
    ):
        pass
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    described = await handle.describe()
    assert described.status is not None
    assert described.status.name == "CANCELED"
