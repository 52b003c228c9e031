from __future__ import annotations

import asyncio

import pytest

from tests.etcd.conformance.conftest import World
from tests.etcd.conformance.test_watch import next_events
from tests.etcd.lease_times import with_time_enough
from tests.patience import patient
from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Put


async def test_revoking_a_lease_deletes_its_keys_as_one_revision(world: World) -> None:
    lease = await world.store.grant_lease(60)
    assert lease.ttl >= 60
    await world.store.put(world.key("free"), b"")
    result = await world.store.txn((), [Put(world.key(name), b"", lease.id) for name in ("a", "b")])

    await lease.revoke()
    async with world.store.watch(world.prefix, result.revision + 1) as batches:
        batch = await next_events(batches)

    assert lease.lost
    assert await lease.wait_lost() == "revoked"
    assert sorted(event.kv.key for event in batch.events if event.deleted) == [world.key("a"), world.key("b")]
    assert [kv.key for kv in await world.list_all()] == [world.key("free")]


async def test_key_has_its_lease_until_it_is_written_without(world: World) -> None:
    lease = await world.store.grant_lease(60)
    await world.store.put(world.key("a"), b"", lease=lease.id)
    bound = (await world.store.get(world.key("a"))).kv
    await world.store.put(world.key("a"), b"")
    await lease.revoke()
    left = (await world.store.get(world.key("a"))).kv

    assert bound is not None
    assert bound.lease == lease.id
    assert left is not None
    assert left.lease == 0


async def test_revoking_twice_is_quiet(world: World) -> None:
    lease = await world.store.grant_lease(60)

    await lease.revoke()
    await lease.revoke()

    assert lease.lost


async def test_lease_is_kept_while_its_owner_is_alive_and_expires_otherwise(world: World) -> None:
    async def story(ttl: int) -> None:
        asked = 0
        alive = True

        def answer() -> bool:
            nonlocal asked
            asked += 1
            return alive

        lease = await world.store.grant_lease(ttl, alive=answer)
        await world.store.put(world.key("a"), b"", lease=lease.id)
        await world.let_pass(1.2 * ttl)
        kept = (await world.store.get(world.key("a"))).kv
        alive, asked_until_then = False, asked
        await world.let_pass(1.05 * ttl)

        assert kept is not None
        assert asked_until_then >= 2
        assert lease.lost
        assert await asyncio.wait_for(lease.wait_lost(), patient(20))
        while (await world.store.get(world.key("a"))).kv is not None:  # etcd expires every half second
            await world.let_pass(0.1)

    await (story(2) if world.etcd is None else with_time_enough(world.etcd, 2, story))


async def test_closing_the_store_ends_its_leases_without_giving_them_back(world: World) -> None:
    client = world.client()
    lease = await client.grant_lease(60)
    await client.put(world.key("a"), b"", lease=lease.id)

    await client.close()

    assert lease.lost
    assert (await world.store.get(world.key("a"))).kv is not None
    with pytest.raises(Unavailable):
        await client.get(world.key("a"))
