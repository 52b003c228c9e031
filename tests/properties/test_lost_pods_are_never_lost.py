"""Clearing absent nodes under faults: no bare pod falls out, no present node is touched, and the budget holds.

Nodes vanish and return, users put and delete pods, two workers clear while their writes fail or their answers get
lost. The store's whole history is judged, revision by revision.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.exceptions import ApplicationError

from tests.scheduling.intercepted import intercepted
from tests.scheduling.world import NOW, World, pod_object
from wharfinger.activities.node_evictions import NodeEvictionActivities
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import NodeBudgetRecord
from wharfinger.scheduling.contracts.node_eviction import ClearInput
from wharfinger.settings import NodeEvictionSettings

NODES = [f"n{number}" for number in range(20)]
ALLOWED = 2
WINDOW = 300.0
OWNED = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
STEPS = 60


class Cluster:
    """Users, nodes and two workers on one store."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world = World()
        self.now = NOW.timestamp()
        self.names = itertools.count()
        self.uids = itertools.count()
        self.workers: list[NodeEvictionActivities] = []
        self.deleted: set[int] = set()
        """Revisions at which users deleted pods."""

    async def begin(self) -> None:
        for node in NODES:
            await self.world.put_node(node)
        for _ in range(2):
            hand = await self.world.hand()
            self.workers.append(
                intercepted(
                    NodeEvictionActivities(
                        ProcessParts(hand.store, hand.metrics, utc_now=lambda: datetime.fromtimestamp(self.now, UTC)),
                        hand.cache,
                        NodeEvictionSettings(lost_pods="requeue", lost_after=WINDOW),
                        mode="immediate",
                        new_uid=lambda: f"new-{next(self.uids)}",
                    )
                )
            )

    async def step(self) -> None:
        action = self.rng.choices(
            (self.put, self.delete, self.vanish, self.appear, self.clear, self.later), (4, 1, 3, 2, 8, 1)
        )[0]
        await action()

    async def put(self) -> None:
        obj = pod_object(f"p{next(self.names)}", spec={"nodeName": self.rng.choice(NODES)})
        if self.rng.random() < 0.3:
            obj["metadata"]["ownerReferences"] = OWNED
        await self.world.store.put(keys.pod("default", obj["metadata"]["name"]), json.dumps(obj).encode())

    async def delete(self) -> None:
        pods = [kv.key async for page in self.world.store.list(keys.PODS) for kv in page.items]
        if pods:
            await self.world.store.delete(self.rng.choice(pods))
            self.deleted.add(self.world.store.revision)

    async def vanish(self) -> None:
        await self.world.store.delete(keys.node(self.rng.choice(NODES)))

    async def appear(self, node: str = "") -> None:
        await self.world.put_node(node or self.rng.choice(NODES))

    async def put_in_between(self) -> None:
        """A user puts a pod of a name whose old pod is deleted and not yet made anew."""
        store = self.world.store
        records = [kv.key async for page in store.list(keys.REQUEUED) for kv in page.items]
        names = [record.rpartition("/")[2] for record in records]
        if names and (await store.get(keys.pod("default", names[0]))).kv is None:
            await self.world.put_pod(names[0], uid=f"user-{next(self.uids)}")

    async def later(self) -> None:
        self.now += self.rng.choice([1.0, WINDOW / 2, WINDOW])

    async def clear(self, node: str = "", *, faults: bool = True) -> None:
        """One worker clears one node; a write of it may fail, and anything may happen in the middle."""
        await self.world.seen()
        node = node or self.rng.choice(NODES)
        number = self.rng.randrange(len(self.workers))
        store = self.world.hands[number].store
        writes = itertools.count()
        fails_at, acts_at = self.rng.randrange(8), self.rng.randrange(8)

        async def before(*_: object) -> None:
            at = next(writes)
            if faults and at == acts_at:
                others = (self.vanish, self.put, self.delete, self.put_in_between, lambda: self.appear(node))
                await self.rng.choice(others)()
            if faults and at == fails_at:
                store.fail_next(applied=self.rng.random() < 0.5)

        store.before_txn = before
        request = ClearInput(node=node, now=self.now, absent=True)
        with suppress(ApplicationError):
            await self.workers[number].clear_node(request)
        store.before_txn = None

    async def settle(self) -> None:
        """Without faults, until nothing is left to be done."""
        for _ in range(len(NODES)):
            for node in NODES:
                await self.clear(node, faults=False)
            self.now += WINDOW


def judge(history: list[list[Event]], deleted: set[int]) -> None:
    """Every revision of the store."""
    state: dict[str, Any] = {}
    admitted: dict[str, float] = {}
    uids: set[str] = set()
    for events in history:
        revision = events[0].kv.mod_revision
        before = dict(state)
        for event in events:
            if event.deleted:
                state.pop(event.kv.key, None)
            else:
                state[event.kv.key] = json.loads(event.kv.value)
            if event.kv.key == keys.NODE_BUDGET:
                admitted = NodeBudgetRecord.model_validate_json(event.kv.value).admitted
                assert len(admitted) <= ALLOWED, revision
        for event in events:
            key = event.kv.key
            if key.startswith(keys.PODS) and event.deleted and revision not in deleted:
                node = before[key]["spec"]["nodeName"]
                assert keys.node(node) not in before, f"{key} was deleted at {revision} on a present node"
                assert node in admitted, f"{key} was deleted at {revision} on a node that was not admitted"
                kept = keys.requeued(node, *key.removeprefix(keys.PODS).split("/")) in state
                assert kept or "ownerReferences" in before[key]["metadata"], f"{key} fell out at {revision}"
            if key.startswith(keys.REQUEUED) and event.deleted:
                assert "/".join((keys.PODS[:-1], *key.split("/")[-2:])) in state, f"{key} fell out at {revision}"
            if key.startswith(keys.PODS) and not event.deleted and "nodeName" not in state[key]["spec"]:
                uid = state[key]["metadata"]["uid"]
                assert uid not in uids, f"{key} was made anew twice with one uid"
                assert key not in before, f"{key} was overwritten at {revision}"
                uids.add(uid)
    for key, value in state.items():
        assert not key.startswith(keys.REQUEUED), key
        node = value["spec"].get("nodeName") if key.startswith(keys.PODS) else None
        assert not node or keys.node(node) in state, f"{key} is still on absent {node}"


async def play(seed: int) -> None:
    cluster = Cluster(random.Random(seed))
    try:
        await cluster.begin()
        for _ in range(STEPS):
            await cluster.step()
        await cluster.settle()
        history: list[list[Event]] = []
        async with cluster.world.store.watch(keys.ROOT, 1) as batches:
            async for batch in batches:
                if batch.events:
                    history.append(list(batch.events))
                if batch.revision >= cluster.world.store.revision:
                    break
        judge(history, cluster.deleted)
    finally:
        await cluster.world.close()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_lost_pod_falls_out_whatever_fails(seed: int) -> None:
    asyncio.run(play(seed))
