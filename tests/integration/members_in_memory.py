"""Members whose agents run in the test and whose stores are in memory, beside the real ones of a tree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.placement.objects import member_object
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Store
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.member.folder import MemberConnection
from wharfinger.placement.member.member_agent import MemberReporter
from wharfinger.placement.member.works import Works
from wharfinger.process.parts import ProcessParts
from wharfinger.settings import EtcdSettings, LeaseSettings
from wharfinger.testing.memory_store import MemoryStore


@asynccontextmanager
async def members_in_memory(url: str, count: int) -> AsyncIterator[dict[str, MemoryStore]]:
    """More members: their agents run here, their stores are in memory. They leave at the end."""
    hub = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
    process = ProcessParts(hub)
    works = Works(hub, rng=process.rng)
    stores = {f"memory-{number:02}": MemoryStore() for number in range(count)}
    tasks = [asyncio.create_task(works.run())]
    for name, store in stores.items():
        obj = member_object(name, labels={"wave": "many"})
        await hub.put(placement_keys.member_cluster(name), json.dumps(obj).encode())

        async def connect(store: MemoryStore = store) -> Store:
            return store.client()

        connection = MemberConnection(name, EtcdSettings(), ClusterFormat.KUBERNETES)
        agent = MemberReporter(
            connection, process, connect, lease=LeaseSettings(ttl=10.0), report_every=5.0, works=works
        )
        tasks.append(asyncio.create_task(agent.run()))
    try:
        yield stores
        for name in stores:
            await hub.delete(placement_keys.member_cluster(name))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await hub.close()
