"""A refused pod for which room can be made: nominate, evict, park, next attempt."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.exceptions import ApplicationError

from tests.workflows.conftest import QUICK, Stage, gone, placed, preempting, refused
from tests.workflows.test_schedule_attempt import types
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.contracts.eviction import Evicted, EvictInput
from wharfinger.scheduling.contracts.scheduling import (
    Bound,
    Contended,
    PlaceInput,
    PlaceOutcome,
    Recorded,
    RefusalInput,
)

VICTIM_GONE = Wake(revision=15, event="AssignedPodDelete", object="default/low", plugin="NodeResourcesFit")


async def test_nomination_is_recorded_before_evictions_and_the_next_run_binds(stage: Stage) -> None:
    stage.activities.places = [preempting("low", "lower"), placed()]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", VICTIM_GONE)
    assert (await handle.result()).attempt == 2

    asked = [type(request) for request in stage.activities.asked]
    assert asked[:3] == [PlaceInput, RefusalInput, EvictInput]
    [record] = stage.activities.requests(RefusalInput)
    assert (record.nominated_node, [one.pod for one in record.victims]) == ("node-1", ["default/low", "default/lower"])
    [eviction] = stage.activities.requests(EvictInput)
    assert (eviction.node, eviction.victims, eviction.record_revision) == ("node-1", record.victims, 12)
    assert (eviction.namespace, eviction.name, eviction.uid, eviction.create_revision) == (
        "default", "web-1", "uid-1", 5,
    )  # fmt: skip


async def test_a_preempting_run_has_at_most_twenty_four_events(stage: Stage) -> None:
    stage.activities.places = [preempting(), placed()]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", VICTIM_GONE)
    await stage.first_run_failed(handle)

    events = await stage.events(handle.id, handle.first_execution_run_id)
    assert len(events) <= 24, types(events)


async def test_the_ui_names_the_victims(stage: Stage) -> None:
    stage.activities.places = [preempting("low")]
    handle = await stage.start()
    await stage.parked(handle.id)

    summaries = [event.user_metadata.summary.data.decode().strip('"') for event in await stage.events(handle.id)]
    assert "default/low → off node-1" in summaries
    await handle.terminate()


async def test_no_pod_is_evicted_where_the_nomination_came_too_late(stage: Stage) -> None:
    """Steps: another pod was bound to the nominated node meanwhile; the record says so, and the pod is placed again."""
    stage.activities.places = [preempting(), placed()]
    stage.activities.records = [Recorded(revision=12, nominated=False)]
    handle = await stage.start()

    failure = await stage.first_run_failed(handle)
    assert failure.type == "Unschedulable"
    assert failure.details[0] == {"revision": 12, "event": "NominationLapsed"}
    assert stage.activities.requests(EvictInput) == []


async def test_victims_that_are_none_any_more_lead_to_the_next_attempt_at_once(stage: Stage) -> None:
    stage.activities.places = [preempting(), placed()]
    stage.activities.evictions = [Evicted(complete=False, notes=("default/low was not evicted: ...",))]
    handle = await stage.start()

    assert (await stage.first_run_failed(handle)).type == "Unschedulable"
    assert "TIMER_STARTED" not in types(await stage.events(handle.id, handle.first_execution_run_id))


async def test_preemptor_deleted_before_the_evictions_ends_its_chain(stage: Stage) -> None:
    stage.activities.places = [preempting()]
    stage.activities.evictions = [gone("deleted")]
    handle = await stage.start()

    assert (await handle.result()).outcome == "gone"


async def test_victims_beyond_their_grace_period_start_a_run_that_reports_them(stage: Stage) -> None:
    stage.activities.places = [preempting(), placed()]
    stage.activities.evictions = [Evicted(evicted=("default/low",), leaving=0.2)]
    handle = await stage.start()

    failure = await stage.first_run_failed(handle)
    assert failure.details[0] == {"event": "VictimsOverdue"}


async def test_pod_waiting_for_earlier_victims_is_retried_when_they_are_overdue(stage: Stage) -> None:
    waiting = preempting().model_copy(update={"victims": (), "leaving": 0.2})
    stage.activities.places = [waiting, placed()]
    handle = await stage.start()

    assert (await stage.first_run_failed(handle)).details[0] == {"event": "VictimsOverdue"}
    assert stage.activities.requests(EvictInput) == []


async def test_the_safety_timer_comes_before_a_grace_of_days(stage: Stage) -> None:
    stage.activities.places = [preempting(), placed()]
    stage.activities.evictions = [Evicted(leaving=86_400.0)]
    handle = await stage.start(timings=QUICK.model_copy(update={"park": 0.1}))

    assert (await stage.first_run_failed(handle)).details[0] == {"event": "safety timer"}


async def test_etcd_being_away_for_a_moment_costs_the_eviction_no_attempt(stage: Stage) -> None:
    stage.activities.places = [preempting(), placed()]
    stage.activities.evictions = [ApplicationError("no answer", type="Unavailable"), Evicted()]
    handle = await stage.start()
    await stage.parked(handle.id)

    first, second = stage.activities.requests(EvictInput)
    assert first == second
    assert len(stage.activities.requests(PlaceInput)) == 1
    await handle.terminate()


async def test_the_next_attempt_must_have_seen_what_was_evicted(stage: Stage) -> None:
    """Steps: a worker that is behind gets the next run: deciding on the older state, it would evict once more."""
    stage.activities.places = [preempting(), placed()]
    stage.activities.evictions = [Evicted(evicted=("default/low",), revision=40)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake())
    await handle.result()

    assert [request.revision for request in stage.activities.requests(PlaceInput)][1] == 40


async def test_a_wake_while_victims_are_evicted_counts(stage: Stage) -> None:
    """Steps: deleted at once, the victims' room is seen, and the preemptor woken, before `evict` has answered."""
    stage.activities.places = [preempting(), placed()]
    handle = await stage.start()
    woken = asyncio.create_task(handle.signal("wake", VICTIM_GONE))
    await woken

    assert (await handle.result()).attempt == 2


@pytest.mark.parametrize(
    "between",
    [
        ApplicationError("behind", type="Behind"),
        ApplicationError("a plugin broke", type="SchedulerError"),
        refused(only_assumed=True),
    ],
    ids=["behind", "error", "only assumed"],
)
async def test_attempt_in_between_keeps_the_revision_seen_since_the_eviction(
    stage: Stage, between: PlaceOutcome | BaseException
) -> None:
    """Steps: victims are evicted at revision 50; the next attempt fails on its way. The one after it, perhaps on a
    worker that has seen none of this, would choose victims once more.
    """
    stage.activities.places = [preempting(), between, placed()]
    stage.activities.evictions = [Evicted(evicted=("default/low",), revision=50)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", VICTIM_GONE)
    await handle.result()

    assert [request.revision for request in stage.activities.requests(PlaceInput)] == [0, 50, 50]


async def test_contention_does_not_forget_it_either(stage: Stage) -> None:
    stage.activities.places = [preempting(), placed()]
    stage.activities.binds = [Contended(message="taken"), Bound(node="node-1", revision=60)]
    stage.activities.evictions = [Evicted(evicted=("default/low",), revision=50)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", VICTIM_GONE)
    await handle.result()

    assert [request.revision for request in stage.activities.requests(PlaceInput)] == [0, 50, 50]
