"""Every way a cohort or a gang can end, on the real server and in the sandbox."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from tests.workflows.conftest import QUICK, TEAM, Stage, away, committed, decided, gone, lost, seat
from wharfinger.process.names import gang_workflow_id, pods_listed
from wharfinger.scheduling.contracts.attempts import Wake, chain_retry
from wharfinger.scheduling.contracts.cohort_scheduling import (
    BindManyInput,
    BoundMany,
    CohortResult,
    PlacedMany,
    PlaceManyInput,
    RecordedMany,
    RecordManyInput,
    Skipped,
)
from wharfinger.scheduling.contracts.eviction import Evicted, EvictInput, Victim
from wharfinger.scheduling.loops.attempts import TemporalAttempts
from wharfinger.workflows.schedule_cohort import ScheduleCohort

pytestmark = pytest.mark.timeout(60)

SKIPPED = Skipped(namespace="default", name="team", reason="PodGroup: 1 of 2 members exist")
NOBODY = PlacedMany(skipped=(SKIPPED,))
LOW = Victim(pod="default/low", create_revision=3, uid="uid-low")
RECORDED = RecordedMany(recorded=2, revision=12)


def refused_gang(*, revision: int = 10, **more: Any) -> PlacedMany:
    message = "gang needs 2 members placed together, 1 fit."
    return decided(turned_away=(away("a"), away("b")), revision=revision, message=message, **more)


def preempting_gang(**more: Any) -> PlacedMany:
    members = (
        away("a", nominated_node="node-1", victims=(LOW,)),
        away("b", nominated_node="node-2", victims=(LOW.model_copy(update={"pod": "default/lower"}),)),
        away("c", nominated_node="node-3"),
    )
    return decided(turned_away=members, **more)


async def failure_of(handle: Any) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as raised:
        await handle.result()
    assert isinstance(raised.value.cause, ApplicationError)
    return raised.value.cause


# --- cohorts --------------------------------------------------------------------------------------


async def test_a_cohort_is_placed_and_bound_and_its_history_is_short(stage: Stage) -> None:
    handle = await stage.start_cohort("a", "b")

    assert await handle.result() == CohortResult(outcome="bound", bound=2)
    ((request,), (bind,)) = stage.cohorts.requests(PlaceManyInput), stage.cohorts.requests(BindManyInput)
    assert [pod.name for pod in request.pods] == ["a", "b"]
    assert request.turn is not None
    assert (bind.whole, [one.plugins for one in bind.seats]) == (False, [{}, {}])
    assert len(await stage.events(handle.id)) <= 14
    listed = pods_listed([("default", "a"), ("default", "b")])
    assert await stage.attributes(handle.id) == {
        "WharfingerOutcome": "bound",
        "WharfingerPods": json.dumps(listed, separators=(",", ":")),
    }


async def test_those_turned_away_and_those_rejected_wait_with_their_own_reasons(stage: Stage) -> None:
    stage.cohorts.places = [decided(seat("a"), seat("b"), turned_away=(away("c", own_attempt=True),))]
    stage.cohorts.binds = [committed("a", unbound=(lost("b", "rejected", plugin="P", message="never"),))]
    handle = await stage.start_cohort("a", "b", "c")

    assert await handle.result() == CohortResult(outcome="refused", bound=1, refused=2)
    (record,) = stage.cohorts.requests(RecordManyInput)
    assert (record.reason, record.gang) == ("Unschedulable", None)
    assert [(one.name, one.own_attempt) for one in record.turned_away] == [("c", True), ("b", False)]
    assert record.reasons[record.turned_away[1].reasons].message == "never"


async def test_the_ui_tells_what_became_of_each_pod(stage: Stage) -> None:
    best = seat("a", feasible=2, score=100)
    stage.cohorts.places = [decided(best, seat("b"), turned_away=(away("c"),), skipped=(SKIPPED,))]
    stage.cohorts.binds = [committed("a", unbound=(lost("b", message="taken"),))]
    handle = await stage.start_cohort("a", "b", "c")
    await handle.result()

    summaries = [event.user_metadata.summary.data.decode().strip('"') for event in await stage.events(handle.id)]
    assert [one for one in summaries if one] == [
        "default/a, default/b, default/c",  # the run, and its decision
        "default/a, default/b, default/c",
        "default/a → node-1, default/b → node-1",
        "default/c: no room",
        "default/b: taken",
    ]
    told = await handle.query("__temporal_workflow_metadata")
    assert told.current_details.splitlines() == [
        "- default/a → node-1 (one of 2 that fit, score 100)",
        "- default/b: contended, taken (was to go to node-1)",
        "- default/c waits: no room",
        f"- default/{SKIPPED.name}: not decided, {SKIPPED.reason}",
    ]


async def test_contended_pods_get_an_attempt_of_their_own_at_once(stage: Stage) -> None:
    stage.cohorts.binds = [committed("a", unbound=(lost("b", message="taken"),))]
    handle = await stage.start_cohort("a", "b")

    assert await handle.result() == CohortResult(outcome="contended", bound=1, contended=1)
    (record,) = stage.cohorts.requests(RecordManyInput)
    assert record.reason == "Contended"
    assert [(one.name, one.own_attempt) for one in record.turned_away] == [("b", True)]


async def test_cohort_without_a_pod_to_place_is_gone(stage: Stage) -> None:
    stage.cohorts.places = [NOBODY]
    handle = await stage.start_cohort("a")

    assert await handle.result() == CohortResult(outcome="gone", skipped=1)
    assert stage.cohorts.requests(BindManyInput) == []


async def test_a_cohort_whose_decision_fails_ends_and_is_not_tried_again(stage: Stage) -> None:
    stage.cohorts.places = [decided(seat("a")), ApplicationError("boom", type="SchedulerError", non_retryable=True)]
    stage.cohorts.binds = [committed("a")]
    failed: list[str] = []
    stage.run_ends.on_failure(lambda workflow_id, _: failed.append(workflow_id))
    await (await stage.start_cohort("a")).result()
    handle = await stage.start_cohort("a")

    assert (await failure_of(handle)).type == "SchedulerError"
    attempts = TemporalAttempts(stage.client, cluster=stage.cluster, tenant="common")
    told = await attempts.failure_of(handle.id)
    assert isinstance(told, ApplicationError)
    assert told.type == "SchedulerError"
    assert failed == [handle.id]  # as its worker sees it
    await handle.query("__stack_trace")  # replays the run
    assert failed == [handle.id]
    assert len(stage.cohorts.requests(PlaceManyInput)) == 2


async def test_an_input_that_is_none_fails_for_good(stage: Stage) -> None:
    handle = await stage.client.start_workflow(
        "ScheduleCohort", {"pods": "all"}, id=f"{stage.cluster}/cohort/bad", task_queue=stage.queue
    )

    assert (await failure_of(handle)).type == "InvalidInput"


# --- gangs ----------------------------------------------------------------------------------------


async def test_a_gang_is_bound_in_one_transaction_on_a_state_that_is_new_enough(stage: Stage) -> None:
    stage.cohorts.places = [decided(seat("a"), seat("b"), domain="zone=x")]
    handle = await stage.start_gang()

    assert await handle.result() == CohortResult(outcome="bound", bound=2)
    ((place,), (bind,)) = stage.cohorts.requests(PlaceManyInput), stage.cohorts.requests(BindManyInput)
    assert (place.gang, place.pods, place.revision) == (TEAM, (), 7)
    assert (bind.whole, bind.domain) == (True, "zone=x")


async def test_gang_lists_members_that_joined_after_its_start(stage: Stage) -> None:
    stage.cohorts.places = [decided(seat("a"), seat("b"), turned_away=(away("c"),))]
    handle = await stage.start_gang(members=["a", "b"])
    await handle.result()

    started, *_, upserted = await stage.listings(handle.id)
    assert started == pods_listed([("default", "a"), ("default", "b")])
    assert upserted == pods_listed([("default", name) for name in "abc"])


async def test_gang_whose_start_lists_all_its_members_does_not_list_them_again(stage: Stage) -> None:
    stage.cohorts.places = [decided(seat("a"), seat("b"))]
    handle = await stage.start_gang(members=["a", "b"])
    await handle.result()

    assert len(await stage.listings(handle.id)) == 1


async def test_gang_started_without_the_attribute_never_writes_it(stage: Stage) -> None:
    """Temporal may not know the attribute, and then refuses the whole task."""
    stage.cohorts.places = [decided(seat("a"), seat("b"))]
    handle = await stage.client.start_workflow(
        ScheduleCohort.run,
        {"gang": {"namespace": "default", "name": "team"}},
        id=f"{stage.cluster}/cohort/default/team",
        task_queue=stage.queue,
        retry_policy=chain_retry(QUICK),
    )
    await handle.result()

    assert await stage.listings(handle.id) == []


async def test_members_beyond_those_needed_are_recorded_as_pods_of_their_own(stage: Stage) -> None:
    stage.cohorts.places = [decided(seat("a"), seat("b"), turned_away=(away("c"),))]
    handle = await stage.start_gang()

    assert await handle.result() == CohortResult(outcome="bound", bound=2, refused=1)
    (record,) = stage.cohorts.requests(RecordManyInput)
    assert (record.gang, [one.name for one in record.turned_away]) == (None, ["c"])


async def test_a_refused_gang_parks_and_a_newer_wake_starts_the_next_attempt(stage: Stage) -> None:
    stage.cohorts.places = [refused_gang(), decided(seat("a"), seat("b"), revision=20)]
    handle = await stage.start_gang()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=9, event="NodeAdd"))
    await handle.signal("wake", Wake(revision=15, event="NodeAdd", object="node-9"))

    assert await handle.result() == CohortResult(outcome="bound", bound=2, attempt=2)
    (record,) = stage.cohorts.requests(RecordManyInput)
    assert (record.gang, record.revision, record.workflow_id) == (TEAM, 10, handle.id)
    assert [one.attempt for one in record.turned_away] == [1, 1]
    assert stage.cohorts.requests(PlaceManyInput)[1].revision == 15


async def test_a_start_that_joins_wakes_a_run_that_has_not_seen_all_members(stage: Stage) -> None:
    stage.cohorts.places = [refused_gang(revision=10), decided(seat("a"), seat("b"), revision=20)]
    handle = await stage.start_gang(wake=Wake(revision=7, event="GangMember"))
    await stage.parked(handle.id)
    again = await stage.start_gang(wake=Wake(revision=12, event="GangMember", object="default/b"))

    assert again.id == handle.id
    assert (await handle.result()).attempt == 2
    assert len(await stage.runs(handle.id)) == 2


async def test_second_record_is_of_the_second_attempt(stage: Stage) -> None:
    stage.cohorts.places = [refused_gang(), refused_gang(revision=20), NOBODY]
    handle = await stage.start_gang()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake())
    await stage.parked(handle.id, run=2)
    await handle.signal("wake", Wake())

    assert (await handle.result()).outcome == "gone"
    assert [one.turned_away[0].attempt for one in stage.cohorts.requests(RecordManyInput)] == [1, 2]


async def test_a_contended_gang_fails_and_is_placed_anew(stage: Stage) -> None:
    stage.cohorts.binds = [BoundMany(unbound=(lost("a", message="taken"), lost("b"))), committed("a", "b")]
    handle = await stage.start_gang()

    assert (await handle.result()).attempt == 2
    first = (await stage.runs(handle.id))[0]
    failed = (await stage.events(handle.id, first))[-1].workflow_execution_failed_event_attributes.failure
    assert (failed.application_failure_info.type, failed.message) == ("Contended", "taken")


async def test_only_assumed_pods_in_the_way_park_nothing(stage: Stage) -> None:
    stage.cohorts.places = [refused_gang(only_assumed=True), decided(seat("a"), seat("b"))]
    handle = await stage.start_gang()

    assert (await handle.result()).attempt == 2
    assert stage.cohorts.requests(RecordManyInput) == []


async def test_a_gang_that_can_never_be_committed_waits_as_a_whole(stage: Stage) -> None:
    never = {"plugin": "GangScheduling", "message": "raise --max-txn-ops"}
    stage.cohorts.places = [decided(seat("a"), seat("b")), NOBODY]
    stage.cohorts.binds = [BoundMany(unbound=(lost("a", "rejected", **never), lost("b", "rejected", **never)))]
    handle = await stage.start_gang()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake())

    assert (await handle.result()).outcome == "gone"
    (record,) = stage.cohorts.requests(RecordManyInput)
    assert [(one.name, record.reasons[one.reasons].message) for one in record.turned_away] == [
        ("a", "raise --max-txn-ops"),
        ("b", "raise --max-txn-ops"),
    ]
    first = (await stage.runs(handle.id))[0]
    failed = (await stage.events(handle.id, first))[-1].workflow_execution_failed_event_attributes.failure
    assert failed.message == "raise --max-txn-ops"


async def test_result_counts_pods_that_no_longer_need_placement_by_reason(stage: Stage) -> None:
    left_out = tuple(
        Skipped(namespace="default", name=name, reason=why, gone=why)
        for name, why in (("x", "bound"), ("y", "deleted"))
    )
    stage.cohorts.places = [decided(seat("a"), seat("b"), turned_away=(away("c"),), skipped=left_out)]
    stage.cohorts.binds = [committed("a", unbound=(lost("b", "gone", reason="bound"),))]
    stage.cohorts.records = [RecordedMany(gone=1, gone_reasons={"other-pool": 1})]
    handle = await stage.start_cohort("a", "b", "c", "x", "y")

    assert (await handle.result()).gone == {"bound": 2, "deleted": 1, "other-pool": 1}


async def test_a_gang_with_too_few_members_is_gone(stage: Stage) -> None:
    stage.cohorts.places = [NOBODY]

    result = await (await stage.start_gang()).result()
    assert result == CohortResult(outcome="gone", skipped=1, detail=SKIPPED.reason)


async def test_members_that_are_all_gone_when_they_are_recorded_end_the_run(stage: Stage) -> None:
    stage.cohorts.places = [refused_gang()]
    stage.cohorts.records = [RecordedMany(gone=2, gone_reasons={"deleted": 2})]

    result = await (await stage.start_gang()).result()
    assert (result.outcome, result.gone) == ("gone", {"deleted": 2})


# --- room for a gang ------------------------------------------------------------------------------


async def test_victims_of_all_members_are_evicted_before_it_parks(stage: Stage) -> None:
    revisions = {"default/a": 12, "default/b": 13}
    stage.cohorts.places = [preempting_gang(), decided(seat("a"), seat("b"))]
    stage.cohorts.records = [RecordedMany(recorded=3, revision=13, record_revisions=revisions)]
    stage.activities.evictions = [Evicted(evicted=("default/low",), revision=14, leaving=60.0)]
    handle = await stage.start_gang()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=15, event="AssignedPodDelete"))

    assert (await handle.result()).attempt == 2
    asked = stage.activities.requests(EvictInput)
    assert [(one.name, one.node, one.record_revision) for one in asked] == [("a", "node-1", 12), ("b", "node-2", 13)]
    assert stage.cohorts.requests(PlaceManyInput)[1].revision == 15


@pytest.mark.parametrize("lapse", ["record", "eviction", "gone"])
async def test_one_nomination_that_does_not_hold_ends_the_attempt_at_once(stage: Stage, lapse: str) -> None:
    revisions = {"default/a": 12, "default/b": 13}
    lapsed = ("default/b",) if lapse == "record" else ()
    stage.cohorts.places = [preempting_gang(), decided(seat("a"), seat("b"))]
    stage.cohorts.records = [RecordedMany(recorded=3, revision=13, record_revisions=revisions, lapsed=lapsed)]
    stage.activities.evictions = [Evicted(complete=False, revision=14) if lapse == "eviction" else gone("bound")]
    handle = await stage.start_gang()

    assert (await handle.result()).attempt == 2
    assert len(stage.activities.requests(EvictInput)) == (0 if lapse == "record" else 1)
    assert stage.cohorts.requests(PlaceManyInput)[1].revision == (14 if lapse == "eviction" else 13)


async def test_victims_that_are_overdue_end_the_wait(stage: Stage) -> None:
    stage.cohorts.places = [refused_gang(leaving=0.2), decided(seat("a"), seat("b"))]
    handle = await stage.start_gang()

    assert (await handle.result()).attempt == 2


# --- other endings --------------------------------------------------------------------------------


async def test_a_gang_cancelled_while_it_waits_ends_as_cancelled(stage: Stage) -> None:
    stage.cohorts.places = [refused_gang()]
    handle = await stage.start_gang()

    await stage.cancelled_while_parked(handle)


async def test_gang_cancelled_during_its_bind_is_cancelled_after_the_bind(stage: Stage) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def begin() -> None:
        begun.set()
        await cancelled.wait()

    stage.cohorts.on_bind = begin
    stage.cohorts.binds = [BoundMany(unbound=(lost("a"),))]
    handle = await stage.start_gang()
    await begun.wait()
    await handle.cancel()
    cancelled.set()

    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert len(await stage.runs(handle.id)) == 1


async def test_a_gang_under_another_id_fails_for_good(stage: Stage) -> None:
    stage.cohorts.places = [ApplicationError("the right id is ...", type="WrongWorkflowId", non_retryable=True)]

    assert (await failure_of(await stage.start_gang())).type == "WrongWorkflowId"
    assert len(stage.cohorts.requests(PlaceManyInput)) == 1


async def test_gang_started_without_a_policy_continues_with_ours(stage: Stage) -> None:
    handle = await stage.client.start_workflow(
        "ScheduleCohort",
        {"gang": {"namespace": "default", "name": "team"}, "timings": QUICK.model_dump()},
        id=gang_workflow_id(stage.cluster, "default", "team"),
        task_queue=stage.queue,
    )

    assert (await handle.result())["outcome"] == "bound"
    first, second = await stage.runs(handle.id)
    started = (await stage.events(handle.id, second))[0].workflow_execution_started_event_attributes
    assert started.continued_execution_run_id == first
    assert "WrongWorkflowId" in started.retry_policy.non_retryable_error_types


async def test_a_worker_that_is_behind_is_asked_again_by_the_policy(stage: Stage) -> None:
    stage.cohorts.places = [ApplicationError("behind", type="Behind"), decided(seat("a"), seat("b"))]

    assert (await (await stage.start_gang()).result()).attempt == 2
