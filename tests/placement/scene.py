"""A hub's view of a store in memory, and attempts on it, one step at a time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.clock import Clock
from tests.placement.objects import (
    agent_record,
    budget_object,
    member_object,
    pick,
    placement_object,
    status_record,
)
from wharfinger.etcd import keys
from wharfinger.objects.documents.kinds import reference
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord
from wharfinger.placement.contracts.placement_records import DecisionRecord, DrainRecord
from wharfinger.placement.contracts.placements import (
    CommitDecisionInput,
    CommittedPlacement,
    DecidedPlacement,
    DecideInput,
)
from wharfinger.placement.effects.committing import commit, draft
from wharfinger.placement.state.hub_changes import HubChange
from wharfinger.placement.state.hub_view import STREAMS, HubView
from wharfinger.testing.memory_store import MemoryStore

P = "cluster/web"
TIME = "2026-01-01T00:00:00Z"
EAST, WEST = {"region": "east"}, {"region": "west"}


@dataclass
class HubScene:
    clock: Clock = field(default_factory=Clock)
    store: MemoryStore = field(default_factory=MemoryStore)
    view: HubView = field(init=False)
    changes: list[HubChange] = field(default_factory=list)
    _tokens: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.view = HubView(self.clock)

    async def see(self) -> list[HubChange]:
        """Bring the view up to the store; what has to be judged anew."""
        found: list[HubChange] = []
        for stream, prefix in STREAMS.items():
            pages = [page async for page in self.store.list(prefix)]
            items = [kv for page in pages for kv in page.items]
            found += self.view.listed(stream, items, pages[-1].revision)
        self.changes += found
        return found

    async def put(self, obj: Mapping[str, Any]) -> int:
        """Put an object where `apply` puts it."""
        about = reference(obj, "default")
        key = keys.stored(about.kind.folder, about.namespace, about.name)
        return await self.store.put(key, json.dumps(obj).encode())

    async def member(
        self, name: str, *, online: bool = True, status: Mapping[str, Any] | None = None, **of: Any
    ) -> int:
        """Put a member; its identity. Its agent is there unless `online` is False."""
        await self.put(member_object(name, **of))
        kv = (await self.store.get(placement_keys.member_cluster(name))).kv
        assert kv is not None
        if online:
            await self.store.put(placement_keys.member(name), agent_record(kv.create_revision))
            await self.store.put(
                placement_keys.member_status(name), status_record(kv.create_revision, **(status or {}))
            )
        return kv.create_revision

    async def work(self, member: str, *, placement: str = P, result: Mapping[str, Any] | None = None) -> None:
        """Deliver to a member, as the rollout and the agent will."""
        identity = self.view.members[member].member.identity
        await self.store.put(
            placement_keys.work(placement, member), WorkRecord(counter=1, identity=identity).to_bytes()
        )
        said = {"applied": True, "available": True, **(result or {})}
        await self.store.put(placement_keys.result(placement, member), ResultRecord(counter=1, **said).to_bytes())

    async def works_on_three(self, placement: str = P) -> None:
        """The placement runs on three members, of which its budget lets one go."""
        await self.put(placement_object(**pick(3)))
        await self.put(budget_object("web", minAvailable=2))
        await self.attempt(placement)
        for name in "abc":
            await self.work(name, placement=placement)

    async def remove_work(self, member: str, placement: str = P) -> None:
        await self.store.delete(placement_keys.work(placement, member))
        await self.store.delete(placement_keys.result(placement, member))

    async def drain(self, member: str, want: Any = "drain") -> None:
        await self.store.put(placement_keys.drain(member), DrainRecord(want=want).to_bytes())

    def decide(self, placement: str = P) -> DecidedPlacement:
        request = DecideInput(placement=placement, workflow_id="w", run_id="r")
        return draft(self.view, request, clock=self.clock(), time=TIME, token=f"t{next(self._tokens)}")

    async def commit(self, decided: DecidedPlacement, placement: str = P, run: str = "r") -> CommittedPlacement:
        request = CommitDecisionInput(placement=placement, decided=decided, workflow_id="w", run_id=run)
        return await commit(self.store, request, TIME)

    async def attempt(self, placement: str = P) -> DecidedPlacement:
        """See, decide, and store what is new."""
        await self.see()
        decided = self.decide(placement)
        if decided.action != "nothing":
            committed = await self.commit(decided, placement)
            assert committed.outcome == "committed", committed.moved
            await self.see()
        return decided

    async def record(self, placement: str = P) -> DecisionRecord:
        kv = (await self.store.get(placement_keys.decision(placement))).kv
        assert kv is not None
        return DecisionRecord.from_bytes(kv.value)

    async def chosen(self, placement: str = P) -> list[str]:
        return [one.name for one in (await self.record(placement)).decision.chosen]


async def three_members() -> HubScene:
    """Members `a` and `b` in the east, `c` in the west."""
    scene = HubScene()
    for name, labels in (("a", EAST), ("b", EAST), ("c", WEST)):
        await scene.member(name, labels=labels)
    return scene
