"""Recording refusals: condition and record in one step, about the pod as it is."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.world import World
from wharfinger.errors import RequestTooLarge
from wharfinger.etcd import keys
from wharfinger.scheduling.contracts.scheduling import Gone, Recorded


async def test_a_refusal_is_written_to_the_pod_and_kept_as_its_record(world: World) -> None:
    created = await world.put_pod("web")
    hand = await world.hand()

    assert await hand.record("web", attempt=3) == Recorded(revision=world.store.revision)
    pod = await world.pod("web")
    [condition] = pod["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert pod["unknown"] == {"kept": True}
    assert await world.record_of("web") == {
        "attempt": 3,
        "reason": "Unschedulable",
        "plugins": ["NodeResourcesFit"],
        "revision": 5,
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
        "workflow_id": "workflow",
        "run_id": "run-1",
        "nominated_node": "",
        "victims": [],
        "parked": True,
        "urgent": False,
        "decided_by": "",
        "create_revision": created,
        "time": "2026-03-01T12:00:00Z",
    }


async def test_condition_and_record_are_one_revision(world: World) -> None:
    await world.put_pod("web")
    hand = await world.hand()
    await hand.record("web")

    pod = (await world.store.get(keys.pod("default", "web"))).kv
    record = (await world.store.get(keys.attempt("default", "web"))).kv
    assert pod is not None
    assert record is not None
    assert pod.mod_revision == record.mod_revision


async def test_unchanged_condition_is_not_written_again(world: World) -> None:
    """Otherwise every attempt of a pod that waits would be an event for every watcher of pods."""
    await world.put_pod("web")
    hand = await world.hand()
    await hand.record("web", attempt=1)
    before = (await world.store.get(keys.pod("default", "web"))).kv
    await hand.record("web", attempt=2)

    after = (await world.store.get(keys.pod("default", "web"))).kv
    assert before == after
    assert (await world.record_of("web"))["attempt"] == 2


async def test_pod_that_changed_meanwhile_is_read_and_written_again(world: World) -> None:
    await world.put_pod("web")
    hand = await world.hand()
    hand.store.pause_watches()
    await world.change_pod("web", lambda pod: pod["metadata"]["labels"].update(colour="blue"))

    assert (await hand.record("web")).kind == "recorded"
    pod = await world.pod("web")
    assert pod["metadata"]["labels"] == {"colour": "blue"}
    assert pod["status"]["conditions"][0]["status"] == "False"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda pod: pod["spec"].update(nodeName="node-9"), "bound"),
        (lambda pod: pod["spec"].update(schedulerName="somebody-else"), "not-ours"),
        (lambda pod: pod["metadata"].update(deletionTimestamp="2026-03-01T12:00:00Z"), "terminating"),
    ],
    ids=["bound", "another scheduler's", "being deleted"],
)
async def test_a_pod_that_does_not_wait_any_more_gets_no_record(world: World, change: Any, reason: str) -> None:
    await world.put_pod("web")
    hand = await world.hand()
    hand.store.pause_watches()
    await world.change_pod("web", change)

    outcome = await hand.record("web")
    assert isinstance(outcome, Gone)
    assert outcome.reason == reason
    assert await world.record_of("web") is None


async def test_a_deleted_pod_and_its_successor_of_the_name_get_no_record(world: World) -> None:
    created = await world.put_pod("web")
    hand = await world.hand()
    hand.store.pause_watches()
    await world.store.delete(keys.pod("default", "web"))
    await world.put_pod("web")

    outcome = await hand.record("web", uid="uid-web", create_revision=created)
    assert isinstance(outcome, Gone)
    assert outcome.reason == "deleted"
    assert await world.record_of("web") is None


async def test_recording_again_after_a_lost_answer_is_safe(world: World) -> None:
    await world.put_pod("web")
    hand = await world.hand()
    hand.store.fail_next(applied=True)
    with pytest.raises(ApplicationError) as raised:
        await hand.record("web")
    assert raised.value.type == "Unavailable"

    assert (await hand.record("web")).kind == "recorded"
    assert len((await world.pod("web"))["status"]["conditions"]) == 1


async def test_a_pod_with_no_room_for_a_condition_keeps_its_reason_in_the_record(world: World) -> None:
    await world.put_pod("web")
    hand = await world.hand()
    hand.store.fail_next(applied=False, error=RequestTooLarge("etcdserver: request is too large"))

    assert (await hand.record("web")).kind == "recorded"
    assert (await world.pod("web"))["status"] == {}
    assert (await world.record_of("web"))["message"] == "0/1 nodes are available: 1 Insufficient cpu."


async def test_schedulers_own_error_is_recorded_with_its_reason(world: World) -> None:
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web")
    hand = await world.hand()
    await hand.placed("web")
    await hand.record("web", reason="SchedulerError", message="plugin Fussy failed in Filter: boom", rejectors=())

    assert (await world.pod("web"))["status"]["conditions"][0]["reason"] == "SchedulerError"
    assert (await world.record_of("web"))["reason"] == "SchedulerError"
    assert hand.cache.assumed() == ()


async def test_a_decision_has_the_number_of_the_last_recorded_attempt(world: World) -> None:
    """Groups try a pod while its chain is parked, and the record alone has their numbers; another life begins anew."""
    await world.put_pod("web")
    hand = await world.hand()
    assert (await hand.refused("web")).attempts == 0
    await hand.record("web", attempt=3, revision=1)
    await hand.seen()
    assert (await hand.refused("web")).attempts == 3

    await world.store.delete(keys.pod("default", "web"))
    await world.put_pod("web")
    await hand.seen()
    assert (await hand.refused("web")).attempts == 0
