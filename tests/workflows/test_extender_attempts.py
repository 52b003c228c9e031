"""Attempts of pods that concern extenders: asked between two decisions, each answer a fact of the history."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.exceptions import ApplicationError

from tests.workflows.conftest import Stage, asking, gone, placed, preempting, refused
from wharfinger.process.names import FailureType
from wharfinger.scheduling.contracts.attempts import AttemptResult, Wake
from wharfinger.scheduling.contracts.extenders import NO_ANSWERS, ExtenderAnswers, ExtendersAnswered, ExtendersFailed
from wharfinger.scheduling.contracts.scheduling import ASK_LIMIT, AskInput, BindInput, PlaceInput, RefusalInput

NODES, VICTIMS = ExtendersAnswered(answer="nodes"), ExtendersAnswered(answer="victims")


async def scheduled(stage: Stage, workflow_id: str) -> list[Any]:
    """The ordinary activities of the first run, as they were scheduled."""
    first = (await stage.runs(workflow_id))[0]
    return [
        event.activity_task_scheduled_event_attributes
        for event in await stage.events(workflow_id, first)
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]


async def test_a_pod_is_placed_by_what_extenders_answered(stage: Stage) -> None:
    stage.activities.places, stage.activities.answers = [asking(), placed()], [NODES]
    handle = await stage.start()

    assert await handle.result() == AttemptResult(outcome="bound", node="node-1", attempt=1)
    first, second = stage.activities.requests(PlaceInput)
    assert (first.answers, second.answers) == (NO_ANSWERS, ExtenderAnswers(nodes="nodes", rounds=1))
    assert second.model_copy(update={"answers": NO_ANSWERS}) == first
    [asked] = stage.activities.requests(AskInput)
    assert (asked.namespace, asked.name, asked.ask) == ("default", "web-1", asking())


async def test_the_calls_have_the_time_that_the_extenders_may_take(stage: Stage) -> None:
    stage.activities.places = [asking(), placed()]
    handle = await stage.start()
    await handle.result()

    ask, bind = await scheduled(stage, handle.id)
    assert (ask.activity_type.name, bind.activity_type.name) == ("ask_extenders", "bind")
    assert ask.start_to_close_timeout.ToSeconds() == asking().seconds + ASK_LIMIT
    assert ask.retry_policy.maximum_attempts == 0


async def test_a_bind_has_the_time_of_the_extender_that_binds(stage: Stage) -> None:
    stage.activities.places = [placed().model_copy(update={"bind_seconds": 40.0}), placed()]
    handle = await stage.start()
    await handle.result()

    [bind] = await scheduled(stage, handle.id)
    assert bind.start_to_close_timeout.ToSeconds() == 43


async def test_a_nomination_is_recorded_with_the_answers_behind_it(stage: Stage) -> None:
    """`record_refusal` looks once more whether the victims help: without the answers every node would seem to fit."""
    stage.activities.places = [asking(), asking("victims"), preempting(), placed(revision=20)]
    stage.activities.answers = [NODES, VICTIMS]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=15))
    await handle.result()

    answers = ExtenderAnswers(nodes="nodes", victims="victims", rounds=1)
    assert [one.answers for one in stage.activities.requests(PlaceInput)[:3]] == [
        NO_ANSWERS,
        ExtenderAnswers(nodes="nodes", rounds=1),
        answers,
    ]
    assert [one.answers for one in stage.activities.requests(RefusalInput)] == [answers]


async def test_a_refusal_without_victims_is_recorded_without_answers(stage: Stage) -> None:
    stage.activities.places = [asking(), refused(), placed(revision=20)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=15))
    await handle.result()

    assert [one.answers for one in stage.activities.requests(RefusalInput)] == [NO_ANSWERS]


async def test_the_next_attempt_asks_anew(stage: Stage) -> None:
    stage.activities.places = [asking(), refused(only_assumed=True), asking(), placed()]
    handle = await stage.start()
    await handle.result()

    assert [one.answers.rounds for one in stage.activities.requests(PlaceInput)] == [0, 1, 0, 1]
    assert len(stage.activities.requests(AskInput)) == 2


async def test_a_failed_extender_is_recorded_and_the_attempt_fails(stage: Stage) -> None:
    message = "extender at URL http://extender/filter: no answer within 5 s"
    stage.activities.places = [asking(), placed()]
    stage.activities.answers = [ExtendersFailed(extender="http://extender", verb="filter", message=message)]
    handle = await stage.start()

    failed = await stage.first_run_failed(handle)
    assert (failed.type, failed.message) == (FailureType.SCHEDULER_ERROR, message)
    [recorded] = stage.activities.requests(RefusalInput)
    assert (recorded.reason, recorded.message) == ("SchedulerError", message)
    assert not stage.activities.requests(BindInput)
    await handle.terminate()


@pytest.mark.parametrize("kind", ["Unavailable", "SchedulerError"])
async def test_an_error_while_asking_is_retried_only_when_it_may_pass(stage: Stage, kind: str) -> None:
    error = ApplicationError("etcd is away", type=kind, non_retryable=kind == "SchedulerError")
    stage.activities.places, stage.activities.answers = [asking(), placed()], [error, NODES]
    handle = await stage.start()

    if kind == "Unavailable":
        assert (await handle.result()).outcome == "bound"
        assert len(stage.activities.requests(AskInput)) == 2
        assert len(stage.activities.requests(PlaceInput)) == 2
    else:
        assert (await stage.first_run_failed(handle)).message == "etcd is away"
        await handle.terminate()


async def test_a_pod_that_is_gone_while_extenders_are_asked_ends_the_chain(stage: Stage) -> None:
    stage.activities.places, stage.activities.answers = [asking()], [gone("deleted")]
    handle = await stage.start()

    assert (await handle.result()).outcome == "gone"
    assert len(stage.activities.requests(PlaceInput)) == 1
