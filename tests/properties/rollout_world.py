"""A world of rollouts in virtual time: hubs whose views lag, runs that are ended by hand, agents that pause and return.

The real planner, waves, snapshots and agents act on stores in memory. Any of their transactions may be held back for a
while, or lose its answer. What may go wrong is drawn from a seed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.placement.delivery_scene import role
from tests.placement.scene import TIME, P
from tests.properties.rollout_actors import Agent, Hub, Run
from tests.properties.rollout_users import Users
from wharfinger.errors import Unavailable
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_rollouts import (
    ForgetContentsInput,
    PlannedRollout,
    TakeSnapshotInput,
    WriteWorksInput,
)
from wharfinger.placement.contracts.placements import CommitDecisionInput, DecideInput, StreamRevisions, latest
from wharfinger.placement.effects import snapshots
from wharfinger.placement.effects.committing import commit, draft
from wharfinger.placement.effects.questions import needs_attempt
from wharfinger.placement.effects.works import write
from wharfinger.placement.member.member_store import AgentFenced
from wharfinger.placement.state.hub_view import STREAMS


@dataclass
class World(Users):
    """Everything, and what happens to it."""

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
        if plan.snapshot_is_due:
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
        kv = (await self.store.get(placement_keys.placement(P))).kv
        if kv is not None and self.seed % 4:  # else its budget may hold members for ever
            obj = json.loads(kv.value)
            obj["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = "100%"
            await self.put(obj)
        for name in self.names:
            self.luck[name] = "good"
            kv = (await self.store.get(placement_keys.member_cluster(name))).kv
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
