"""A hub, a member and the applier of its agent, on stores in memory and a clock that tests move."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.clock import Clock
from tests.fleet.agent.hosts import running, until
from tests.placement.member.member_scene import Object, P
from wharfinger.etcd import keys
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, SnapshotRecord, WorkRecord
from wharfinger.placement.contracts.placement_records import MemberRecord
from wharfinger.placement.effects.snapshots import _part, zlib
from wharfinger.placement.member.applier import Applier
from wharfinger.placement.member.joining import JoinToken
from wharfinger.placement.member.works import Works
from wharfinger.placement.spec.placement_fields import ApplyStrategyFields
from wharfinger.process.parts import ProcessParts
from wharfinger.testing.memory_store import MemoryStore

EAST = "east"


@dataclass
class Agents:
    """A hub, a member and its agent."""

    hub: MemoryStore = field(default_factory=MemoryStore)
    member: MemoryStore = field(default_factory=MemoryStore)
    clock: Clock = field(default_factory=Clock)
    record: MemberRecord = field(default_factory=lambda: MemberRecord(identity=7, boot_id="a"))

    def __post_init__(self) -> None:
        store = self.hub.client()
        process = ProcessParts(store, clock=self.clock, rng=random.Random(1))
        self.works = Works(store, rng=random.Random(1))
        self.applier = Applier(JoinToken(hub="h", name=EAST), process, self.works, self.record)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[MemoryStore]:
        """Its client of the member's store."""
        await self.hub.put(placement_keys.member(EAST), self.record.to_bytes())
        client = self.member.client()
        async with running(self.works.run()):
            await until(lambda: self.works.in_sync)
            async with running(self.applier.run(client)):
                yield client

    async def snapshot(self, number: int, *objects: Object, placement: str = P) -> None:
        digest, raw = _part([json.dumps(one).encode() for one in objects])
        await self.hub.put(placement_keys.contents(placement, digest), zlib.compress(raw))
        head = SnapshotRecord(digest=digest, parts=(digest,))
        await self.hub.put(placement_keys.snapshot(placement, number), head.to_bytes())

    async def work(self, counter: int, *, placement: str = P, **said: Any) -> WorkRecord:
        usual = {
            "since": counter,
            "identity": 7,
            "snapshot": 1,
            "strategy": ApplyStrategyFields.model_validate({}).complete,
        }
        work = WorkRecord(**{"counter": counter, **usual, **said})
        await self.hub.put(placement_keys.work(placement, EAST), work.to_bytes())
        return work

    async def result(self, placement: str = P) -> ResultRecord | None:
        kv = (await self.hub.get(placement_keys.result(placement, EAST))).kv
        return ResultRecord.model_validate_json(kv.value) if kv is not None else None

    async def answered(self, counter: int, placement: str = P) -> ResultRecord:
        """The result of a counter, once it is there."""

        async def there() -> bool:
            found = await self.result(placement)
            return found is not None and found.counter == counter

        await until(there)
        found = await self.result(placement)
        assert found is not None
        return found

    async def losses(self, placement: str = P) -> int:
        kv = (await self.hub.get(placement_keys.losses(placement))).kv
        return kv.mod_revision if kv is not None else 0

    async def there(self) -> set[str]:
        found = [kv.key async for page in self.member.list(keys.ROOT) for kv in page.items]
        return {key for key in found if not key.startswith(keys.ASIDE)}
