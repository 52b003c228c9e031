"""Asynchronous plugins in an attempt: each call is an activity, each answer is recorded, and the room is given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.exceptions import ApplicationError

from tests.workflows.conftest import Stage, agreed, held, step
from wharfinger.scheduling.contracts.plugin_calls import PLUGIN_FAILED, SLACK
from wharfinger.scheduling.contracts.scheduling import BindInput, Bound, CallInput, Contended, RefusalInput, Rejected

BOUND = Bound(node="node-1", revision=12)

pytestmark = pytest.mark.servers


def binds(stage: Stage) -> list[list[str]]:
    """Of each bind, the answers that it was given."""
    return [
        [f"{one.plugin} {one.code}" for one in request.calls.answers] if request.calls is not None else []
        for request in stage.activities.requests(BindInput)
    ]


async def scheduled(stage: Stage, workflow_id: str) -> list[str]:
    events = await stage.events(workflow_id)
    return [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]


async def test_plugins_are_called_in_order_and_the_pod_is_bound(stage: Stage) -> None:
    stage.activities.binds = [held(step("A"), step("B"), step("Crane", "Bind")), BOUND]
    stage.activities.calls = [agreed("A", data={"id": 1}), agreed("B", "skip"), agreed("Crane", point="Bind")]
    handle = await stage.start()
    result = await handle.result()

    assert (result.outcome, result.node) == ("bound", "node-1")
    assert await scheduled(stage, handle.id) == ["bind", "call_plugin", "call_plugin", "call_plugin", "bind"]
    asked = stage.activities.requests(CallInput)
    assert [(one.step.plugin, len(one.calls.answers)) for one in asked] == [("A", 0), ("B", 1), ("Crane", 2)]
    assert {one.calls.node for one in asked} == {"node-1"}
    assert binds(stage) == [[], ["A success", "B skip", "Crane success"]]


async def test_each_call_has_its_own_limits(stage: Stage) -> None:
    stage.activities.binds = [held(step(timeout=7, deadline=90, heartbeat=4, attempts=3)), BOUND]
    handle = await stage.start()
    await handle.result()

    (event,) = [
        event.activity_task_scheduled_event_attributes
        for event in await stage.events(handle.id)
        if event.activity_task_scheduled_event_attributes.activity_type.name == "call_plugin"
    ]
    assert event.start_to_close_timeout.ToTimedelta().total_seconds() == 7 + SLACK
    assert 90 < event.schedule_to_close_timeout.ToTimedelta().total_seconds() <= 90 + SLACK
    assert (event.heartbeat_timeout.ToTimedelta().total_seconds(), event.retry_policy.maximum_attempts) == (4, 3)


async def test_a_refusal_ends_the_calls_and_parks_the_run(stage: Stage) -> None:
    stage.activities.binds = [held(step("A"), step("B")), Rejected(plugin="A", message="no licence"), BOUND]
    stage.activities.calls = [agreed("A", "refused", message="no licence")]
    handle = await stage.start()
    await stage.parked(handle.id)

    assert binds(stage) == [[], ["A refused"]]
    (record,) = stage.activities.requests(RefusalInput)
    assert (record.message, record.rejectors, record.reason) == ("no licence", ("A",), "Unschedulable")
    await handle.cancel()


async def test_wait_is_called_again_after_a_pause(stage: Stage) -> None:
    stage.activities.binds = [held(), BOUND]
    stage.activities.calls = [agreed(code="wait", message="attaching"), agreed()]
    handle = await stage.start()
    await handle.result()

    assert await scheduled(stage, handle.id) == ["bind", "call_plugin", "call_plugin", "bind"]
    assert binds(stage) == [[], ["Licences success"]]


async def test_what_raises_is_tried_again_within_the_same_activity(stage: Stage) -> None:
    stage.activities.binds = [held(), BOUND]
    stage.activities.calls = [ApplicationError("ConnectionError: refused", type=PLUGIN_FAILED), agreed()]
    handle = await stage.start()
    await handle.result()

    assert await scheduled(stage, handle.id) == ["bind", "call_plugin", "bind"]
    assert len(stage.activities.requests(CallInput)) == 2


async def test_a_plugin_that_keeps_raising_is_an_error(stage: Stage) -> None:
    stage.activities.binds = [held(step(attempts=1)), Contended(message="given back"), BOUND]
    stage.activities.calls = [ApplicationError("ConnectionError: refused", type=PLUGIN_FAILED)]
    handle = await stage.start()
    await stage.first_run_failed(handle)
    answers = stage.activities.requests(BindInput)[1].calls.answers
    assert [(one.code, one.message) for one in answers] == [("error", "ConnectionError: refused")]
    await handle.terminate()


async def test_a_plugin_that_waits_beyond_its_deadline_is_an_error(stage: Stage) -> None:
    stage.activities.binds = [held(step(deadline=0.7)), Contended(message="given back"), BOUND]
    stage.activities.calls = [agreed(code="wait", message="attaching")]
    handle = await stage.start()
    await stage.first_run_failed(handle)
    (answer,) = stage.activities.requests(BindInput)[1].calls.answers
    assert (answer.code, answer.message) == ("error", "it did not agree within 0.7 s: attaching")
    await handle.terminate()


async def test_a_cancelled_run_gives_the_room_back_first(stage: Stage) -> None:
    """The call is cancelled, then the room is given back by a bind, and only then the run ends."""
    called = asyncio.Event()

    async def hang() -> None:
        called.set()
        await stage.client.get_workflow_handle(stage.workflow_id("web-1")).cancel()
        await asyncio.Event().wait()

    stage.activities.on_call = hang
    stage.activities.binds = [held(step(timeout=1.0, heartbeat=1.0)), Contended(message="given back")]
    handle = await stage.start(name="web-1")
    await called.wait()
    await until_ended(stage, handle.id)

    assert binds(stage) == [[], ["Licences cancelled"]]
    last = (await stage.events(handle.id))[-1]
    assert last.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED
    assert (await stage.attributes(handle.id))["WharfingerOutcome"] == "cancelled"


async def until_ended(stage: Stage, workflow_id: str) -> None:
    handle: Any = stage.client.get_workflow_handle(workflow_id)
    while (await handle.describe()).close_time is None:
        await asyncio.sleep(0.05)


async def test_plugins_are_called_once_the_volumes_are_there(stage: Stage) -> None:
    preparing = BOUND.model_copy(update={"preparing": "claim data is being bound"})
    stage.activities.binds = [preparing, held(), BOUND]
    handle = await stage.start()
    result = await handle.result()
    assert result.outcome == "bound"
    assert await scheduled(stage, handle.id) == ["bind", "bind", "call_plugin", "bind"]


async def test_a_run_without_such_plugins_is_as_it_was(stage: Stage) -> None:
    handle = await stage.start()
    await handle.result()
    (event,) = [
        event.activity_task_scheduled_event_attributes
        for event in await stage.events(handle.id)
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    assert b"calls" not in event.input.payloads[0].data
    assert len(await stage.events(handle.id)) <= 14
