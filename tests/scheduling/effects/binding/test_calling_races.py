"""Many pods with asynchronous plugins, several workers, lost answers, crashes: never too many pods on a node."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.called_plugins import Licences, call_step, profiles_with
from tests.scheduling.world import Hand, World
from wharfinger.errors import StoreError, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Operation, Put, Store, TxnResult
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.contracts.plugin_calls import CallsMade, Held, first_answers
from wharfinger.scheduling.contracts.scheduling import Bound, Gone, Placed

PODS, NODES, ROOM = 14, 3, 4
"""Pods of one CPU each; twelve have room."""


class Fickle(Licences):
    """Refuses or raises now and then, and notes the calls whose effect was undone."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self.undone: set[str] = set()

    async def pre_bind(self, state: Any, pod: Pod, node_name: str, call: Any) -> Status:
        await asyncio.sleep(0)
        state.carry(self.name, call.key)
        chance = self._rng.random()
        if chance < 0.15:
            raise ConnectionError("refused")
        return unschedulable("not now") if chance < 0.3 else SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.undone.add(str(state.carried(self.name)))


async def one_life(hands: list[Hand], name: str, rng: random.Random, bound: set[str]) -> None:
    """Attempts of one pod, each step on any worker, until it is bound or its tries are over."""
    for run in range(25):
        try:
            if await one_attempt(hands, name, rng, f"run-{run}"):
                bound.add(name)
                return
        except ApplicationError:
            continue
        await asyncio.sleep(0)


async def one_attempt(hands: list[Hand], name: str, rng: random.Random, run_id: str) -> bool:
    placed = await rng.choice(hands).place(name, run_id=run_id)
    if isinstance(placed, Gone):
        return placed.reason == "bound"
    if not isinstance(placed, Placed):
        return False
    calls: CallsMade | None = None
    for _ in range(8):
        hand = rng.choice(hands)
        if rng.random() < 0.1:
            hand.store.fail_next(applied=rng.random() < 0.5)
        try:
            outcome = await hand.bind(name, placed, run_id=run_id, calls=calls)
        except ApplicationError as error:
            if error.non_retryable:
                return False
            continue  # Temporal tries again, perhaps elsewhere
        if not isinstance(outcome, Held):
            return isinstance(outcome, Bound)
        if rng.random() < 0.1:
            return False  # the run is terminated with its room held
        calls = calls or first_answers(outcome)
        try:
            calls = calls.with_one(await call_step(rng.choice(hands), name, placed, outcome, calls, run_id=run_id))
        except ApplicationError:
            continue
    return False


async def judged(store: Store, worst: list[str]) -> None:
    """At every revision: what is bound on a node has room there."""
    where: dict[str, str] = {}
    async with store.watch(keys.PODS, 1) as batches:
        async for batch in batches:
            for event in batch.events:
                name = event.kv.key.rpartition("/")[2]
                node = json.loads(event.kv.value)["spec"].get("nodeName", "") if not event.deleted else ""
                if where.get(name) and node != where[name]:
                    worst.append(f"{name} moved from {where[name]} to {node!r}")
                where[name] = node
            full = Counter(where.values()) - Counter({"": PODS})
            worst += [f"{node} at {batch.revision}" for node, pods in full.items() if pods > ROOM]


@pytest.mark.parametrize("seed", range(6))
async def test_rooms_are_never_given_away_twice(world: World, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(NODES):
        await world.put_node(f"n{number}", cpu=str(ROOM))
    names = [f"p{number}" for number in range(PODS)]
    for name in names:
        await world.put_pod(name)
    hands = [await world.hand(profiles=profiles_with(Fickle(rng))) for _ in range(3)]
    worst: list[str] = []
    judge = asyncio.create_task(judged(world.store, worst))
    bound: set[str] = set()
    await asyncio.gather(*(one_life(hands, name, rng, bound) for name in names))
    await world.seen()
    await asyncio.sleep(0.01)
    judge.cancel()

    assert not worst
    assert {name for name in names if await world.node_of(name)} == bound
    assert len(bound) >= PODS // 2
    held = {key.name for key, place in hands[0].cache.held_places.items() if place.is_for(hands[0].cache.pods[key])}
    assert not held & bound
    for hand in hands:
        counted = [pod.name for number in range(NODES) for pod in hand.cache.node_info(f"n{number}").pods]  # type: ignore[union-attr]
        assert sorted(counted) == sorted(set(counted))


def stands_still(hand: Hand, rng: random.Random, late: list[asyncio.Task[None]]) -> None:
    """Have the worker stop before some of its transactions; they are sent long after others have gone on."""
    txn = hand.store.txn

    async def send_late(*transaction: Any) -> None:
        for _ in range(rng.randrange(5, 400)):
            await asyncio.sleep(0)
        try:
            await txn(*transaction)
        except StoreError:
            return

    async def sometimes(compares: Sequence[Condition], success: Sequence[Operation], *more: Any) -> TxnResult:
        binds = any(isinstance(one, Put) and one.key.startswith((keys.PODS, keys.HOLDS)) for one in success)
        if binds and rng.random() < 0.15:
            late.append(asyncio.create_task(send_late(compares, success, *more)))
            raise Unavailable("the worker stands still", maybe_applied=True)
        return await txn(compares, success, *more)

    hand.store.txn = sometimes  # type: ignore[method-assign]


@pytest.mark.parametrize("seed", range(6))
async def test_no_pod_is_bound_after_its_plugins_were_undone(world: World, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(NODES):
        await world.put_node(f"n{number}", cpu=str(ROOM))
    names = [f"p{number}" for number in range(PODS)]
    for name in names:
        await world.put_pod(name)
    plugin = Fickle(rng)
    hands = [await world.hand(profiles=profiles_with(plugin)) for _ in range(3)]
    late: list[asyncio.Task[None]] = []
    for hand in hands:
        stands_still(hand, rng, late)
    worst: list[str] = []
    judge = asyncio.create_task(judged(world.store, worst))
    bound: set[str] = set()
    await asyncio.gather(*(one_life(hands, name, rng, bound) for name in names))
    await asyncio.gather(*late)
    await world.seen()
    await asyncio.sleep(0.01)
    judge.cancel()

    assert not worst
    by = {name: (await world.pod(name))["metadata"]["annotations"].get("wharfinger.dev/attempt", "") for name in names}
    where = {name: await world.node_of(name) for name in names}
    undone = [name for name in names if where[name] and f"uid-{name}/{by[name].rpartition('@')[2]}" in plugin.undone]
    assert not undone
    assert late
