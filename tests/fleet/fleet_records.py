"""What actors, agents and workers would have put into etcd of a fleet, for tests of those who read it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import KeyValue
from wharfinger.fleet.contracts.fleet_records import (
    FleetStatusRecord,
    HostRecord,
    OutcomeRecord,
    RevisionRecord,
    stored,
)
from wharfinger.fleet.model.fleet import Actor, Cordon, Exit, Grant, Slot
from wharfinger.fleet.model.rollout import RolloutStatus
from wharfinger.process.records import InstanceRecord, Record
from wharfinger.settings import EtcdSettings

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
OBJECT_REVISION = 50


def ago(seconds: float) -> str:
    """RFC 3339, so many seconds before `NOW`."""
    return (NOW - timedelta(seconds=seconds)).isoformat()


def status(**fields: Any) -> RolloutStatus:
    """A status of three slots, all updated, with some fields of one's own."""
    plain: dict[str, Any] = {
        "observed_generation": OBJECT_REVISION,
        "target": 2,
        "completed": 1,
        "replicas": 3,
        "ready": 3,
        "updated": 3,
    }
    return RolloutStatus(**{**plain, **fields})


@dataclass
class Records:
    """Keys and values of one fleet; each method adds one."""

    tenant: str = "gold"
    values: dict[str, bytes] = field(default_factory=dict)

    def fleet(self, replicas: int = 3, template: Mapping[str, Any] | None = None, **metadata: Any) -> Records:
        """The object."""
        obj = {
            "apiVersion": "wharfinger.dev/v1",
            "kind": "SchedulerFleet",
            "metadata": {"name": self.tenant, "creationTimestamp": ago(3600), **metadata},
            "spec": {"replicas": replicas, "template": dict(template or {})},
        }
        return self.put(keys.fleet(self.tenant), json.dumps(obj).encode())

    def status(self, found: RolloutStatus, *, written: float = 0.0, **times: str) -> Records:
        """The status, written so many seconds ago."""
        record = FleetStatusRecord(status=found, time=ago(written), condition_times=times)
        return self.record(keys.fleet_status(self.tenant), record)

    def actor(self, target: int = 2) -> Records:
        """Who acts."""
        return self.record(keys.actor(self.tenant), Actor(epoch=1, workflow_id="w/fleet", run_id="r", target=target))

    def revision(self, number: int, outcome: str = "", template: Mapping[str, Any] | None = None) -> Records:
        """A revision, and its outcome where it has one."""
        record = RevisionRecord(
            template=dict(template or {}), who=f"who-{number}", why=f"why-{number}", time=ago(600 * (10 - number))
        )
        self.record(keys.revision(self.tenant, number), record)
        if outcome:
            ended = OutcomeRecord.model_validate({"outcome": outcome, "why": f"since-{number}", "time": ago(60)})
            self.record(keys.outcome(self.tenant, number), ended)
        return self

    def slot(self, number: int, incarnation: int = 1, revision: int = 2, crashes: int = 0) -> Records:
        """A slot's counters."""
        record = Slot(incarnation=incarnation, revision=revision, crashes=crashes)
        return self.record(keys.slot(self.tenant, number), record)

    def grant(self, slot: int, incarnation: int = 1, revision: int = 2, **fields: Any) -> Records:
        """Permission to live, on host-a."""
        record = Grant(**{"revision": revision, "host": "host-a", **fields})
        return self.record(keys.grant(self.tenant, slot, incarnation), record)

    def instance(self, slot: int, incarnation: int = 1, state: str = "ready", **fields: Any) -> Records:
        """A worker's registration."""
        found = {"state": state, "host": "host-a", "pid": 7, "revision": "2", **fields}
        return self.record(keys.instance(self.tenant, str(slot), incarnation), InstanceRecord.model_validate(found))

    def ended(self, slot: int, incarnation: int = 1, **fields: Any) -> Records:
        """How one ended."""
        return self.record(keys.exited(self.tenant, slot, incarnation), Exit(**fields))

    def serving(self, slot: int, revision: int = 2) -> Records:
        """A slot whose instance is ready."""
        self.slot(slot, revision=revision).grant(slot, revision=revision)
        return self.instance(slot, revision=str(revision))

    def host(self, name: str = "host-a", **fields: Any) -> Records:
        """A live agent."""
        return self.record(keys.host(name), HostRecord(**{"boot_id": "b", "pid": 1, "time": ago(7200), **fields}))

    def cordon(self, name: str, action: str = "cordon") -> Records:
        """What an operator said of a host."""
        return self.record(
            keys.cordon(name),
            Cordon(action=action, who="ann", why="new disks", time=ago(60)),
        )

    def record(self, key: str, record: Record) -> Records:
        """Any record."""
        return self.put(key, stored(record))

    def put(self, key: str, value: bytes) -> Records:
        """Any value."""
        self.values[key] = value
        return self

    def stored(self) -> list[KeyValue]:
        """As a listing gives them, the object at `OBJECT_REVISION`."""
        return [KeyValue(key, value, OBJECT_REVISION, OBJECT_REVISION) for key, value in self.values.items()]

    def write(self, url: str) -> int:
        """Put them into a real etcd, the object first; answers the object's mod revision there."""

        async def put() -> int:
            store = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
            try:
                for key, value in self.values.items():
                    await store.put(key, value)
                kv = (await store.get(keys.fleet(self.tenant))).kv
                return kv.mod_revision if kv is not None else 0
            finally:
                await store.close()

        return asyncio.run(put())


def remove(url: str, *written: str) -> None:
    """Delete keys."""

    async def delete() -> None:
        store = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
        try:
            for key in written:
                await store.delete(key)
        finally:
            await store.close()

    asyncio.run(delete())
