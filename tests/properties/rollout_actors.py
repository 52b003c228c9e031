"""Hubs, runs of the rollout's workflow, and agents of members, as they act in `rollout_world`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.placement.delivery_scene import events_since
from tests.placement.objects import status_record
from tests.placement.scene import TIME, P
from wharfinger.errors import InvalidObject
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import AgentRecord, ResultRecord, SnapshotRecord, WorkRecord
from wharfinger.placement.contracts.placement_records import MemberRecord
from wharfinger.placement.contracts.placement_rollouts import PlannedRollout, WriteWorksInput
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.effects import snapshots
from wharfinger.placement.effects.rolling_out import planned
from wharfinger.placement.member.applier import Applier
from wharfinger.placement.member.applying import WorkOnMember
from wharfinger.placement.member.joining import JoinToken
from wharfinger.placement.member.member_store import EtcdMember
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_view import STREAMS, HubView
from wharfinger.process.parts import ProcessParts
from wharfinger.telemetry import Metrics

if TYPE_CHECKING:
    from tests.properties.rollout_world import World

METRICS = Metrics()
LUCK: dict[str, dict[str, bool]] = {
    "good": {},
    "failed": {"applied": False, "available": False, "failed": True},
    "pending": {"available": False},
    "untrackable": {"untrackable": True},
}


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
        self.applier = Applier(token, process, works, self.record)
        self.task: asyncio.Task[None] | None = None
        self.looked: tuple[object, ...] = ()
        """By what it looked last: to look again at the same changes nothing."""

    async def register(self) -> None:
        store = self.world.store
        await store.put(placement_keys.member(self.name), self.record.to_bytes())
        await store.put(placement_keys.member_status(self.name), status_record(self.identity))
        await EtcdMember.take_over(self.member, AgentRecord(token=self.record.boot_id))

    async def look(self) -> None:
        """Bring the work, and say what is there."""
        kv = (await self.hub.get(placement_keys.work(P, self.name))).kv
        work = WorkRecord.model_validate_json(kv.value) if kv is not None else None
        if kv is None or work is None or work.identity != self.identity:
            await self.applier._orphan(self.member, P)
            return
        looks = kv.mod_revision, self.world.luck[self.name], self.world.members[self.name].revision
        if looks == self.looked:
            return
        try:
            contents = await self._contents(work)
            doing = WorkOnMember(self.member, P, work, f"h/{self.name}/{self.identity}", TIME)
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
        kv = (await self.hub.get(placement_keys.snapshot(P, work.snapshot))).kv
        if kv is None:
            self.world.missing.append(work.snapshot)
            raise InvalidObject("snapshot is not there")
        return await snapshots.read(self.hub, P, SnapshotRecord.model_validate_json(kv.value))
