"""The endings of cohorts and gangs whose histories are kept; see `record`."""

from __future__ import annotations

from typing import Any

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from tests.workflows.conftest import QUICK, Stage, away, committed, decided, lost, seat
from wharfinger.process.names import gang_workflow_id
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.contracts.cohort_scheduling import BoundMany, PlacedMany, RecordedMany
from wharfinger.scheduling.contracts.eviction import Evicted, Victim

WAKE = Wake(revision=15, event="NodeAdd", object="node-1", plugin="NodeResourcesFit")
LOW = Victim(pod="default/low", create_revision=3, uid="uid-low")


def refused_gang(**more: Any) -> PlacedMany:
    return decided(turned_away=(away("a", **more), away("b")))


async def ended(handle: Any) -> tuple[str, int]:
    try:
        await handle.result()
    except WorkflowFailureError:
        return handle.id, 0
    raise AssertionError(f"{handle.id} should have failed")


async def cohort_bound(stage: Stage) -> tuple[str, int]:
    handle = await stage.start_cohort("a", "b")
    await handle.result()
    return handle.id, 0


async def cohort_refused_and_contended(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [decided(seat("a"), seat("b"), seat("c"), turned_away=(away("d", own_attempt=True),))]
    unbound = (lost("b", message="taken"), lost("c", "rejected", plugin="DefaultBinder", message="too large"))
    stage.cohorts.binds = [committed("a", unbound=unbound)]
    handle = await stage.start_cohort("a", "b", "c", "d")
    await handle.result()
    return handle.id, 0


async def cohort_gone(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [PlacedMany()]
    handle = await stage.start_cohort("a")
    await handle.result()
    return handle.id, 0


async def cohort_failed(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [ApplicationError("boom", type="SchedulerError", non_retryable=True)]
    return await ended(await stage.start_cohort("a"))


async def cohort_with_invalid_input(stage: Stage) -> tuple[str, int]:
    return await ended(
        await stage.client.start_workflow(
            "ScheduleCohort", {"pods": "all"}, id=f"{stage.cluster}/cohort/bad", task_queue=stage.queue
        )
    )


async def gang_bound(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [decided(seat("a"), seat("b"), turned_away=(away("c"),), domain="zone=x")]
    handle = await stage.start_gang(wake=Wake(revision=7, event="GangMember"))
    await handle.result()
    return handle.id, 0


async def gang_with_surplus_members(stage: Stage) -> tuple[str, int]:
    """The gang needs two members: a third is bound with them, a fourth waits as a lone pod, a fifth is deleted."""
    stage.cohorts.places = [decided(seat("a"), seat("b"), seat("c"), turned_away=(away("d"), away("e")))]
    stage.cohorts.binds = [committed("a", "b", "c")]
    stage.cohorts.records = [RecordedMany(recorded=1, gone=1, gone_reasons={"deleted": 1}, revision=12)]
    handle = await stage.start_gang(members=["a", "b"])
    await handle.result()
    return handle.id, 0


async def gang_parked_and_woken(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [refused_gang(), decided(seat("a"), seat("b"), revision=20)]
    handle = await stage.start_gang()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=7))
    await handle.signal("wake", WAKE)
    await handle.result()
    return handle.id, 0


async def gang_bound_after_waiting(stage: Stage) -> tuple[str, int]:
    workflow_id, _ = await gang_parked_and_woken(stage)
    return workflow_id, 1


async def gang_contended(stage: Stage) -> tuple[str, int]:
    stage.cohorts.binds = [BoundMany(unbound=(lost("a", message="taken"), lost("b"))), committed("a", "b")]
    handle = await stage.start_gang()
    await handle.result()
    return handle.id, 0


async def gang_refused_by_assumed_only(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [
        refused_gang().model_copy(update={"only_assumed": True}),
        decided(seat("a"), seat("b")),
    ]
    handle = await stage.start_gang()
    await handle.result()
    return handle.id, 0


async def gang_rejected(stage: Stage) -> tuple[str, int]:
    never = {"plugin": "GangScheduling", "message": "raise --max-txn-ops"}
    stage.cohorts.binds = [
        BoundMany(unbound=(lost("a", "rejected", **never), lost("b", "rejected", **never))),
        committed("a", "b"),
    ]
    handle = await stage.start_gang()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake())
    await handle.result()
    return handle.id, 0


async def gang_preempting(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [
        refused_gang(nominated_node="node-1", victims=(LOW,)),
        decided(seat("a"), seat("b"), revision=20),
    ]
    stage.cohorts.records = [RecordedMany(recorded=2, revision=12, record_revisions={"default/a": 12})]
    stage.activities.evictions = [Evicted(evicted=("default/low",), revision=14, leaving=60.0)]
    handle = await stage.start_gang()
    await stage.parked(handle.id)
    await handle.signal("wake", WAKE)
    await handle.result()
    return handle.id, 0


async def gang_nominated_too_late(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [refused_gang(nominated_node="node-1", victims=(LOW,)), decided(seat("a"), seat("b"))]
    stage.cohorts.records = [RecordedMany(recorded=2, revision=12, lapsed=("default/a",))]
    handle = await stage.start_gang()
    await handle.result()
    return handle.id, 0


async def gang_gone(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [PlacedMany()]
    handle = await stage.start_gang()
    await handle.result()
    return handle.id, 0


async def gang_cancelled_while_parked(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [refused_gang()]
    handle = await stage.start_gang()
    await stage.parked(handle.id)
    await handle.cancel()
    return await ended(handle)


async def gang_under_a_wrong_id(stage: Stage) -> tuple[str, int]:
    stage.cohorts.places = [ApplicationError("the right id is ...", type="WrongWorkflowId", non_retryable=True)]
    return await ended(await stage.start_gang())


async def gang_continued_with_policy(stage: Stage) -> tuple[str, int]:
    handle = await stage.client.start_workflow(
        "ScheduleCohort",
        {"gang": {"namespace": "default", "name": "team"}, "timings": QUICK.model_dump()},
        id=gang_workflow_id(stage.cluster, "default", "team"),
        task_queue=stage.queue,
    )
    await handle.result()
    return handle.id, 0


COHORT_SCENES = {
    scene.__name__: scene
    for scene in (
        cohort_bound,
        cohort_refused_and_contended,
        cohort_gone,
        cohort_failed,
        cohort_with_invalid_input,
        gang_bound,
        gang_with_surplus_members,
        gang_parked_and_woken,
        gang_bound_after_waiting,
        gang_contended,
        gang_refused_by_assumed_only,
        gang_rejected,
        gang_preempting,
        gang_nominated_too_late,
        gang_gone,
        gang_cancelled_while_parked,
        gang_under_a_wrong_id,
        gang_continued_with_policy,
    )
}
