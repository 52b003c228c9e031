"""Agents of members on stores in memory, and what they have written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.placement.objects import member_object
from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Store
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import MemberStatusRecord
from wharfinger.placement.member.folder import MemberConnection
from wharfinger.placement.member.member_agent import MemberReporter
from wharfinger.process.parts import ProcessParts
from wharfinger.settings import EtcdSettings, LeaseSettings
from wharfinger.testing.memory_store import MemoryStore

Connect = Callable[[], Awaitable[Store]]


def agent(hub: MemoryStore, member: MemoryStore | Connect | None, name: str = "east") -> MemberReporter:
    """`member`: its store, or what opens that; None: it does not answer."""

    async def connect() -> Store:
        if member is None:
            raise Unavailable("no answer")
        return member.client() if isinstance(member, MemoryStore) else await member()

    return MemberReporter(
        MemberConnection(name, EtcdSettings(), ClusterFormat.KUBERNETES),
        ProcessParts(hub.client()),
        connect,
        lease=LeaseSettings(ttl=10.0),
        report_every=0.02,
        look_every=0.02,
        give_back_every=0.1,
    )


@asynccontextmanager
async def serving(*agents: MemberReporter) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(one.run()) for one in agents]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def put_member(hub: MemoryStore, name: str = "east") -> int:
    return await hub.put(placement_keys.member_cluster(name), json.dumps(member_object(name)).encode())


async def status(hub: MemoryStore, name: str = "east") -> dict[str, str]:
    """Conditions of its agent, and how many nodes it has."""
    kv = (await hub.get(placement_keys.member_status(name))).kv
    if kv is None:
        return {}
    told = MemberStatusRecord.model_validate_json(kv.value).status
    conditions = {one["type"]: one["status"] for one in told["agentStatus"][0]["conditions"]}
    nodes = told.get("properties", {}).get("kubernetes-fleet.io/node-count", {}).get("value", "")
    return {**conditions, "nodes": nodes}


async def there(store: MemoryStore, key: str) -> bool:
    return (await store.get(key)).kv is not None
