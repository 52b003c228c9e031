"""A world of rollouts in virtual time: hubs whose views lag, runs that are ended by hand, agents that pause and return.

The real planner, waves, snapshots and agents act on stores in memory. Any of their transactions may be held back for a
while, or lose its answer. What may go wrong is drawn from a seed.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.clock import Clock
from tests.engine.placements.delivery_scene import ROLES, events_since, role, rolled_out
from tests.engine.placements.scene import TIME, P
from tests.placement.objects import member_object, pick, status_record
from wharfinger.contracts.delivery_records import AgentRecord, PinRecord, ResultRecord, SnapshotRecord, WorkRecord
from wharfinger.contracts.placement_records import MemberRecord
from wharfinger.contracts.placement_rollouts import (
    ForgetContentsInput,
    PlannedRollout,
    TakeSnapshotInput,
    WriteWorksInput,
)
from wharfinger.contracts.placements import CommitDecisionInput, DecideInput, StreamRevisions, latest
from wharfinger.engine.parts import ProcessParts
from wharfinger.engine.placements import snapshots
from wharfinger.engine.placements.committing import commit
from wharfinger.engine.placements.contents_view import ContentsView
from wharfinger.engine.placements.drafting import draft
from wharfinger.engine.placements.hub_view import STREAMS, HubView
from wharfinger.engine.placements.questions import needs_attempt
from wharfinger.engine.placements.rollout_plans import planned
from wharfinger.engine.placements.works import write
from wharfinger.errors import InvalidObject, Unavailable
from wharfinger.manifests.kinds import reference
from wharfinger.member_loops.applier import Applier
from wharfinger.member_loops.applying import WorkOnMember
from wharfinger.member_loops.joining import JoinToken
from wharfinger.member_loops.member_store import AgentFenced, EtcdMember
from wharfinger.registry import keys
from wharfinger.registry.store import Condition, Get, Operation
from wharfinger.telemetry import Metrics
from wharfinger.testing.memory_store import MemoryStore

METRICS = Metrics()
LEAVING = {"deletionTimestamp": TIME}
LUCK: dict[str, dict[str, bool]] = {
    "good": {},
    "failed": {"applied": False, "available": False, "failed": True},
    "pending": {"available": False},
    "untrackable": {"untrackable": True},
}
OVERRIDE = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourceOverride",
    "metadata": {"name": "o"},
    "spec": {"clusterResourceSelectors": [rolled_out()["spec"]["resourceSelectors"][0]]},
}


def share(rng: random.Random) -> Any:
    return rng.choice([0, 1, 1, 2, "25%", "50%", "100%"])


@dataclass
class Hub:
    """What one hub has seen."""

    world: World

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """It is started, and has seen nothing."""
        self.view, self.contents = HubView(self.world.clock), ContentsView(self.world.clock)

    async def see(self, streams: Sequence[str] = tuple(STREAMS)) -> None:
        """See what came in these streams."""
        store = self.world.store
        for stream in streams:
            prefix = STREAMS[stream]
            if stream not in self.view.synced:
                found = [kv async for page in store.list(prefix) for kv in page.items]
                changes = self.view.listed(stream, found, store.revision)
            else:
                events = events_since(store, prefix, self.view.revisions[stream])
                changes = [change for event in events for change in self.view.changed(stream, event)]
                self.view.reached(stream, store.revision)
            for change in changes:
                if change.own:
                    seen = self.view.placements.get(change.placement)
                    self.contents.read(change.placement, seen.delivery.selectors if seen is not None else ())
        for folder in self.contents.wanted:
            self.contents.listed(folder, [kv async for page in store.list(folder) for kv in page.items])

    def plan(self) -> PlannedRollout:
        return planned(self.view, self.contents, P, self.world.clock())


@dataclass
class Run:
    """An open run of the rollout's workflow."""

    name: str
    seen: StreamRevisions = field(default_factory=StreamRevisions)
    waves: int = 0
    task: asyncio.Task[StreamRevisions | None] | None = None
    request: WriteWorksInput | None = None


class Agent:
    """One life of a member's agent."""

    def __init__(self, world: World, name: str, identity: int) -> None:
        world.number += 1
        self.world, self.name, self.identity = world, name, identity
        self.record = MemberRecord(identity=identity, boot_id=f"b{world.number}")
        self.hub = world.client(world.store)
        self.member = EtcdMember(world.client(world.members[name]), now=lambda: TIME)
        process = ProcessParts(self.hub, METRICS, clock=world.clock, rng=world.rng)
        token = JoinToken(hub="h", name=name)
        works: Any = SimpleNamespace(in_sync=True)
        self.applier = Applier(token, process, works, self.record, runs_workloads=lambda: False)
        self.task: asyncio.Task[None] | None = None
        self.looked: tuple[object, ...] = ()
        """By what it looked last: to look again at the same changes nothing."""

    async def register(self) -> None:
        store = self.world.store
        await store.put(keys.member(self.name), self.record.to_bytes())
        await store.put(keys.member_status(self.name), status_record(self.identity))
        await EtcdMember.take_over(self.member, AgentRecord(token=self.record.boot_id))

    async def look(self) -> None:
        """Bring the work, and say what is there."""
        kv = (await self.hub.get(keys.work(P, self.name))).kv
        work = WorkRecord.model_validate_json(kv.value) if kv is not None else None
        if kv is None or work is None or work.identity != self.identity:
            await self.applier._orphan(self.member, P)
            return
        looks = kv.mod_revision, self.world.luck[self.name], self.world.members[self.name].revision
        if looks == self.looked:
            return
        try:
            contents = await self._contents(work)
            doing = WorkOnMember(self.member, P, work, f"h/{self.name}/{self.identity}", False, TIME)
            result = await doing.bring(contents)
        except InvalidObject as error:
            told = {"counter": work.counter, "since": work.since, "identity": work.identity}
            result = ResultRecord(**told, failed=True, reason=str(error), time=TIME)
        if result.available:
            result = result.model_copy(update=LUCK[self.world.luck[self.name]])
        await self.applier._say(P, kv.mod_revision, result)
        self.looked = *looks[:2], self.world.members[self.name].revision

    async def _contents(self, work: WorkRecord) -> list[dict[str, Any]]:
        if work.want != "present":
            return []
        kv = (await self.hub.get(keys.snapshot(P, work.snapshot))).kv
        if kv is None:
            self.world.missing.append(work.snapshot)
            raise InvalidObject("snapshot is not there")
        return await snapshots.read(self.hub, P, SnapshotRecord.model_validate_json(kv.value))


@dataclass
class World:
    """Everything, and what happens to it."""

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
        self.hubs = [Hub(self), Hub(self)]
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
            await self.store.delete(keys.placement(P))
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
        known = [kv async for page in self.store.list(keys.snapshots_of(P)) for kv in page.items]
        if known and self.rng.random() < 0.5:
            number = int(self.rng.choice(known).key.rpartition("/")[2])
            await self.store.put(keys.pin(P), PinRecord(snapshot=number).to_bytes())
        else:
            await self.store.delete(keys.pin(P))

    async def join(self, name: str, **metadata: Any) -> None:
        labels = {"region": self.rng.choice("xy")} if self.rng.random() < 0.8 else {}
        await self.put(member_object(name, labels, **metadata))

    async def member_changes(self) -> None:
        name, drawn = self.rng.choice(self.names), self.rng.random()
        if drawn < 0.25:
            await self.store.delete(keys.member_cluster(name))
            await self.agent_goes(name)
        else:
            await self.join(name, **(LEAVING if drawn < 0.45 else {}))

    async def agent_goes(self, name: str) -> None:
        """Its lease expires. It may not know, and go on."""
        await self.store.delete(keys.member(name))
        agent = self.agents.pop(name, None)
        if agent is not None:
            self.zombies.append(agent)

    async def agent_comes(self, name: str) -> None:
        kv = (await self.store.get(keys.member_cluster(name))).kv
        if kv is None:
            return
        if name in self.agents:
            await self.agent_goes(name)
        agent = self.agents[name] = Agent(self, name, kv.create_revision)
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

    # --- hubs, runs, agents -----------------------------------------------------------------------

    async def hubs_see(self, *, all_of_it: bool = False) -> None:
        for hub in self.hubs:
            if all_of_it:
                await hub.see()
            elif self.rng.random() < 0.6:
                await hub.see([stream for stream in STREAMS if self.rng.random() < 0.7])

    async def hub_begins_again(self) -> None:
        self.rng.choice(self.hubs).begin()

    async def attempt(self) -> None:
        """A hub decides anew, if that says something else."""
        hub = self.rng.choice(self.hubs)
        if not hub.view.in_sync or not needs_attempt(hub.view, P, self.clock()):
            return
        self.number += 1
        request = DecideInput(placement=P, workflow_id="w", run_id=f"d{self.number}")
        decided = draft(hub.view, request, clock=self.clock(), time=TIME, token=f"t{self.number}")
        if decided.action != "nothing":
            committing = CommitDecisionInput(placement=P, decided=decided, workflow_id="w", run_id="d")
            await commit(self.store, committing, TIME)

    async def end_run_by_hand(self) -> None:
        """What it had under way goes on all the same."""
        if self.run is not None and self.run.task is not None and not self.run.task.done():
            self.run = None

    async def run_goes_on(self) -> None:
        """The open run takes its next step; without one, a hub starts one."""
        hub = self.rng.choice(self.hubs)
        if self.run is None:
            self.number += 1
            self.run = Run(f"r{self.number}")
        run = self.run
        if run.task is not None and not run.task.done():
            if run.request is not None and self.gating and self.rng.random() < 0.2:
                run.task = self.spawn(self._written(hub, run.request))  # it took too long: another try
            return
        if run.task is not None:
            run.seen, run.task, run.request = latest(run.seen, run.task.result() or run.seen), None, None
        if not hub.view.in_sync or not hub.view.has_seen(run.seen):
            return
        plan = hub.plan()
        run.seen = latest(run.seen, plan.seen)
        if plan.snapshot_in == 0.0:
            run.task = self.spawn(self._taken(hub, plan, run))
        elif plan.forgets:
            run.task = self.spawn(self._forgotten(plan))
        elif plan.steps:
            run.task = self._wave(hub, plan, run)
        elif plan.timer is None and plan.snapshot_in is None:
            self.run = None

    def _wave(self, hub: Hub, plan: PlannedRollout, run: Run) -> asyncio.Task[Any]:
        run.waves += 1
        token = f"{run.name}/{run.waves}"
        self.plans[token], self.views[token] = plan, dict(hub.view.revisions)
        run.request = WriteWorksInput(
            placement=P,
            steps=plan.steps,
            snapshot=plan.snapshot,
            decision=plan.decision,
            rollout=plan.rollout,
            losses=plan.losses,
            seen=plan.seen,
            workflow_id="w",
            run_id=run.name,
            wave=token,
        )
        return self.spawn(self._written(self.rng.choice([hub, *self._ahead(plan)]), run.request))

    def _ahead(self, plan: PlannedRollout) -> Iterator[Hub]:
        return (hub for hub in self.hubs if hub.view.in_sync and hub.view.has_seen(plan.seen))

    async def _written(self, hub: Hub, request: WriteWorksInput) -> StreamRevisions | None:
        for _ in range(4):
            with suppress(Unavailable):
                return (await write(self.client(self.store), hub.view, request, TIME)).seen
        return None

    async def _taken(self, hub: Hub, plan: PlannedRollout, run: Run) -> StreamRevisions | None:
        request = TakeSnapshotInput(
            placement=P,
            selected=plan.selected,
            decision=plan.decision,
            rollout=plan.rollout,
            workflow_id="w",
            run_id=run.name,
        )
        for _ in range(4):
            with suppress(Unavailable):
                return (await snapshots.take(self.client(self.store), hub.view, request, TIME)).seen
        return None

    async def _forgotten(self, plan: PlannedRollout) -> StreamRevisions | None:
        with suppress(Unavailable):
            request = ForgetContentsInput(placement=P, decision=plan.decision)
            return (await snapshots.forget(self.client(self.store), request)).seen
        return None

    async def agents_look(self, share_: float = 0.5) -> None:
        for agent in [*self.agents.values(), *self.zombies]:
            if (agent.task is None or agent.task.done()) and self.rng.random() < share_:
                agent.task = self.spawn(self._looked(agent))

    async def _looked(self, agent: Agent) -> None:
        with suppress(Unavailable, AgentFenced):
            await agent.look()

    # --- the whole life ---------------------------------------------------------------------------

    async def live(self, steps: int) -> None:
        await self.put(role())
        for name in self.names:
            await self.join(name)
            await self.agent_comes(name)
        await self.placement_changes()
        happen = [
            *[self.placement_changes] * 2,
            *[self.contents_change] * 2,
            self.override_changes,
            self.pin_changes,
            *[self.member_changes] * 2,
            *[self.agents_change] * 2,
            *[self.luck_changes] * 3,
            *[self.pass_time] * 5,
            self.hub_begins_again,
            *[self.end_run_by_hand] * 4,
        ]
        for _ in range(steps):
            await self.rng.choice(happen)()
            for _ in range(self.rng.randint(0, 3)):
                await self.hubs_see()
                await self.attempt()
                await self.run_goes_on()
                await self.agents_look()
                await self.pump()
                if self.rng.random() < 0.6:
                    self.let_go()
                    await self.pump()

    async def restore(self) -> None:
        """The hub's etcd is an older one. All processes that saw more end, and others begin."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.parked.clear()
        self.run = None
        self.agents.clear()
        self.zombies.clear()
        self.store.restore(self.rng.randint(self.store.revision // 3, self.store.revision))
        self.store = self.store.client()
        for hub in self.hubs:
            hub.begin()

    async def come_to_rest(self) -> None:
        """Nothing goes wrong any more: until several sweeps write nothing."""
        self.gating = False
        for event in self.parked:
            event.set()
        self.parked.clear()
        kv = (await self.store.get(keys.placement(P))).kv
        if kv is not None and self.seed % 4:  # else its budget may hold members for ever
            obj = json.loads(kv.value)
            obj["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = "100%"
            await self.put(obj)
        for name in self.names:
            self.luck[name] = "good"
            kv = (await self.store.get(keys.member_cluster(name))).kv
            if kv is not None:
                await self.agent_comes(name)
        quiet, before = 0, -1
        for _ in range(90):
            await self.pump()
            await self.hubs_see(all_of_it=True)
            for _ in range(3):
                await self.attempt()
                await self.hubs_see(all_of_it=True)
                await self.run_goes_on()
                await self.pump()
                await self.hubs_see(all_of_it=True)
                await self.agents_look(1.0)
                await self.pump()
            now = self.store.revision + sum(one.revision for one in self.members.values())
            quiet, before = (quiet + 1 if now == before and not self.tasks else 0), now
            if quiet == 5:
                return
            await self.pass_time(16.0)
        raise AssertionError(f"life {self.seed} does not come to rest: {self.hubs[0].plan()}")


__all__ = ["ROLES", "Hub", "World"]
