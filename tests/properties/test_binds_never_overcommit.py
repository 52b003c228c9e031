"""Whatever happens between workers: a node never gets more than it has, a pod is bound once.

Three workers place and bind the same pods at random: decided here and bound there, watches stand still,
answers get lost, nodes beat, pods change, nodes come and go. Judged from every revision of the store.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from random import Random
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.engine.conftest import Hand, World, world
from tests.properties.shares import shared_out
from wharfinger.contracts.scheduling import Bound, Gone, Placed
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Put

__all__ = ["world"]  # the fixture

NODES = {"node-0": 2, "node-1": 3, "node-2": 4, "node-3": 1}
PODS = 16
ROUNDS = 12


@pytest.mark.parametrize("seed", shared_out(25, quick=4))
async def test_no_node_is_overcommitted_and_no_pod_bound_twice(world: World, seed: int) -> None:
    rng = Random(seed)
    for name, cpu in NODES.items():
        await world.put_node(name, cpu=str(cpu))
    for number in range(PODS):
        await world.put_pod(f"web-{number}", cpu=str(rng.choice([1, 1, 2])))
    hands = [await world.hand() for _ in range(3)]
    trouble = asyncio.create_task(make_trouble(world, hands, rng))

    await asyncio.gather(*(schedule(f"web-{number}", hands, rng) for number in range(PODS)))

    trouble.cancel()
    await judge(world)


@pytest.mark.parametrize("seed", shared_out(10, quick=4))
async def test_with_nothing_in_the_way_every_place_is_filled(world: World, seed: int) -> None:
    rng = Random(seed)
    for name, cpu in NODES.items():
        await world.put_node(name, cpu=str(cpu))
    for number in range(PODS):
        await world.put_pod(f"web-{number}", cpu="1")
    hands = [await world.hand() for _ in range(3)]
    for _ in range(ROUNDS):
        await asyncio.gather(*(attempt(f"web-{number}", hands, rng) for number in range(PODS)))
        await world.seen()

    await judge(world)
    bound = [await world.node_of(f"web-{number}") for number in range(PODS)]
    assert sum(1 for node in bound if node) == sum(NODES.values())


async def schedule(name: str, hands: list[Hand], rng: Random) -> None:
    for _ in range(ROUNDS):
        if await attempt(name, hands, rng):
            return
        await asyncio.sleep(rng.random() * 0.005)


async def attempt(name: str, hands: list[Hand], rng: Random) -> bool:
    """One attempt, its bind perhaps on another worker and retried elsewhere; whether the pod needs no more."""
    try:
        outcome = await rng.choice(hands).place(name, revision=rng.choice([0, 1]))
    except ApplicationError:
        return False
    if not isinstance(outcome, Placed):
        return isinstance(outcome, Gone)
    for _ in range(5):
        try:
            answer = await rng.choice(hands).bind(name, outcome)
        except ApplicationError:
            continue
        return isinstance(answer, Bound | Gone)
    return False


async def make_trouble(world: World, hands: list[Hand], rng: Random, label: str = "") -> None:
    """One mishap after the other, until cancelled; `label`: under which nodes carry their names."""
    while True:
        hand = rng.choice(hands)
        match rng.randrange(8):
            case 0 | 1:
                hand.store.pause_watches()
            case 2 | 3:
                hand.store.resume_watches()
            case 4:
                hand.store.fail_next(applied=rng.random() < 0.5)
            case 5:
                name = rng.choice(list(NODES))
                labels = {label: name} if label else {}
                await world.put_node(name, cpu=str(NODES[name]), heartbeat=str(rng.random()), labels=labels)
            case 6:
                name = f"web-{rng.randrange(PODS)}"
                kv = (await world.store.get(keys.pod("default", name))).kv
                assert kv is not None
                obj = json.loads(kv.value)
                obj["metadata"]["labels"]["turn"] = str(rng.random())
                await put_unchanged(world, kv, obj)
            case 7:
                hand.clock[0] += rng.choice([1.0, 40.0])
                hand.cache.expire()
        await asyncio.sleep(rng.random() * 0.002)


async def put_unchanged(world: World, kv: Any, obj: Any) -> None:
    """A well-behaved client: writes only what it has read."""
    await world.store.txn([Compare(kv.key, "mod", kv.mod_revision)], [Put(kv.key, json.dumps(obj).encode())])


async def judge(world: World) -> None:
    """Look at every revision: what is on the nodes, and where each pod has been."""
    where: dict[str, str] = {}
    asked: dict[str, int] = {}
    async with world.store.watch(keys.PODS, 1) as batches:
        async for batch in batches:
            for event in batch.events:
                pod = json.loads(event.kv.value)
                node = pod["spec"].get("nodeName", "")
                assert not where.get(event.kv.key) or where[event.kv.key] == node, f"{event.kv.key} was bound twice"
                where[event.kv.key] = node
                asked[event.kv.key] = int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
            used: dict[str, int] = defaultdict(int)
            for key, node in where.items():
                used[node] += asked[key]
            for node, cpu in NODES.items():
                assert used[node] <= cpu, f"{node} has {used[node]} of {cpu} at revision {batch.revision}"
            if batch.revision >= world.store.revision:
                return
