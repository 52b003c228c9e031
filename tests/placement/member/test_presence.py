"""Agents of one process share a lease: one name that goes takes no other with it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.fleet.agent.hosts import running, until
from tests.placement.member.agents import agent, put_member, serving, there
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.member.presence import Presence
from wharfinger.settings import LeaseSettings
from wharfinger.testing.memory_store import MemoryStore


@asynccontextmanager
async def sharing(hub: MemoryStore) -> AsyncIterator[None]:
    """Agents of `east` and `west`, which share a presence."""
    presence = Presence(hub.client(), LeaseSettings(ttl=10.0), clock=time.monotonic, rng=random.Random(1))
    agents = [agent(hub, MemoryStore(), name) for name in ("east", "west")]
    for one in agents:
        one._presence = presence
    async with running(presence.run()), serving(*agents):
        yield


async def leases(hub: MemoryStore) -> set[int]:
    """Leases of both names; 0 for one that is not there."""
    found = [(await hub.get(placement_keys.member(name))).kv for name in ("east", "west")]
    return {kv.lease if kv is not None else 0 for kv in found}


async def registered(hub: MemoryStore) -> bool:
    return 0 not in await leases(hub)


async def test_all_names_are_under_one_lease() -> None:
    hub = MemoryStore()
    for name in ("east", "west"):
        await put_member(hub, name)
    async with sharing(hub):
        await until(lambda: registered(hub))
        assert len(await leases(hub)) == 1
    assert await leases(hub) == {0}


async def test_a_member_that_goes_takes_its_own_name_only() -> None:
    hub = MemoryStore()
    for name in ("east", "west"):
        await put_member(hub, name)
    async with sharing(hub):
        await until(lambda: registered(hub))
        await hub.delete(placement_keys.member_cluster("east"))

        async def gone() -> bool:
            return not await there(hub, placement_keys.member("east"))

        await until(gone)
        assert await there(hub, placement_keys.member("west"))
        await put_member(hub, "east")
        await until(lambda: registered(hub))
        assert len(await leases(hub)) == 1


async def test_names_come_back_under_a_new_lease() -> None:
    hub = MemoryStore()
    for name in ("east", "west"):
        await put_member(hub, name)
    async with sharing(hub):
        await until(lambda: registered(hub))
        [lost] = await leases(hub)
        hub.drop_lease(lost)

        async def again() -> bool:
            return await registered(hub) and lost not in await leases(hub)

        await until(again)
        assert len(await leases(hub)) == 1


async def test_a_name_that_is_deleted_comes_back() -> None:
    hub = MemoryStore()
    for name in ("east", "west"):
        await put_member(hub, name)
    async with sharing(hub):
        await until(lambda: registered(hub))
        await hub.delete(placement_keys.member("west"))
        await asyncio.sleep(0)
        await until(lambda: registered(hub))
