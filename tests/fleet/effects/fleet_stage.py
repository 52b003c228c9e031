"""A fleet's keys on a store, written as their owners write them, for tests of the control activities."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.patience import patient
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.fleet.contracts.fleet_records import R, read_value, stored
from wharfinger.fleet.contracts.fleets import DrainInput, GrantInput, RecordInput
from wharfinger.fleet.effects.fencing import Asker
from wharfinger.fleet.effects.recording import Recording
from wharfinger.fleet.model.fleet import Actor, Decisions, Exit, Grant, Slot
from wharfinger.fleet.model.rollout import Counted, Writes
from wharfinger.framework.plugins import builtin
from wharfinger.process.records import InstanceRecord
from wharfinger.process.transactions import STOCK, Limits
from wharfinger.telemetry import Metrics

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
EPOCH = 4
CATALOG = builtin.catalog()


def fleet_object(name: str, *, deleting: bool = False, annotations: dict[str, str] | None = None, **spec: Any) -> bytes:
    metadata: dict[str, Any] = {"name": name, "annotations": annotations or {}}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    written = {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": metadata}
    return json.dumps(written | {"spec": {"replicas": 2, "template": {}} | spec}).encode()


def asker(activity_id: str = "1", *, run: str = "run-1", workflow: str = "test/fleet/blue") -> Asker:
    return Asker(workflow, run, activity_id)


@dataclass
class FleetStage:
    """One fleet, of a tenant that no other test has."""

    store: Store
    tenant: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:10]}")
    identity: int = 0
    generation: int = 0
    metrics: Metrics = field(default_factory=Metrics)

    async def set_up(self, **spec: Any) -> None:
        """An object, and an actor."""
        self.identity = self.generation = await self.store.put(
            keys.fleet(self.tenant), fleet_object(self.tenant, **spec)
        )
        await self.act(EPOCH)

    async def act(self, epoch: int, target: int = 1, *, run: str = "run-1", decisions: int = 0) -> int:
        made = Decisions(number=decisions, target=target) if decisions else None
        record = Actor(epoch=epoch, workflow_id="test/fleet/blue", run_id=run, target=target, decisions=made)
        return await self.store.put(keys.actor(self.tenant), stored(record))

    async def slot(self, number: int, **fields: Any) -> int:
        record = Slot(**{"incarnation": 1, "revision": 1} | fields)
        return await self.store.put(keys.slot(self.tenant, number), stored(record))

    async def grant(self, slot: int, incarnation: int = 1, **fields: Any) -> int:
        record = Grant(**{"revision": 1, "host": "a", "identity": self.identity} | fields)
        return await self.store.put(keys.grant(self.tenant, slot, incarnation), stored(record))

    async def instance(self, slot: int, incarnation: int = 1, **fields: Any) -> int:
        record = InstanceRecord(**{"state": "ready", "host": "a", "pid": 1, "revision": "1"} | fields)
        return await self.store.put(keys.instance(self.tenant, str(slot), incarnation), stored(record))

    async def exit(self, slot: int, incarnation: int = 1, **fields: Any) -> int:
        record = Exit(**{"how": "drained"} | fields)
        return await self.store.put(keys.exited(self.tenant, slot, incarnation), stored(record))

    async def read(self, key: str) -> KeyValue | None:
        return (await self.store.get(key)).kv

    async def record(self, key: str, kind: type[R]) -> R:
        kv = await self.read(key)
        assert kv is not None, key
        return read_value(kind, kv.value)

    async def names(self) -> list[str]:
        """All keys of the fleet, without the root."""
        found = [kv.key async for page in self.store.list(keys.OURS) for kv in page.items]
        return sorted(
            key.removeprefix(keys.OURS) for key in found if self.tenant in key.removeprefix(keys.OURS).split("/")
        )

    def grant_input(self, slot: int = 0, **fields: Any) -> GrantInput:
        return GrantInput(
            **{
                "tenant": self.tenant,
                "epoch": EPOCH,
                "slot": slot,
                "revision": 1,
                "host": "a",
                "identity": self.identity,
            }
            | fields
        )

    def drain_input(self, slot: int, grant: int, counted: Sequence[Counted] = (), **fields: Any) -> DrainInput:
        return DrainInput(
            **{
                "tenant": self.tenant,
                "slot": slot,
                "incarnation": 1,
                "epoch": EPOCH,
                "grant_mod_revision": grant,
                "counted": tuple(counted),
                "timeout": 5.0,
            }
            | fields
        )

    def record_input(self, writes: Writes | None = None, **fields: Any) -> RecordInput:
        return RecordInput(
            **{
                "tenant": self.tenant,
                "role": "fleet",
                "epoch": EPOCH,
                "desired": self.generation,
                "writes": writes or Writes(),
            }
            | fields
        )

    def recording(self, limits: Limits = STOCK, store: Store | None = None) -> Recording:
        return Recording(store or self.store, CATALOG, limits=limits, metrics=self.metrics, utc_now=lambda: NOW)


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something holds."""
    async with asyncio.timeout(patient(20)):
        while not condition():
            await asyncio.sleep(0)
