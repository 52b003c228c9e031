"""Cohorts and single attempts of several workers on one store: no node gets more than it has, no pod two nodes.

As `test_binds_never_overcommit`, with many pods a transaction, on servers that take few operations; some pods have
rules across nodes. Judged from every revision of the store, and every transaction against the limits.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.engine.conftest import Hand, World, world
from tests.properties.shares import shared_out
from tests.properties.test_binds_never_overcommit import NODES, PODS, attempt, judge, make_trouble
from wharfinger.contracts.cohort_scheduling import BoundMany, PlacedMany
from wharfinger.engine.transactions import Limits
from wharfinger.registry import keys

__all__ = ["world"]  # the fixture

ROUNDS = 12
HOSTNAME = "kubernetes.io/hostname"
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "apart"}}}
        ]
    }
}


async def cluster(world: World, rng: Random, *, operations: int, apart: float = 0.0) -> list[Hand]:
    for name, cpu in NODES.items():
        await world.put_node(name, cpu=str(cpu), labels={HOSTNAME: name})
    for number in range(PODS):
        rules: dict[str, Any] = {}
        if rng.random() < apart:
            rules = {"labels": {"app": "apart"}, "spec": {"affinity": APART}}
        await world.put_pod(f"web-{number}", cpu=str(rng.choice([1, 1, 2])), **rules)
    hands = [await world.hand(limits=Limits(operations=operations)) for _ in range(3)]
    for hand in hands:
        hand.store.before_txn = lambda compares, success: check(operations, compares, success)
    return hands


def check(operations: int, compares: Any, success: Any) -> None:
    pods = [each for each in success if each.key.startswith(keys.PODS)]
    if len(pods) > 1:  # one alone is sent whatever it needs
        assert max(len(compares), len(success)) <= operations


@pytest.mark.parametrize("seed", shared_out(25, quick=4))
async def test_no_node_is_overcommitted_and_no_pod_bound_twice(world: World, seed: int) -> None:
    rng = Random(seed)
    hands = await cluster(world, rng, operations=rng.choice([8, 16, 40, 128]), apart=0.2)
    trouble = asyncio.create_task(make_trouble(world, hands, rng, HOSTNAME))

    await asyncio.gather(
        *(cohorts(hands, rng) for _ in range(3)),
        *(singles(f"web-{number}", hands, rng) for number in range(0, PODS, 4)),
    )

    trouble.cancel()
    await judge(world)
    await judge_apart(world)


@pytest.mark.parametrize("seed", shared_out(10, quick=4))
async def test_with_nothing_in_the_way_every_place_is_filled(world: World, seed: int) -> None:
    rng = Random(seed)
    hands = await cluster(world, rng, operations=128)
    for number in range(PODS):
        await world.put_pod(f"web-{number}", cpu="1")
    for _ in range(ROUNDS):
        await asyncio.gather(*(cohort(hand, hand, rng) for hand in hands))
        await world.seen()

    await judge(world)
    bound = [await world.node_of(f"web-{number}") for number in range(PODS)]
    assert sum(1 for node in bound if node) == sum(NODES.values())


@pytest.mark.parametrize("seed", shared_out(10, quick=4))
async def test_each_seat_has_one_outcome_that_is_true(world: World, seed: int) -> None:
    rng = Random(seed)
    hands = await cluster(world, rng, operations=40)

    async def one(hand: Hand) -> None:
        placed, bound = await cohort(hand, rng.choice(hands), rng)
        if placed is None or bound is None:
            return
        seats = [seat.name for seat in placed.seats]
        assert sorted(seats) == sorted(each.name for each in (*bound.bound, *bound.unbound))
        for each in bound.bound:
            assert await world.node_of(each.name) == each.node
            assert each.revision <= world.store.revision

    for _ in range(3):
        await asyncio.gather(*map(one, hands))
    await judge(world)


async def cohorts(hands: list[Hand], rng: Random) -> None:
    for _ in range(ROUNDS):
        await cohort(rng.choice(hands), rng.choice(hands), rng)
        await asyncio.sleep(rng.random() * 0.005)


async def singles(name: str, hands: list[Hand], rng: Random) -> None:
    for _ in range(ROUNDS):
        if await attempt(name, hands, rng):
            return
        await asyncio.sleep(rng.random() * 0.005)


async def cohort(hand: Hand, binder: Hand, rng: Random) -> tuple[PlacedMany | None, BoundMany | None]:
    """Some of the pods, decided here and bound there, again where the answer was lost; then recorded."""
    names = rng.sample([f"web-{number}" for number in range(PODS)], rng.randint(2, PODS))
    placed = await hand.place_many(*names, recorded=rng.random() < 0.5)
    chain = f"cohort-{rng.random()}"
    for _ in range(5):
        try:
            bound = await binder.bind_many(placed, whole=rng.random() < 0.1, workflow_id=chain)
        except ApplicationError:
            continue
        with suppress(ApplicationError):
            await hand.record_many(placed, workflow_id=chain)
        return placed, bound
    return placed, None


async def judge_apart(world: World) -> None:
    """Pods that keep away from each other share no node."""
    nodes: list[str] = []
    for number in range(PODS):
        pod = await world.pod(f"web-{number}")
        node = pod["spec"].get("nodeName")
        if node and pod["metadata"]["labels"].get("app") == "apart":
            nodes.append(node)
    assert len(nodes) == len(set(nodes))
