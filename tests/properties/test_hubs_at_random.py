"""Random lives of hubs: they pause, crash and come back while members, placements and deliveries change.

Attempts run as Temporal runs them: one at a time for a placement, by whichever hub takes the next step, with answers
that get lost. Every decision that was ever stored is judged (`tests.placement.history`), and in the end all comes to
rest: no start, no open run, no write. `WHARFINGER_TEST_LIVES` asks for more lives than the usual ones.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.clock import Clock
from tests.placement.history import history
from tests.placement.objects import (
    agent_record,
    eviction_object,
    in_region,
    member_object,
    pick,
    placement_object,
    status_record,
)
from tests.properties.shares import shared_out
from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.objects.documents.kinds import reference
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord
from wharfinger.placement.contracts.placement_records import DrainRecord
from wharfinger.placement.contracts.placements import (
    CommitDecisionInput,
    DecidedPlacement,
    DecideInput,
    StreamRevisions,
    latest,
)
from wharfinger.placement.effects.committing import commit, draft
from wharfinger.placement.hub.placement_controller import PlacementController
from wharfinger.placement.state.hub_view import STREAMS, HubView
from wharfinger.process.parts import ProcessParts
from wharfinger.telemetry import Metrics
from wharfinger.testing.memory_store import MemoryStore

LIVES = int(os.environ.get("WHARFINGER_TEST_LIVES", "400"))
PARTS = 8
STEPS = 25
MEMBERS, PLACEMENTS, HUBS = "abcdef", ("p", "q", "r"), ("h1", "h2")
ALL = {"placementType": "PickAll"}
METRICS = Metrics()


@dataclass
class RandomHub:
    """One hub: what it has seen, and what it started."""

    name: str
    life: Life
    paused: bool = False

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """It is started, and knows nothing."""
        self.view = HubView(self.life.clock)
        process = ProcessParts(self.life.store, METRICS, clock=self.life.clock)
        self.controller = PlacementController(process, self.view, self.start, me=self.name)

    async def start(self, reference: str, seen: StreamRevisions, cause: str) -> None:
        """As Temporal does: join the open run, or begin one."""
        self.life.runs.setdefault(reference, Run(reference, seen))

    async def see(self) -> None:
        """See everything, and judge."""
        for stream, prefix in STREAMS.items():
            pages = [page async for page in self.life.store.list(prefix)]
            found = [kv for page in pages for kv in page.items]
            self.controller.note(self.view.listed(stream, found, pages[-1].revision))
        await self.controller.reconcile_due()
        for _ in range(2):
            await asyncio.sleep(0)


@dataclass
class Run:
    """An open run of a placement's chain."""

    reference: str
    seen: StreamRevisions
    decided: DecidedPlacement | None = None


@dataclass
class Life:
    """A cluster whose luck is drawn from a seed."""

    seed: int
    clock: Clock = field(default_factory=Clock)
    store: MemoryStore = field(default_factory=MemoryStore)
    runs: dict[str, Run] = field(default_factory=dict)
    generation: int = 0
    counter: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.view = HubView(self.clock)
        """What deliveries go by."""
        self.hubs = [RandomHub(name, self) for name in HUBS]

    # --- what happens -----------------------------------------------------------------------------

    async def put(self, obj: dict[str, Any]) -> None:
        about = reference(obj, "default")
        await self.store.put(keys.stored(about.kind.folder, about.namespace, about.name), json.dumps(obj).encode())

    async def member_changes(self) -> None:
        name = self.chance.choice(MEMBERS)
        key = placement_keys.member_cluster(name)
        drawn = self.chance.random()
        if drawn < 0.15:
            await self.store.delete(key)
            await self.store.delete(placement_keys.member(name))
            return
        leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if drawn < 0.25 else {}
        taints = [{"key": "t", "effect": "NoSchedule"}] if self.chance.random() < 0.2 else []
        await self.put(member_object(name, {"region": self.chance.choice("xyz")}, taints, **leaving))
        await self.agent(name, there=self.chance.random() < 0.8)

    async def agent(self, name: str, *, there: bool) -> None:
        kv = (await self.store.get(placement_keys.member_cluster(name))).kv
        if kv is None or not there:
            await self.store.delete(placement_keys.member(name))
            return
        await self.store.put(placement_keys.member(name), agent_record(kv.create_revision))
        await self.store.put(placement_keys.member_status(name), status_record(kv.create_revision))

    async def agent_changes(self) -> None:
        await self.agent(self.chance.choice(MEMBERS), there=self.chance.random() < 0.5)

    async def placement_changes(self) -> None:
        name = self.chance.choice(PLACEMENTS)
        self.generation += 1
        drawn = self.chance.random()
        if drawn < 0.08:
            await self.store.delete(placement_keys.placement(f"cluster/{name}"))
            return
        affinity = in_region(*self.chance.sample("xyz", 2)) if self.chance.random() < 0.5 else {}
        spread = {"topologySpreadConstraints": [{"topologyKey": "region", "maxSkew": 1}]}
        policy: dict[str, Any] = {
            "p": pick(self.chance.randrange(5), **affinity, **(spread if self.chance.random() < 0.4 else {})),
            "q": {**ALL, **affinity},
            "r": {"placementType": "PickFixed", "clusterNames": self.chance.sample(MEMBERS, 2)},
        }[name]
        await self.put(placement_object(name, generation=self.generation, deleting=drawn < 0.16, **policy))

    async def drains_change(self) -> None:
        name = self.chance.choice(MEMBERS)
        if self.chance.random() < 0.5:
            await self.store.delete(placement_keys.drain(name))
        else:
            await self.store.put(
                placement_keys.drain(name), DrainRecord(want=self.chance.choice(["cordon", "drain"])).to_bytes()
            )

    async def evict(self) -> None:
        self.counter += 1
        await self.put(eviction_object(f"e{self.counter}", self.chance.choice("pq"), self.chance.choice(MEMBERS)))

    async def hub_changes(self) -> None:
        hub = self.chance.choice(self.hubs)
        if self.chance.random() < 0.3:
            hub.begin()
        else:
            hub.paused = not hub.paused

    async def deliver(self) -> None:
        """Works follow the decisions, some of them."""
        view = self.view
        for stream, prefix in STREAMS.items():
            view.listed(stream, [kv async for page in self.store.list(prefix) for kv in page.items])
        for found, decision in sorted(view.decisions.items(), key=lambda one: one[0]):
            wanted = {one.name: one.identity for one in decision.chosen}
            for name in sorted(view.works.get(found, {}).keys() - wanted.keys()):
                if self.chance.random() < 0.7:
                    await self.store.delete(placement_keys.work(found, name))
                    await self.store.delete(placement_keys.result(found, name))
            for name, identity in wanted.items():
                if name not in view.works.get(found, {}) and self.chance.random() < 0.7:
                    await self.store.put(
                        placement_keys.work(found, name), WorkRecord(counter=1, identity=identity).to_bytes()
                    )
                    said = ResultRecord(counter=1, available=self.chance.random() < 0.8)
                    await self.store.put(placement_keys.result(found, name), said.to_bytes())

    async def pass_time(self) -> None:
        self.clock.advance(self.chance.choice([0.5, 2.0, 40.0, 310.0]))

    # --- hubs and runs ----------------------------------------------------------------------------

    async def hubs_go_on(self) -> None:
        for hub in self.hubs:
            if not hub.paused:
                await hub.see()

    async def runs_go_on(self, share: float) -> None:
        """Each open run takes its next step, or not yet."""
        awake = [hub for hub in self.hubs if not hub.paused]
        for run in list(self.runs.values()):
            if not awake or self.chance.random() > share:
                continue
            hub = self.chance.choice(awake)
            if run.decided is None:
                self.decide(run, hub)
            else:
                await self.commit(run, lossy=share < 1)

    def decide(self, run: Run, hub: RandomHub) -> None:
        if not hub.view.in_sync or not hub.view.has_seen(run.seen):
            return  # Behind: the next attempt tries again
        self.counter += 1
        request = DecideInput(placement=run.reference, workflow_id="w", run_id=f"r{self.counter}")
        run.decided = draft(hub.view, request, clock=self.clock(), time="t", token=f"t{self.counter}")
        if run.decided.action == "nothing":
            del self.runs[run.reference]

    async def commit(self, run: Run, *, lossy: bool) -> None:
        assert run.decided is not None
        if lossy and self.chance.random() < 0.2:
            self.store.fail_next(applied=self.chance.random() < 0.5)
        request = CommitDecisionInput(placement=run.reference, decided=run.decided, workflow_id="w", run_id="r")
        try:
            committed = await commit(self.store, request, "t")
        except Unavailable:
            return  # Temporal tries the activity again
        if committed.outcome == "contended":
            run.seen, run.decided = latest(run.seen, committed.seen), None
        else:
            del self.runs[run.reference]

    # --- the whole life ---------------------------------------------------------------------------

    async def live(self) -> None:
        for name in MEMBERS[:4]:
            await self.put(member_object(name, {"region": self.chance.choice("xyz")}))
            await self.agent(name, there=True)
        await self.store.put(placement_keys.hub(HUBS[0]), b"{}")
        await self.store.put(placement_keys.hub(HUBS[1]), b"{}")
        happen = [
            *[self.member_changes] * 3,
            *[self.placement_changes] * 4,
            self.agent_changes,
            self.drains_change,
            self.evict,
            self.hub_changes,
            *[self.deliver] * 3,
            *[self.pass_time] * 3,
        ]
        for _ in range(STEPS):
            await self.chance.choice(happen)()
            if self.chance.random() < 0.7:
                await self.hubs_go_on()
            await self.runs_go_on(0.6)

    async def come_to_rest(self) -> None:
        for hub in self.hubs:
            hub.paused = False
        quiet = 0
        for _ in range(60):
            before = (await self.store.get("x")).revision
            for hub in self.hubs:
                hub.controller.sweep(hub.view.references)
            await self.hubs_go_on()
            await self.runs_go_on(1.0)
            await self.runs_go_on(1.0)
            await self.deliver()
            quiet = quiet + 1 if not self.runs and (await self.store.get("x")).revision == before else 0
            if quiet == 4:
                return
            self.clock.advance(31.0)
        raise AssertionError(f"life {self.seed} does not come to rest: {self.runs}")

    async def judged(self) -> None:
        until = await self.store.put(f"{placement_keys.HUB}zz", b"")
        await self.store.put(f"{placement_keys.member_cluster.prefix}zz", b"{}")
        found = await history(self.store, until)
        assert found.broken == [], self.seed
        for hub in self.hubs:
            for name, seen in hub.view.placements.items():
                decision = hub.view.decisions[name]
                assert decision.identity == seen.placement.identity, self.seed
                assert not seen.placement.deleting or decision.chosen == (), self.seed


@pytest.mark.parametrize("part", shared_out(PARTS, quick=1))
async def test_no_rule_is_broken_and_every_hub_comes_to_rest(part: int) -> None:
    for seed in range(part, LIVES, PARTS):
        life = Life(seed)
        await life.live()
        await life.come_to_rest()
        await life.judged()
