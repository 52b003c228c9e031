"""Every way an attempt can end, on the real server and in the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError, CancelledError

from tests.patience import patient
from tests.workflows.conftest import QUICK, Stage, gone, placed, preempting, refused
from wharfinger.scheduling.contracts.attempts import AttemptResult, AttemptTimings, GoneReason, PermitDecision, Wake
from wharfinger.scheduling.contracts.scheduling import (
    BindInput,
    Bound,
    Contended,
    Gone,
    PermitWait,
    Placed,
    PlaceInput,
    RefusalInput,
    Rejected,
)
from wharfinger.scheduling.reading.history import read_attempt


def types(events: list[Any]) -> list[str]:
    return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in events]


async def failure_of(handle: Any) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as raised:
        await handle.result()
    assert isinstance(raised.value.cause, ApplicationError)
    return raised.value.cause


# --- bound ----------------------------------------------------------------------------------------


async def test_a_pod_that_fits_is_placed_bound_and_found_by_its_attributes(stage: Stage) -> None:
    handle = await stage.start()

    assert await handle.result() == AttemptResult(outcome="bound", node="node-1", attempt=1)
    assert await stage.attributes(handle.id) == {
        "WharfingerPod": "default/web-1",
        "WharfingerOutcome": "bound",
        "WharfingerNode": "node-1",
    }


async def test_a_bound_run_has_at_most_fourteen_events_place_and_bind_among_them(stage: Stage) -> None:
    handle = await stage.start()
    await handle.result()

    events = await stage.events(handle.id)
    assert len(events) <= 14, types(events)
    assert types(events).count("MARKER_RECORDED") == 1
    assert [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ] == ["bind"]


async def test_outcome_and_node_come_in_one_upsert_of_the_last_task(stage: Stage) -> None:
    handle = await stage.start()
    await handle.result()

    assert types(await stage.events(handle.id))[-3:] == [
        "WORKFLOW_TASK_COMPLETED",
        "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
        "WORKFLOW_EXECUTION_COMPLETED",
    ]


async def test_the_ui_reads_like_a_story(stage: Stage) -> None:
    handle = await stage.start()
    await handle.result()

    events = await stage.events(handle.id)
    summaries = [event.user_metadata.summary.data.decode().strip('"') for event in events]
    assert [summary for summary in summaries if summary] == ["default/web-1", "default/web-1", "default/web-1 → node-1"]


async def test_a_chain_counts_on_from_earlier_attempts_of_its_pod(stage: Stage) -> None:
    """A cohort refused the pod twice, so the chain's first attempt is its third."""
    stage.activities.places = [refused(), placed()]
    handle = await stage.start(attempts_before=2)
    await stage.parked(handle.id)
    await handle.signal("wake", Wake())

    assert (await handle.result()).attempt == 4
    assert [one.attempt for one in stage.activities.requests(RefusalInput)] == [3]
    assert [one.attempt for one in stage.activities.requests(BindInput)] == [4]


async def test_a_parked_chain_counts_on_from_attempts_of_its_pod_in_groups(stage: Stage) -> None:
    """Two groups refused the pod while its chain was parked, so the chain's second attempt is the pod's fourth."""
    stage.activities.places = [refused(), refused(), placed()]
    handle = await stage.start()
    for run, attempts in enumerate((3, 4), 1):
        await stage.parked(handle.id, run=run)
        await handle.signal("wake", Wake(attempts=attempts))

    assert (await handle.result()).attempt == 5
    assert [one.attempt for one in stage.activities.requests(RefusalInput)] == [1, 4]
    assert [one.attempt for one in stage.activities.requests(BindInput)] == [5]
    shown = [read_attempt(handle.id, run, await stage.events(handle.id, run)) for run in await stage.runs(handle.id)]
    assert [one.attempt for one in shown if one is not None] == [1, 4, 5]


async def test_chain_that_tries_by_itself_counts_on_from_the_pods_record(stage: Stage) -> None:
    """Two groups refused the pod meanwhile, and no wake has their number; the next attempt is contended, unrecorded."""
    after_three = placed().model_copy(update={"attempts": 3})
    stage.activities.places = [refused(), after_three, after_three]
    stage.activities.binds = [Contended(message="taken"), Bound(node="node-1", revision=11)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake())

    assert (await handle.result()).attempt == 5
    assert [one.attempt for one in stage.activities.requests(BindInput)] == [4, 5]
    shown = [read_attempt(handle.id, run, await stage.events(handle.id, run)) for run in await stage.runs(handle.id)]
    assert [one.attempt for one in shown if one is not None] == [1, 4, 5]


async def test_a_repeated_start_joins_the_open_run_without_an_event(stage: Stage) -> None:
    stage.activities.places = [refused()]
    first = await stage.start(name="web-7")
    await stage.parked(first.id)
    before = len(await stage.events(first.id))

    second = await stage.start(name="web-7")

    assert second.id == first.id
    assert second.first_execution_run_id == first.first_execution_run_id
    assert len(await stage.events(first.id)) == before
    await first.terminate()


async def test_terminate_existing_begins_a_new_chain(stage: Stage) -> None:
    """Steps: a chain lies open (perhaps on an unpolled task queue); the pod's new owner takes it over."""
    stage.activities.places = [refused(), placed()]
    first = await stage.start(name="web-7")
    await stage.parked(first.id)

    second = await stage.start(name="web-7", terminate_existing=True)

    assert (await second.result()).outcome == "bound"
    assert second.first_execution_run_id != first.first_execution_run_id


# --- started by another client --------------------------------------------------------------------


HASTY = {"namespace": "default", "name": "web-1", "timings": {"bind_timeout": 1e-9}}


async def test_a_mapping_with_namespace_and_name_is_input_enough(stage: Stage) -> None:
    result = await stage.client.execute_workflow(
        "ScheduleAttempt",
        {"namespace": "default", "name": "web-1"},
        id=stage.workflow_id("web-1"),
        task_queue=stage.queue,
    )

    assert result == {"outcome": "bound", "node": "node-1", "attempt": 1}


async def test_run_without_the_retry_policy_continues_as_new_with_it(stage: Stage) -> None:
    """Steps: a person starts the workflow; its first failure would end it without a retry policy."""
    stage.activities.places = [ApplicationError("behind", type="Behind"), placed()]
    handle = await stage.client.start_workflow(
        "ScheduleAttempt",
        {"namespace": "default", "name": "web-1", "timings": {"backoff_initial": 0.05}},
        id=stage.workflow_id("web-1"),
        task_queue=stage.queue,
    )

    assert (await handle.result())["attempt"] == 2
    runs = await stage.runs(handle.id)
    assert len(runs) == 3
    assert types(await stage.events(handle.id, runs[0])) == [
        "WORKFLOW_EXECUTION_STARTED",
        "WORKFLOW_TASK_SCHEDULED",
        "WORKFLOW_TASK_STARTED",
        "WORKFLOW_TASK_COMPLETED",
        "WORKFLOW_EXECUTION_CONTINUED_AS_NEW",
    ]
    started = (await stage.events(handle.id, runs[1]))[0].workflow_execution_started_event_attributes
    assert (await stage.attributes(handle.id, runs[1]))["WharfingerPod"] == "default/web-1"
    assert started.retry_policy.initial_interval.ToMilliseconds() == 50


async def test_a_back_off_longer_than_the_longest_wedges_no_run(stage: Stage) -> None:
    """Steps: a person asks for 20 s, and knows nothing of the longest of 10 s; Temporal refuses such a policy."""
    handle = await stage.client.start_workflow(
        "ScheduleAttempt",
        {"namespace": "default", "name": "web-1", "timings": {"backoff_initial": 20}},
        id=stage.workflow_id("web-1"),
        task_queue=stage.queue,
    )

    assert (await asyncio.wait_for(handle.result(), patient(10)))["outcome"] == "bound"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [None],
        ["web-1"],
        [{"namespace": "default"}],
        [{"namespace": "", "name": ""}],
        [b"\xff\xfe"],
        [[1, 2]],
        [HASTY],
    ],
    ids=["nothing", "null", "a string", "no name", "empty names", "bytes", "a list", "no time to bind"],
)
async def test_input_that_names_no_pod_fails_the_run_for_good_with_one_line(stage: Stage, arguments: list[Any]) -> None:
    handle = await stage.client.start_workflow(
        "ScheduleAttempt", args=arguments, id=stage.workflow_id("bad"), task_queue=stage.queue
    )

    failure = await failure_of(handle)
    assert failure.type == "InvalidInput"
    assert "mapping with namespace and name" in failure.message
    assert "\n" not in failure.message
    assert stage.activities.asked == []


async def test_wrong_workflow_id_ends_the_chain_and_names_the_right_one(stage: Stage) -> None:
    stage.activities.places = [ApplicationError("the pod's own id is wharfinger/pod/a/b/c", type="WrongWorkflowId")]
    handle = await stage.start()

    failure = await failure_of(handle)
    assert (failure.type, failure.message) == ("WrongWorkflowId", "the pod's own id is wharfinger/pod/a/b/c")
    assert len(await stage.runs(handle.id)) == 1
    assert (await stage.attributes(handle.id))["WharfingerOutcome"] == "error"


# --- gone -----------------------------------------------------------------------------------------


WHERE = pytest.mark.parametrize("where", ["place", "bind", "record_refusal", "evict"])


def found_gone(stage: Stage, where: str, outcome: Gone) -> None:
    """Script the activities so that this one meets a pod that is not to be placed any more."""
    if where == "place":
        stage.activities.places = [outcome]
    elif where == "bind":
        stage.activities.binds = [outcome]
    elif where == "record_refusal":
        stage.activities.places, stage.activities.records = [refused()], [outcome]
    else:
        stage.activities.places = [preempting()]
        stage.activities.evictions = [outcome]


@WHERE
async def test_a_pod_bound_by_another_run_completes_the_chain_as_bound(stage: Stage, where: str) -> None:
    found_gone(stage, where, gone("bound", "node-9", bound_by="wharfinger/cohort/7@run"))
    handle = await stage.start()

    assert await handle.result() == AttemptResult(
        outcome="bound", node="node-9", attempt=1, bound_by="wharfinger/cohort/7@run"
    )
    attributes = await stage.attributes(handle.id)
    assert (attributes["WharfingerOutcome"], attributes["WharfingerNode"]) == ("gone", "node-9")


@WHERE
@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("deleted", GoneReason.DELETED),
        ("deleted", GoneReason.REPLACED),
        ("finished", GoneReason.NOT_PENDING),
        ("terminating", GoneReason.NOT_PENDING),
        ("not-ours", GoneReason.OTHER_SCHEDULER),
        ("not-ours", GoneReason.OTHER_POOL),
        ("not-ours", GoneReason.UNREADABLE),
    ],
)
async def test_a_pod_that_is_gone_completes_the_chain_with_the_reason(
    stage: Stage, where: str, reason: str, cause: GoneReason
) -> None:
    found_gone(stage, where, gone(reason, cause=cause, detail="the detail"))
    handle = await stage.start()

    assert await handle.result() == AttemptResult(outcome="gone", attempt=1, reason=cause, detail="the detail")
    assert (await stage.attributes(handle.id))["WharfingerOutcome"] == "gone"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("deleted", "deleted"),
        ("finished", "not-pending"),
        ("terminating", "not-pending"),
        ("not-ours", "not-ours"),
    ],
)
async def test_an_answer_of_an_activity_of_release_0_1_gets_a_reason(stage: Stage, reason: str, told: str) -> None:
    stage.activities.binds = [Gone.model_validate({"kind": "gone", "reason": reason, "node": None, "detail": ""})]
    handle = await stage.start()

    assert await handle.result() == AttemptResult(outcome="gone", attempt=1, reason=told)


# --- refused, parked, woken -----------------------------------------------------------------------


async def test_a_refused_pod_is_recorded_parks_and_is_placed_again_when_woken(stage: Stage) -> None:
    stage.activities.places = [refused(revision=10), placed(revision=20)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=15, event="NodeAdd", object="node-1", plugin="NodeResourcesFit"))

    assert await handle.result() == AttemptResult(outcome="bound", node="node-1", attempt=2)
    [record] = stage.activities.requests(RefusalInput)
    assert (record.attempt, record.reason, record.rejectors) == (1, "Unschedulable", ("NodeResourcesFit",))
    assert (record.revision, record.message) == (10, "0/3 nodes are available: 3 Insufficient cpu.")
    runs = await stage.runs(handle.id)
    assert (record.workflow_id, record.run_id) == (handle.id, runs[0])
    assert (await stage.attributes(handle.id, runs[0]))["WharfingerOutcome"] == "refused"


async def test_a_parked_run_has_at_most_twenty_four_events(stage: Stage) -> None:
    stage.activities.places = [refused(), placed()]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake())
    await stage.first_run_failed(handle)

    events = await stage.events(handle.id, handle.first_execution_run_id)
    assert len(events) <= 24, types(events)


async def test_the_next_attempt_must_have_seen_the_revision_that_woke_it(stage: Stage) -> None:
    """Steps: A's watch is ahead and wakes the pod; worker B, behind, gets the next run and must catch up."""
    stage.activities.places = [refused(revision=10), placed()]
    handle = await stage.start(revision=7)
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=15))
    await handle.result()

    assert [request.revision for request in stage.activities.requests(PlaceInput)] == [7, 15]


async def test_wake_older_than_the_snapshot_does_not_count(stage: Stage) -> None:
    stage.activities.places = [refused(revision=10), placed()]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=9))
    await handle.signal("wake", Wake(revision=10))
    await stage.client.get_workflow_handle(handle.id).describe()
    assert len(stage.activities.requests(PlaceInput)) == 1

    await handle.signal("wake", Wake(revision=11))
    assert (await stage.first_run_failed(handle)).type == "Unschedulable"


async def test_an_empty_wake_always_counts_however_it_is_spelt(stage: Stage) -> None:
    stage.activities.places = [refused()]  # of the next attempts, too, which run beside the next chain
    for signal in ([], [{}], [Wake()]):
        handle = await stage.start()
        await stage.parked(handle.id)
        await handle.signal("wake", args=signal)

        assert (await stage.first_run_failed(handle)).type == "Unschedulable"


async def test_a_signal_that_cannot_be_read_neither_wakes_nor_wedges(stage: Stage) -> None:
    stage.activities.places = [refused(), placed()]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", {"revision": "soon"})
    await handle.signal("wake", Wake())

    assert (await stage.first_run_failed(handle)).type == "Unschedulable"


async def test_a_wake_that_comes_before_the_decision_counts_when_it_is_newer(stage: Stage) -> None:
    """Steps: signalled while the chain backs off; the next run finds the signal before it places."""
    stage.activities.places = [refused(revision=10, only_assumed=True), refused(revision=11), placed()]
    slow = AttemptTimings(park=60, backoff_initial=1.0, backoff_maximum=1.0)
    handle = await stage.start(timings=slow)
    while len(await stage.runs(handle.id)) < 2:
        await asyncio.sleep(0.02)
    await handle.signal("wake", Wake(revision=30))

    assert (await handle.result()).attempt == 3


async def test_the_safety_timer_tries_again_by_itself(stage: Stage) -> None:
    stage.activities.places = [refused(), placed()]
    handle = await stage.start(timings=AttemptTimings(park=0.1, backoff_initial=0.05))

    assert (await stage.first_run_failed(handle)).details == ({"event": "safety timer"},)


async def test_a_pod_that_waited_longer_than_its_backoff_is_tried_at_once(stage: Stage) -> None:
    """Without a delay of at least a millisecond the SDK would drop it, and ten seconds would pass."""
    stage.activities.places = [refused(), placed()]
    handle = await stage.start(timings=AttemptTimings(park=1.2, park_jitter=0, backoff_initial=1.0, backoff_maximum=10))
    await handle.result()

    runs = await stage.runs(handle.id)
    failed = (await stage.events(handle.id, runs[0]))[-1]
    started = await stage.events(handle.id, runs[1])
    delay = failed.workflow_execution_failed_event_attributes.failure.application_failure_info.next_retry_delay
    assert delay.ToMilliseconds() == 1
    waited = started[1].event_time.ToDatetime() - failed.event_time.ToDatetime()
    assert waited < timedelta(seconds=9)


async def test_a_wake_does_not_shorten_what_is_left_of_the_backoff(stage: Stage) -> None:
    stage.activities.places = [refused(), placed()]
    handle = await stage.start(timings=AttemptTimings(park=600, backoff_initial=300, backoff_maximum=300))
    await stage.parked(handle.id)
    await handle.signal("wake", Wake())

    delay = (await stage.first_run_failed(handle)).next_retry_delay
    assert delay is not None
    assert timedelta(seconds=100) < delay <= timedelta(seconds=300)
    await handle.terminate()


async def test_a_refusal_that_only_assumed_pods_cause_is_not_parked(stage: Stage) -> None:
    """No event would come if the assumption fails: nothing changes in etcd then."""
    stage.activities.places = [refused(only_assumed=True), placed()]
    handle = await stage.start()

    assert (await stage.first_run_failed(handle)).type == "Unschedulable"
    assert stage.activities.requests(RefusalInput) == []
    [first, _] = await stage.runs(handle.id)
    assert "TIMER_STARTED" not in types(await stage.events(handle.id, first))


async def test_a_placement_that_can_never_be_committed_is_recorded_and_parks(stage: Stage) -> None:
    stage.activities.binds = [Rejected(plugin="DefaultBinder", message="pod is too large for etcd")]
    handle = await stage.start()
    await stage.parked(handle.id)

    [record] = stage.activities.requests(RefusalInput)
    assert (record.rejectors, record.message) == (("DefaultBinder",), "pod is too large for etcd")
    await handle.terminate()


# --- held by a Permit plugin ----------------------------------------------------------------------


def held(seconds: float) -> Placed:
    return placed().model_copy(update={"permit": PermitWait(plugin="Quota", seconds=seconds)})


async def test_a_held_pod_is_bound_when_the_signal_permits_it(stage: Stage) -> None:
    stage.activities.places = [held(60)]
    handle = await stage.start()
    await handle.signal("permit")

    assert await handle.result() == AttemptResult(outcome="bound", node="node-1", attempt=1)


@pytest.mark.parametrize("allowed", [True, False])
async def test_one_answer_counts_and_only_while_a_plugin_holds_the_pod(stage: Stage, allowed: bool) -> None:
    stage.activities.places = [held(60)]
    handle = await stage.start()

    decision, answer = PermitDecision(allowed=allowed, reason="over quota"), None
    while answer is None:
        with contextlib.suppress(WorkflowUpdateFailedError):  # it is not held yet
            answer = await handle.execute_update("permit", decision)
    assert answer == {"plugin": "Quota", "allowed": allowed}
    if allowed:
        assert (await handle.result()).outcome == "bound"
        return
    while not stage.activities.requests(RefusalInput):
        await asyncio.sleep(0.02)
    assert stage.activities.requests(RefusalInput)[0].message == "over quota"
    with pytest.raises(WorkflowUpdateFailedError) as late:
        await handle.execute_update("permit", PermitDecision())
    assert isinstance(late.value.cause, ApplicationError)
    assert late.value.cause.type == "NotHeld"
    await handle.terminate()


@pytest.mark.parametrize("seconds", [60.0, 0.1], ids=["refused by the signal", "no answer"])
async def test_a_held_pod_that_is_not_permitted_waits_refused_by_that_plugin(stage: Stage, seconds: float) -> None:
    stage.activities.places = [held(seconds)]
    handle = await stage.start()
    if seconds > 1:
        await handle.signal("permit", PermitDecision(allowed=False, reason="over quota" + "!" * 1_000_000))
    while not stage.activities.requests(RefusalInput):
        await asyncio.sleep(0.02)
    await handle.terminate()

    [record] = stage.activities.requests(RefusalInput)
    assert (record.rejectors, record.reserved_node) == (("Quota",), "node-1")
    said, _, _ = record.message.partition("!")
    assert said == ("over quota" if seconds > 1 else "no permission came within 0.1 s")
    assert len(record.message) <= 1024  # it becomes the pod's condition, whatever a client signals
    assert stage.activities.requests(BindInput) == []


# --- failures -------------------------------------------------------------------------------------


async def test_a_contended_bind_fails_the_run_and_the_policy_places_again(stage: Stage) -> None:
    stage.activities.binds = [Contended(message="node-1 was taken"), Bound(node="node-2", revision=14)]
    handle = await stage.start()

    assert (await handle.result()).node == "node-2"
    [first, _] = await stage.runs(handle.id)
    failure = (await stage.events(handle.id, first))[-1].workflow_execution_failed_event_attributes.failure
    assert (failure.application_failure_info.type, failure.message) == ("Contended", "node-1 was taken")
    assert (await stage.attributes(handle.id, first))["WharfingerOutcome"] == "contended"


@pytest.mark.parametrize("kind", ["Behind", "Unavailable"])
async def test_worker_that_cannot_decide_yet_writes_nothing_about_the_pod(stage: Stage, kind: str) -> None:
    stage.activities.places = [ApplicationError("not yet", type=kind), placed()]
    handle = await stage.start()

    assert (await stage.first_run_failed(handle)).type == kind
    assert stage.activities.requests(RefusalInput) == []


async def test_a_plugin_that_raises_is_recorded_and_tried_again(stage: Stage) -> None:
    stage.activities.places = [ApplicationError("plugin Fussy failed in Filter: boom", type="SchedulerError"), placed()]
    handle = await stage.start()

    assert (await stage.first_run_failed(handle)).type == "SchedulerError"
    [record] = stage.activities.requests(RefusalInput)
    assert (record.reason, record.message) == ("SchedulerError", "plugin Fussy failed in Filter: boom")
    [first, _] = await stage.runs(handle.id)
    assert (await stage.attributes(handle.id, first))["WharfingerOutcome"] == "error"


async def test_decision_that_takes_too_long_is_recorded_as_a_scheduler_error(stage: Stage) -> None:
    stage.activities.on_place = asyncio.Event().wait
    handle = await stage.start(timings=QUICK.model_copy(update={"place_timeout": 0.2}))
    while not stage.activities.requests(RefusalInput):
        await asyncio.sleep(0.02)
    await handle.terminate()

    assert stage.activities.requests(RefusalInput)[0].reason == "SchedulerError"


async def test_a_bind_that_fails_for_good_is_recorded_as_the_schedulers_error(stage: Stage) -> None:
    error = ApplicationError("plugin Fussy failed in PreBind: boom", type="SchedulerError", non_retryable=True)
    stage.activities.binds = [error, Bound(node="node-1", revision=14)]
    handle = await stage.start()

    assert (await stage.first_run_failed(handle)).type == "SchedulerError"
    assert [record.reason for record in stage.activities.requests(RefusalInput)] == ["SchedulerError"]


async def test_etcd_being_away_for_a_moment_costs_the_bind_no_attempt(stage: Stage) -> None:
    stage.activities.binds = [ApplicationError("no answer", type="Unavailable"), Bound(node="node-1", revision=14)]
    handle = await stage.start()

    assert (await handle.result()).attempt == 1
    assert len(stage.activities.requests(BindInput)) == 2


async def test_plain_exception_fails_the_run_and_the_chain_continues(stage: Stage) -> None:
    """Steps: an answer of a newer release that this workflow cannot read; the run must not hang for ever."""
    stage.activities.places = [{"kind": "of another release"}, placed()]  # type: ignore[list-item]
    handle = await stage.start()

    await stage.first_run_failed(handle)


# --- cancelled ------------------------------------------------------------------------------------


async def test_a_parked_run_that_is_cancelled_ends_cancelled(stage: Stage) -> None:
    stage.activities.places = [refused()]
    handle = await stage.start()

    await stage.cancelled_while_parked(handle)


async def test_run_cancelled_during_its_bind_returns_what_the_bind_did(stage: Stage) -> None:
    handle_of: dict[str, Any] = {}

    async def cancel() -> None:
        await stage.client.get_workflow_handle(stage.workflow_id("web-1")).cancel()
        while "WORKFLOW_EXECUTION_CANCEL_REQUESTED" not in types(await stage.events(stage.workflow_id("web-1"))):
            await asyncio.sleep(0.01)

    stage.activities.on_bind = cancel
    handle_of["web-1"] = await stage.start(name="web-1")

    assert (await handle_of["web-1"].result()).outcome == "bound"


async def test_run_cancelled_during_a_contended_bind_is_not_retried(stage: Stage) -> None:
    stage.activities.binds = [Contended(message="taken")]

    async def cancel() -> None:
        await stage.client.get_workflow_handle(stage.workflow_id("web-1")).cancel()

    stage.activities.on_bind = cancel
    handle = await stage.start(name="web-1")

    with pytest.raises(WorkflowFailureError) as raised:
        await handle.result()
    assert isinstance(raised.value.cause, CancelledError)
    assert len(await stage.runs(handle.id)) == 1


@pytest.mark.parametrize("kind", ["Unavailable", "SchedulerError"])
async def test_run_cancelled_during_a_failing_bind_is_not_retried(stage: Stage, kind: str) -> None:
    """Steps: etcd is away, so an operator cancels the attempts; Temporal repeats a cancelled activity no more, and its
    failure is what the workflow sees. Were it the run's, the chain would go on as if it had not been cancelled.
    """
    stage.activities.binds = [ApplicationError("no answer", type=kind, non_retryable=kind == "SchedulerError")]

    async def cancel() -> None:
        await stage.client.get_workflow_handle(stage.workflow_id("web-1")).cancel()
        while "WORKFLOW_EXECUTION_CANCEL_REQUESTED" not in types(await stage.events(stage.workflow_id("web-1"))):
            await asyncio.sleep(0.01)

    stage.activities.on_bind = cancel
    handle = await stage.start(name="web-1")

    with pytest.raises(WorkflowFailureError) as raised:
        await asyncio.wait_for(handle.result(), patient(10))
    assert isinstance(raised.value.cause, CancelledError)
    assert len(await stage.runs(handle.id)) == 1
    assert stage.activities.requests(RefusalInput) == []
