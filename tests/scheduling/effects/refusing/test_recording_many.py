"""Recording a cohort's refusals: many pods a transaction; who changed meanwhile is written alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.world import CLUSTER, Hand, World
from wharfinger.errors import RequestTooLarge
from wharfinger.etcd import keys
from wharfinger.process.names import pod_workflow_id
from wharfinger.scheduling.contracts.cohort_scheduling import GangName, PlacedMany
from wharfinger.scheduling.contracts.eviction import Victim


async def refused(world: World, pods: int, **more: Any) -> tuple[Hand, PlacedMany]:
    await world.put_node("node", cpu="1")
    for number in range(pods):
        await world.put_pod(f"big-{number}", cpu="64", **more)
    hand = await world.hand()
    placed = await hand.place_many(*(f"big-{number}" for number in range(pods)))
    assert len(placed.turned_away) == pods
    return hand, placed


async def test_many_are_written_in_few_transactions(world: World) -> None:
    hand, placed = await refused(world, 100)
    before = world.store.revision

    recorded = await hand.record_many(placed)

    assert (recorded.recorded, recorded.gone, recorded.revision) == (100, 0, world.store.revision)
    assert world.store.revision == before + 2  # two writes a pod, 128 of them at a time
    record = await world.record_of("big-42")
    assert record["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert (record["plugins"], record["revision"]) == (["NodeResourcesFit"], 5)
    assert (record["workflow_id"], record["run_id"]) == ("test/cohort/1", "run-1")
    assert (record["parked"], record["urgent"], record["decided_by"]) == (False, False, "")
    [condition] = (await world.pod("big-42"))["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")


async def test_second_try_gives_the_same_answer(world: World) -> None:
    hand, placed = await refused(world, 3)
    await hand.record_many(placed)
    await hand.seen()
    pods = [await world.pod(f"big-{number}") for number in range(3)]

    again = await hand.record_many(placed)

    assert again.recorded == 3
    assert [await world.pod(f"big-{number}") for number in range(3)] == pods


async def test_a_record_that_its_own_chain_wrote_meanwhile_stays(world: World) -> None:
    hand, placed = await refused(world, 3)
    away = tuple(one.model_copy(update={"record_revision": 0}) for one in placed.turned_away)
    await hand.record("big-1", workflow_id=pod_workflow_id(CLUSTER, "default", "big-1", placed.turned_away[1].uid))
    written = await world.record_of("big-1")

    recorded = await hand.record_many(placed.model_copy(update={"turned_away": away}))

    assert recorded.recorded == 3
    assert await world.record_of("big-1") == written
    assert written["parked"]
    assert [(await world.record_of(name))["parked"] for name in ("big-0", "big-2")] == [False, False]


async def test_a_pod_with_a_parked_chain_keeps_naming_it(world: World) -> None:
    hand, placed = await refused(world, 1)
    [away] = placed.turned_away
    chained = placed.model_copy(update={"turned_away": (away.model_copy(update={"chained": True}),)})

    await hand.record_many(chained)

    record = await world.record_of("big-0")
    assert record["workflow_id"] == pod_workflow_id(CLUSTER, "default", "big-0", "uid-big-0")
    assert (record["parked"], record["decided_by"]) == (True, "test/cohort/1@run-1")


async def test_pod_that_may_be_helped_at_once_is_urgent(world: World) -> None:
    hand, placed = await refused(world, 2)
    first, second = placed.turned_away
    urgent = placed.model_copy(update={"turned_away": (first.model_copy(update={"own_attempt": True}), second)})

    await hand.record_many(urgent, reason="Contended")

    assert (await world.record_of("big-0"))["urgent"]
    assert (await world.record_of("big-0"))["reason"] == "Contended"
    assert not (await world.record_of("big-1"))["urgent"]


async def test_pods_that_changed_are_written_as_they_are(world: World) -> None:
    hand, placed = await refused(world, 20)
    hand.store.pause_watches()
    await asyncio.sleep(0)
    await world.change_pod("big-3", lambda obj: obj["metadata"]["labels"].update(turn="2"))
    await world.store.delete(keys.pod("default", "big-4"))
    await world.put_pod("big-5", uid="another")
    await world.change_pod("big-6", lambda obj: obj["spec"].update(nodeName="node"))

    recorded = await hand.record_many(placed)

    assert (recorded.recorded, recorded.gone) == (17, 3)
    assert recorded.gone_reasons == {"deleted": 1, "replaced": 1, "bound": 1}
    assert (await world.pod("big-3"))["metadata"]["labels"] == {"turn": "2"}
    assert (await world.pod("big-3"))["status"]["conditions"][0]["reason"] == "Unschedulable"
    assert [name for name in ("big-4", "big-5", "big-6") if await world.record_of(name)] == []


async def test_etcd_with_a_lower_limit_than_configured_gets_smaller_txns(world: World) -> None:
    hand, placed = await refused(world, 60)

    def refuse(compares: Any, success: Any) -> None:
        if len(success) > 20:
            raise RequestTooLarge("too many operations")

    hand.store.before_txn = refuse

    assert (await hand.record_many(placed)).recorded == 60


async def test_a_pod_without_room_for_its_condition_has_its_record(world: World) -> None:
    hand, placed = await refused(world, 3, spec={"blob": "x" * 1_571_000})

    recorded = await hand.record_many(placed)

    assert recorded.recorded == 3
    assert (await world.record_of("big-1"))["reason"] == "Unschedulable"


@pytest.mark.parametrize("applied", [True, False])
async def test_an_answer_that_got_lost_is_made_good_by_the_retry(world: World, applied: bool) -> None:
    hand, placed = await refused(world, 10)
    hand.store.fail_next(applied=applied)

    with pytest.raises(ApplicationError):
        await hand.record_many(placed)
    assert (await hand.record_many(placed)).recorded == 10


async def test_a_gang_keeps_its_chain_and_its_nominations(world: World) -> None:
    await world.put_node("node-0", cpu="1")
    await world.put_node("node-1", cpu="1")
    old = await world.put_pod("old", cpu="1", spec={"nodeName": "node-0"})
    for number in range(2):
        await world.put_pod(f"member-{number}", cpu="1", spec={"priority": 10})
    hand = await world.hand()
    placed = await hand.place_many("member-0", "member-1")
    assert len(placed.seats) == 1
    away = tuple(
        placed.turned_away[0].model_copy(
            update={
                "name": f"member-{number}",
                "uid": f"uid-member-{number}",
                "create_revision": old + 1 + number,
                "nominated_node": f"node-{number}",
                "victims": (Victim(pod="default/old", create_revision=old, uid="uid-old"),) if number == 0 else (),
            }
        )
        for number in range(2)
    )

    recorded = await hand.record_many(
        placed.model_copy(update={"turned_away": away}), gang=GangName(namespace="default", name="team")
    )

    assert (recorded.recorded, recorded.lapsed) == (2, ())
    kv = (await world.store.get(keys.attempt("default", "member-0"))).kv
    assert kv is not None
    assert recorded.record_revisions["default/member-0"] == kv.mod_revision
    for number in range(2):
        assert (await world.record_of(f"member-{number}"))["parked"]
        assert (await world.pod(f"member-{number}"))["status"]["nominatedNodeName"] == f"node-{number}"


async def test_a_gang_s_nomination_that_would_not_help_has_lapsed(world: World) -> None:
    await world.put_node("node", cpu="1")
    await world.put_pod("other", cpu="1", spec={"nodeName": "node"})
    old = await world.put_pod("old", cpu="1")
    hand, placed = await refused(world, 1)
    [away] = placed.turned_away
    victims = (Victim(pod="default/old", create_revision=old, uid="uid-old"),)
    nominated = away.model_copy(update={"nominated_node": "node", "victims": victims})

    recorded = await hand.record_many(
        placed.model_copy(update={"turned_away": (nominated,)}), gang=GangName(namespace="default", name="team")
    )

    assert (recorded.recorded, recorded.lapsed) == (1, ("default/big-0",))
    assert (await world.record_of("big-0"))["victims"] == []
