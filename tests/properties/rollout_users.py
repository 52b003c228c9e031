"""The stores of a world of rollouts, and what users and members do there."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.clock import Clock
from tests.placement.delivery_scene import role, rolled_out
from tests.placement.objects import member_object, pick
from tests.placement.scene import TIME, P
from tests.properties.rollout_actors import LUCK, Agent, Hub, Run
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Get, Operation
from wharfinger.objects.documents.kinds import reference
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import PinRecord
from wharfinger.placement.contracts.placement_rollouts import PlannedRollout
from wharfinger.testing.memory_store import MemoryStore

LEAVING = {"deletionTimestamp": TIME}
OVERRIDE = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourceOverride",
    "metadata": {"name": "o"},
    "spec": {"clusterResourceSelectors": [rolled_out()["spec"]["resourceSelectors"][0]]},
}


def share(rng: random.Random) -> Any:
    return rng.choice([0, 1, 1, 2, "25%", "50%", "100%"])


@dataclass
class Users:
    """The stores, and what users and members do."""

    seed: int
    names: str = "abc"
    clock: Clock = field(default_factory=Clock)
    number: int = 0
    gating: bool = True

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.names = "abcdefgh"[: self.rng.randint(1, 8)]
        self.store = MemoryStore(clock=self.clock)
        self.members = {name: MemoryStore() for name in self.names}
        self.luck = dict.fromkeys(self.names, "good")
        self.agents: dict[str, Agent] = {}
        self.zombies: list[Agent] = []
        self._world: Any = self
        self.hubs = [Hub(self._world), Hub(self._world)]
        self.run: Run | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.parked: list[asyncio.Event] = []
        self.times: list[tuple[int, float]] = []
        """Revisions of the store, and the clock's seconds up to them."""
        self.plans: dict[str, PlannedRollout] = {}
        """By the token of the wave."""
        self.views: dict[str, dict[str, int]] = {}
        """How far the hub had seen, by the token of the wave that it planned."""
        self.missing: list[int] = []
        """Snapshots that works named and that were not there."""
        self.generation = 0

    def client(self, store: MemoryStore) -> MemoryStore:
        """A client whose transactions are held back by chance."""
        client = store.client()

        async def gate(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
            if not self.gating or all(isinstance(one, Get) for one in operations):
                return
            if self.rng.random() < 0.06:
                client.fail_next(applied=self.rng.random() < 0.5)
            if self.rng.random() < 0.3:
                event = asyncio.Event()
                self.parked.append(event)
                await event.wait()

        client.before_txn = gate
        return client

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        return task

    async def pump(self) -> None:
        """Until all that goes on has ended or is held back."""
        for _ in range(400):
            await asyncio.sleep(0)
            self.tasks = {one for one in self.tasks if not one.done()}
            if len(self.tasks) <= len(self.parked):
                return

    def let_go(self) -> None:
        """One of what is held back goes on."""
        if self.parked:
            self.parked.pop(self.rng.randrange(len(self.parked))).set()

    # --- users and members ------------------------------------------------------------------------

    async def put(self, obj: dict[str, Any]) -> None:
        about = reference(obj, "default")
        await self.store.put(keys.stored(about.kind.folder, about.namespace, about.name), json.dumps(obj).encode())

    async def placement_changes(self) -> None:
        rng = self.rng
        self.generation += 1
        if rng.random() < 0.04:
            await self.store.delete(placement_keys.placement(P))
            return
        policy = pick(rng.randint(0, len(self.names))) if rng.random() < 0.7 else {"placementType": "PickAll"}
        if rng.random() < 0.2:
            names = rng.sample(self.names, rng.randint(1, len(self.names)))
            policy = {"placementType": "PickFixed", "clusterNames": names}
        rolling = {"unavailablePeriodSeconds": rng.choice([0, 5, 60])}
        strategy = {"whenToApply": rng.choice(["Always", "IfNotDrifted"])}
        await self.put(
            rolled_out(
                policy,
                generation=self.generation,
                deleting=rng.random() < 0.05,
                history=rng.randint(1, 3),
                strategy=strategy,
                maxUnavailable=share(rng),
                maxSurge=share(rng),
                **rolling,
            )
        )

    async def contents_change(self) -> None:
        self.number += 1
        await self.put(role(mark=str(self.number)))

    async def override_changes(self) -> None:
        self.number += 1
        terms: dict[str, Any] = {}
        if self.rng.random() < 0.5:
            terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": "x"}}}]}
        value = str(self.number) if self.rng.random() < 0.8 else "${MEMBER-CLUSTER-LABEL-KEY-region}"
        patch = {"op": "add", "path": "/metadata/labels/on", "value": value}
        rule = {"clusterSelector": terms, "jsonPatchOverrides": [patch]}
        await self.put({**OVERRIDE, "spec": {**OVERRIDE["spec"], "policy": {"overrideRules": [rule]}}})

    async def pin_changes(self) -> None:
        known = [kv async for page in self.store.list(placement_keys.snapshot.below(P)) for kv in page.items]
        if known and self.rng.random() < 0.5:
            number = int(self.rng.choice(known).key.rpartition("/")[2])
            await self.store.put(placement_keys.pin(P), PinRecord(snapshot=number).to_bytes())
        else:
            await self.store.delete(placement_keys.pin(P))

    async def join(self, name: str, **metadata: Any) -> None:
        labels = {"region": self.rng.choice("xy")} if self.rng.random() < 0.8 else {}
        await self.put(member_object(name, labels, **metadata))

    async def member_changes(self) -> None:
        name, drawn = self.rng.choice(self.names), self.rng.random()
        if drawn < 0.25:
            await self.store.delete(placement_keys.member_cluster(name))
            await self.agent_goes(name)
        else:
            await self.join(name, **(LEAVING if drawn < 0.45 else {}))

    async def agent_goes(self, name: str) -> None:
        """Its lease expires. It may not know, and go on."""
        await self.store.delete(placement_keys.member(name))
        agent = self.agents.pop(name, None)
        if agent is not None:
            self.zombies.append(agent)

    async def agent_comes(self, name: str) -> None:
        kv = (await self.store.get(placement_keys.member_cluster(name))).kv
        if kv is None:
            return
        if name in self.agents:
            await self.agent_goes(name)
        agent = self.agents[name] = Agent(self._world, name, kv.create_revision)
        gating, self.gating = self.gating, False
        await agent.register()
        self.gating = gating

    async def agents_change(self) -> None:
        name = self.rng.choice(self.names)
        await (self.agent_goes(name) if self.rng.random() < 0.4 else self.agent_comes(name))

    async def luck_changes(self) -> None:
        self.luck[self.rng.choice(self.names)] = self.rng.choice(list(LUCK))

    async def pass_time(self, seconds: float = 0.0) -> None:
        self.times.append((self.store.revision, self.clock()))
        seconds = seconds or self.rng.choice([0.5, 2.0, 6.0, 31.0, 61.0])
        self.clock.advance(seconds)
        for hub in self.hubs:
            hub.view.delivery.seen_seconds += seconds
