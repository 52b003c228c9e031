"""Committing a gang: one transaction or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.world import Hand, World, turns
from wharfinger.etcd import keys
from wharfinger.process.transactions import STOCK, Limits
from wharfinger.scheduling.contracts.cohort_scheduling import BoundMany, PlacedMany
from wharfinger.scheduling.effects.binding.rounds import TURNS

APP = {"labelSelector": {"matchLabels": {"app": "gang"}}}


async def gang(
    world: World, members: int, nodes: int, *, limits: Limits = STOCK, **more: Any
) -> tuple[Hand, PlacedMany]:
    for number in range(nodes):
        labels = {"kubernetes.io/hostname": f"node-{number}", "zone": f"zone-{number % 2}"}
        await world.put_node(f"node-{number}", cpu="4", labels=labels)
    for number in range(members):
        await world.put_pod(f"member-{number}", **{"cpu": "1", "labels": {"app": "gang"}} | more)
    hand = await world.hand(limits=limits)
    placed = await hand.place_many(*(f"member-{number}" for number in range(members)))
    assert len(placed.seats) == members
    return hand, placed


async def nobody_bound(world: World, placed: PlacedMany) -> bool:
    return not any([await world.node_of(seat.name) for seat in placed.seats if await world.pod(seat.name)])


def kinds(bound: BoundMany) -> set[str]:
    return {one.kind for one in bound.unbound}


async def test_all_members_in_one_revision(world: World) -> None:
    hand, placed = await gang(world, 16, 8)
    before = world.store.revision

    bound = await hand.bind_many(placed, whole=True)

    assert (len(bound.bound), bound.unbound, bound.transactions) == (16, (), 1)
    assert world.store.revision == before + 1
    await hand.seen()
    assert hand.cache.assumed() == ()


async def test_members_may_rely_on_each_other(world: World) -> None:
    """Each member keeps away from the others' nodes, and all want one zone: they look at each other only."""
    affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", **APP}]
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **APP}]},
    }
    hand, placed = await gang(world, 4, 8, spec={"affinity": affinity})

    bound = await hand.bind_many(placed, whole=True)

    assert (len(bound.bound), bound.transactions) == (4, 1)
    assert len({one.node for one in bound.bound}) == 4
    assert len({int(one.node[-1]) % 2 for one in bound.bound}) == 1
    version = (await world.store.get(keys.terms("default"))).kv
    assert version is not None
    assert version.mod_revision == world.store.revision == hand.cache.terms["default"]


async def test_another_worker_may_bind_it(world: World) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **APP}
    _, placed = await gang(world, 6, 4, spec={"topologySpreadConstraints": [spread]})
    other = await world.hand()

    assert len((await other.bind_many(placed, whole=True)).bound) == 6


async def test_a_gang_that_no_transaction_can_hold_is_rejected_with_the_setting(world: World) -> None:
    hand, placed = await gang(world, 20, 20, limits=Limits(operations=50))

    bound = await hand.bind_many(placed, whole=True)

    assert (bound.bound, kinds(bound), bound.transactions) == ((), {"rejected"}, 0)
    message = bound.unbound[0].message
    assert "--max-txn-ops" in message
    assert "its 20 pods need 62 compares and 41 writes in one transaction, and 50 of each" in message
    assert hand.cache.assumed() == ()


async def test_a_gang_of_too_many_bytes_is_rejected(world: World) -> None:
    hand, placed = await gang(world, 4, 4, spec={"blob": "x" * 400_000})

    bound = await hand.bind_many(placed, whole=True)

    assert kinds(bound) == {"rejected"}
    assert "--max-txn-ops" in bound.unbound[0].message
    assert "4 pods come to 1,6" in bound.unbound[0].message


async def test_etcd_with_a_lower_limit_than_configured_is_reported(world: World) -> None:
    hand, placed = await gang(world, 60, 60, limits=Limits(operations=1000))

    bound = await hand.bind_many(placed, whole=True)

    assert kinds(bound) == {"rejected"}
    assert "etcd takes no transaction of 182 compares" in bound.unbound[0].message
    assert await nobody_bound(world, placed)


async def test_a_member_whose_room_was_taken_releases_all(world: World) -> None:
    hand, placed = await gang(world, 4, 4)
    taken = placed.seats[2].node
    await world.put_pod("first", cpu="4", spec={"nodeName": taken})
    await world.store.put(keys.binding(taken), b"{}")
    await hand.seen()

    bound = await hand.bind_many(placed, whole=True)

    assert (bound.bound, kinds(bound)) == ((), {"contended"})
    assert "Insufficient cpu" in bound.unbound[0].message
    assert await nobody_bound(world, placed)
    assert hand.cache.assumed() == ()


async def test_a_member_that_is_gone_releases_all(world: World) -> None:
    hand, placed = await gang(world, 4, 4)
    hand.store.pause_watches()
    await asyncio.sleep(0)
    await world.store.delete(keys.pod("default", "member-1"))

    bound = await hand.bind_many(placed, whole=True)

    assert {one.name: one.kind for one in bound.unbound} == {
        "member-0": "contended",
        "member-1": "gone",
        "member-2": "contended",
        "member-3": "contended",
    }
    assert await nobody_bound(world, placed)


async def test_a_member_that_goes_in_the_last_turn_releases_all_with_the_reason(world: World) -> None:
    """The gang relies on a pod that is placed and never bound."""
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    await world.put_node("node-0", labels={"zone": "a"})
    await world.put_pod("db", labels={"app": "db"})
    for number in range(2):
        await world.put_pod(f"member-{number}", spec={"affinity": affinity})
    hand = await world.hand()
    await hand.placed("db")
    placed = await hand.place_many("member-0", "member-1")
    assert len(placed.seats) == 2

    binding = asyncio.create_task(hand.bind_many(placed, whole=True))
    for turn in range(1, TURNS):
        await turns(50)
        if turn < TURNS - 1:
            await world.put_node(f"more-{turn}")
    await world.store.delete(keys.pod("default", "member-1"))
    bound = await binding

    assert {one.name: one.kind for one in bound.unbound} == {"member-0": "contended", "member-1": "gone"}
    assert bound.unbound[0].message == "the gang was not bound: default/member-1 is gone"
    assert hand.metrics.contended._value.get() == 0


async def test_heart_beats_labels_and_other_binds_are_taken_in(world: World) -> None:
    hand, placed = await gang(world, 4, 4)
    hand.store.pause_watches()
    await asyncio.sleep(0)
    node = placed.seats[0].node
    labels = {"kubernetes.io/hostname": node, "zone": f"zone-{int(node[-1]) % 2}"}
    await world.put_node(node, cpu="4", labels=labels, heartbeat="2")
    await world.change_pod("member-1", lambda obj: obj["metadata"]["labels"].update(turn="2"))

    bound = await hand.bind_many(placed, whole=True)

    assert (len(bound.bound), bound.transactions) == (4, 2)
    assert (await world.pod("member-1"))["metadata"]["labels"]["turn"] == "2"


async def test_behind_what_others_bound_it_is_contended(world: World) -> None:
    hand, placed = await gang(world, 4, 4)
    hand.store.pause_watches()
    await asyncio.sleep(0)
    await world.store.put(keys.binding(placed.seats[0].node), b"{}")

    bound = await hand.bind_many(placed, whole=True)

    assert (kinds(bound), len(bound.unbound)) == ({"contended"}, 4)
    assert "watch is behind" in bound.unbound[0].message


@pytest.mark.parametrize("applied", [True, False])
async def test_an_answer_that_got_lost_is_found_out_by_the_retry(world: World, applied: bool) -> None:
    hand, placed = await gang(world, 8, 8)
    hand.store.fail_next(applied=applied)

    with pytest.raises(ApplicationError) as failed:
        await hand.bind_many(placed, whole=True)
    assert failed.value.type == "Unavailable"
    bound = await hand.bind_many(placed, whole=True)

    assert {one.name: one.node for one in bound.bound} == {seat.name: seat.node for seat in placed.seats}
    assert len({one.revision for one in bound.bound}) == 1 or applied


async def test_gangs_that_compete_are_bound_whole(world: World) -> None:
    for number in range(4):
        await world.put_node(f"node-{number}", cpu="4")
    names = [[f"gang-{gang}-{member}" for member in range(8)] for gang in range(4)]
    for name in (name for members in names for name in members):
        await world.put_pod(name, cpu="1")
    hands = [await world.hand() for _ in range(4)]
    cohorts = await asyncio.gather(*(hand.place_many(*members) for hand, members in zip(hands, names, strict=True)))

    answers = await asyncio.gather(
        *(
            hand.bind_many(placed, whole=True, workflow_id=f"gang-{number}")
            for number, (hand, placed) in enumerate(zip(hands, cohorts, strict=True))
        )
    )

    assert {len(one.bound) for one in answers} == {0, 8}
    bound = [[await world.node_of(name) for name in members] for members in names]
    assert {sum(map(bool, nodes)) for nodes in bound} == {0, 8}
    assert 1 <= sum(1 for nodes in bound if nodes[0]) <= 2
