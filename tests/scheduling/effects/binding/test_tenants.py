"""Whose pod it is may change at any moment: a tenant comes or goes just before a transaction, and nothing is written.

Every transaction about a pod with a tenant label compares what its ownership was decided on, the common pool's too.
"""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.world import Hand, World
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.process.names import FailureType
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany
from wharfinger.scheduling.contracts.scheduling import Gone
from wharfinger.settings import BindSettings

RED = {"wharfinger.dev/tenant": "red"}
CALM = BindSettings(catch_up=2.0, behind=2.0)

either = pytest.mark.parametrize("pool", ["common", "red"])
"""The pool that loses the pod: the common one when the tenant comes, the tenant's when it goes."""


async def hand_of(world: World, pool: str) -> Hand:
    if pool == "red":
        await world.store.put(keys.tenant("red"), b"{}")
    return await world.hand(settings=CALM, tenant=pool)


async def change_hands(world: World, pool: str) -> None:
    if pool == "red":
        await world.store.delete(keys.tenant("red"))
    else:
        await world.store.put(keys.tenant("red"), b"{}")


def just_before_the_next_write(world: World, hand: Hand, pool: str) -> None:
    async def before(_: Any, writes: Any) -> None:
        if any(isinstance(write, Put) for write in writes):
            hand.store.before_txn = None
            await change_hands(world, pool)

    hand.store.before_txn = before


async def pods(world: World, count: int, *, cpu: str = "1", **more: Any) -> list[str]:
    names = [f"pod-{number}" for number in range(count)]
    for name in names:
        await world.put_pod(name, cpu=cpu, labels=RED, **more)
    return names


async def untold(world: World, names: list[str]) -> bool:
    """Whether no pod was bound, and nothing recorded."""
    bound = [await world.node_of(name) for name in names]
    return not any(bound) and not any([await world.record_of(name) for name in names])


@either
async def test_a_refusal_is_not_recorded_for_a_pod_that_became_another_pool_s(world: World, pool: str) -> None:
    """Its record would name a chain on a task queue that the new pool's chain has just ended."""
    names = await pods(world, 1)
    hand = await hand_of(world, pool)
    just_before_the_next_write(world, hand, pool)

    outcome = await hand.record(names[0])

    assert isinstance(outcome, Gone)
    assert outcome.reason == "not-ours"
    assert outcome.why == "other-pool"
    assert await untold(world, names)


@either
async def test_a_nomination_is_not_recorded_for_a_pod_that_became_another_pool_s(world: World, pool: str) -> None:
    await world.put_node("node", cpu="1")
    await world.put_pod("victim", cpu="1", spec={"nodeName": "node", "priority": 0})
    [name] = await pods(world, 1, spec={"priority": 10})
    hand = await hand_of(world, pool)
    refused = await hand.refused(name)
    assert refused.nominated_node == "node"
    just_before_the_next_write(world, hand, pool)

    outcome = await hand.record(name, nominated_node="node", victims=refused.victims)

    assert isinstance(outcome, Gone)
    assert "nominatedNodeName" not in (await world.pod(name)).get("status", {})


@either
async def test_cohort_writes_no_condition_to_a_pod_that_left_its_pool(world: World, pool: str) -> None:
    names = await pods(world, 5, cpu="64")
    await world.put_pod("plain", cpu="64")
    await world.put_node("node", cpu="1")
    hand = await hand_of(world, pool)
    mine = names if pool == "red" else [*names, "plain"]
    placed = await hand.place_many(*mine)
    assert len(placed.turned_away) == len(mine)
    just_before_the_next_write(world, hand, pool)

    recorded = await hand.record_many(placed)

    assert (recorded.recorded, recorded.gone) == (len(mine) - 5, 5)
    assert await untold(world, names)


@either
async def test_a_cohort_binds_no_pod_that_became_another_pool_s(world: World, pool: str) -> None:
    await world.put_node("node", cpu="64")
    names = await pods(world, 5)
    hand = await hand_of(world, pool)
    placed = await hand.place_many(*names)
    just_before_the_next_write(world, hand, pool)

    bound = await hand.bind_many(placed)

    assert {(one.kind, one.reason) for one in bound.unbound} == {("gone", "other-pool")}
    assert await untold(world, names)
    assert hand.cache.assumed() == ()


async def gang(world: World, pool: str) -> tuple[Hand, PlacedMany, list[str]]:
    await world.put_node("node", cpu="64")
    names = await pods(world, 4)
    hand = await hand_of(world, pool)
    placed = await hand.place_many(*names)
    assert len(placed.seats) == 4
    return hand, placed, names


@either
async def test_a_gang_is_not_bound_when_it_becomes_another_pool_s_just_before(world: World, pool: str) -> None:
    """Trying again with what is known by then would bind it all the same."""
    hand, placed, names = await gang(world, pool)
    just_before_the_next_write(world, hand, pool)

    bound = await hand.bind_many(placed, whole=True)

    assert {one.kind for one in bound.unbound} <= {"gone", "contended"}
    assert bound.bound == ()
    assert await untold(world, names)
    assert hand.cache.assumed() == ()


async def test_a_pod_that_became_ours_unseen_is_not_gone(world: World) -> None:
    """Its new pool's first worker saw the tenant come and started the chain; this one takes it, and has not seen it."""
    [name] = await pods(world, 1)
    await world.put_node("node")
    hand = await world.hand(settings=BindSettings(behind=0.5), tenant="red")
    hand.store.pause_watches()
    await world.store.put(keys.tenant("red"), b"{}")

    with pytest.raises(ApplicationError) as failed:
        await hand.place(name, revision=0)
    assert failed.value.type == FailureType.UNAVAILABLE

    hand.store.resume_watches()
    await hand.seen()
    assert (await hand.placed(name)).node == "node"


async def test_a_refusal_waits_for_no_watch_that_does_not_come(world: World) -> None:
    """It is tried again by Temporal, and nothing is written meanwhile."""
    names = await pods(world, 1)
    hand = await world.hand(settings=BindSettings(catch_up=0.05))
    hand.store.pause_watches()
    await world.store.put(keys.tenant("red"), b"{}")

    with pytest.raises(ApplicationError) as failed:
        await hand.record(names[0])
    assert failed.value.type == FailureType.UNAVAILABLE
    assert await untold(world, names)
