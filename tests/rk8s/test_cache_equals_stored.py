"""After any sequence of puts, deletes, binds, refusals and evictions, a worker's cache is what is stored.

Two workers place and bind on one store in memory, beside rk8s' own programs; their caches, which watched it all, are
compared with one that lists the store, and with the documents as a plain reader of YAML has them.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.properties.shares import shared_out
from tests.rk8s import rk8s_documents as docs
from tests.rk8s.rk8s_world import Rk8sWorld
from tests.scheduling.effects.refusing.test_preemption import eviction, refusal
from tests.scheduling.world import Hand
from wharfinger.etcd import keys
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import Event
from wharfinger.objects.rk8s.format import RK8S
from wharfinger.scheduling.contracts.eviction import Evicted
from wharfinger.scheduling.contracts.scheduling import Placed, Recorded, Refused
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import observe
from wharfinger.scheduling.state.informer.view import View
from wharfinger.telemetry import Metrics

NODES = [f"node-{number}" for number in range(3)]
PODS = [f"web-{number}" for number in range(8)]
STEPS = 80
UNREADABLE = (b"", b"\xff", b"kind: Pod\n", b"{", b'{"kind": "Pod", "spec": {"nodeName": "node-1"}}')


class Story:
    """One sequence, on a seed."""

    def __init__(self, world: Rk8sWorld, hands: list[Hand], seed: int) -> None:
        self.world, self.hands, self.rng = world, hands, Random(seed)
        self.done: Counter[str] = Counter()

    async def step(self) -> None:
        """What anyone may do next."""
        name, node, hand = self.rng.choice(PODS), self.rng.choice(NODES), self.rng.choice(self.hands)
        match self.rng.randrange(20):
            case 0 | 1 | 2 | 3 | 4:
                await self.put(name)
            case 5 | 6:
                await self.world.store.delete(f"/registry/pods/{name}")
            case 7:
                cpu, ready = self.rng.choice(["1", "2", "2"]), self.rng.choice(["True", "False"])
                await self.world.put(docs.node(node, cpu=cpu, ready=ready))
            case 8 if self.rng.random() < 0.2:
                await self.world.store.delete(f"/registry/nodes/{node}")
            case 9 if await self.is_readable(name):
                await self.world.bind_as_libscheduler(name, node)
            case 10 if not await self.is_bound(name):
                await self.world.store.put(f"/registry/pods/{name}", self.rng.choice(UNREADABLE))
            case _:
                pending = [pod.name for pod in hand.cache.pods.values() if not pod.bound]
                await self.attempt(self.rng.choice(pending or PODS), hand)

    async def put(self, name: str) -> None:
        """A new pod, or the old one with other content; as rk8s' writer lays it out, or as JSON."""
        priority = self.rng.choice([None, 1, 10])
        bound = self.rng.choice([*[None] * 9, self.rng.choice(NODES)])
        if await self.is_readable(name):
            bound = await self.world.node_of(name) or None
        gates = ("wait",) if self.rng.random() < 0.1 else ()
        cpu = self.rng.choice(["500m", "1", "2"])
        made = docs.pod(name, cpu=cpu, memory="1Mi", priority=priority, gates=gates, node_name=bound)
        value = json.dumps(made).encode() if self.rng.random() < 0.2 else docs.document(made)
        await self.world.store.put(f"/registry/pods/{name}", value)

    async def attempt(self, name: str, hand: Hand) -> None:
        """Place a pod, then bind it, or record why not, and evict; each step on any worker, its answer perhaps lost."""
        await self.world.seen()
        try:
            outcome = await hand.place(name)
            other = self.rng.choice(self.hands)
            if self.rng.random() < 0.2:
                other.store.fail_next(applied=self.rng.random() < 0.5)
            if isinstance(outcome, Placed):
                self.done["bound"] += (await other.bind(name, outcome)).kind == "bound"
            elif isinstance(outcome, Refused):
                recorded = await other.activities.record_refusal(refusal(outcome, name=name))
                await self.world.seen()
                self.done["refused"] += isinstance(recorded, Recorded)
                if isinstance(recorded, Recorded) and recorded.nominated and outcome.victims:
                    ended = await self.rng.choice(self.hands).activities.evict(eviction(outcome, recorded, name=name))
                    self.done["evicted"] += isinstance(ended, Evicted) and len(ended.evicted)
        except ApplicationError:  # a lost answer
            return

    async def is_readable(self, name: str) -> bool:
        value = await self.world.value(name)
        return value is not None and value not in UNREADABLE

    async def is_bound(self, name: str) -> bool:
        return await self.is_readable(name) and bool(await self.world.node_of(name))


async def listed(world: Rk8sWorld) -> View:
    """What a worker knows that starts now."""
    view = View(Cache(clock=lambda: 0.0), Metrics(), format_=RK8S)
    store = store_of(world.store, world.format)
    changes = Changes(world.store.revision)
    async for page in store.list(keys.ROOT):
        for kv in page.items:
            observed = observe(Event(kv), format_=RK8S)
            if observed is not None:
                view.take(observed, changes)
    view.cache.progress.advance(world.store.revision)
    return view


def on_nodes(cache: Cache) -> dict[str, Any]:
    """Each node with its pods, and what these use."""
    return {info.node.name: (info.node, dict(info.pods), dict(info.requested)) for info in cache.snapshot().rows}


@pytest.mark.parametrize("seed", shared_out(20, quick=8))
async def test_cache_of_each_worker_is_what_is_stored(seed: int) -> None:
    world = Rk8sWorld()
    await world.store.put(keys.INSTALLATION, b"{}")
    for name in NODES:
        await world.put(docs.node(name, cpu="2"))
    hands = [await world.hand() for _ in range(2)]
    story = Story(world, hands, seed)
    for _ in range(STEPS):
        await story.step()
        await world.seen()
    while any(hand.cache.assumed() for hand in hands):  # of transactions whose answer was lost
        for hand in hands:
            for one in hand.cache.assumed():
                hand.cache.forget_unsent(one.identity)
            await hand.seen()

    expected = (await listed(world)).cache
    for hand in hands:
        assert on_nodes(hand.cache) == on_nodes(expected)
        assert dict(hand.cache.snapshot().nominated) == dict(expected.snapshot().nominated)
        assert dict(hand.cache.pods) == dict(expected.pods)
        assert dict(hand.cache.nodes) == dict(expected.nodes)
        for key in expected.pods:
            assert hand.cache.raw(key) == expected.raw(key)
    assert story.done["bound"]
    plain = {name: await world.node_of(name) for name in PODS if await story.is_readable(name)}
    assert {key.name: pod.node_name for key, pod in expected.pods.items()} == plain
    await world.close()
