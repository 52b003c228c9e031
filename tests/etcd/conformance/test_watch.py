from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.etcd.conformance.conftest import World
from tests.patience import patient
from wharfinger.errors import Compacted, RevisionWentBack
from wharfinger.etcd.store import Delete, Put, WatchBatch


async def next_events(batches: AsyncIterator[WatchBatch]) -> WatchBatch:
    """The next batch that is no progress."""
    while True:
        batch = await anext(batches)
        if batch.events:
            return batch


async def test_one_batch_is_one_revision_with_all_its_events(world: World) -> None:
    first = await world.store.put(world.key("a"), b"1")
    second = await world.store.txn((), [Put(world.key("b"), b"2"), Delete(world.key("a")), Put(world.key("c"), b"3")])

    async with world.store.watch(world.prefix, first) as batches:
        seen = [await next_events(batches), await next_events(batches)]

    assert [batch.revision for batch in seen] == [first, second.revision]
    assert [(event.kv.key, event.deleted, event.kv.value) for event in seen[1].events] == [
        (world.key("b"), False, b"2"),
        (world.key("a"), True, b""),
        (world.key("c"), False, b"3"),
    ]
    assert {event.kv.mod_revision for event in seen[1].events} == {second.revision}


async def test_a_watch_from_the_next_revision_sees_only_what_comes(world: World) -> None:
    revision = await world.store.put(world.key("a"), b"old")

    async with world.store.watch(world.prefix, revision + 1) as batches:
        waiting = asyncio.ensure_future(next_events(batches))
        await asyncio.sleep(0)
        await world.client().put(world.key("a"), b"new")
        batch = await waiting

    assert [event.kv.value for event in batch.events] == [b"new"]


async def test_a_watch_from_revision_zero_begins_now(world: World) -> None:
    await world.store.put(world.key("a"), b"old")
    writer = world.client()

    async with world.store.watch(world.prefix, 0) as batches:
        waiting = asyncio.ensure_future(next_events(batches))
        while not waiting.done():
            await writer.put(world.key("a"), b"new")
            await asyncio.wait([waiting], timeout=0.02)
        batch = await waiting

    assert [event.kv.value for event in batch.events] == [b"new"]


async def test_many_small_changes_come_in_order_without_gap_or_double(world: World) -> None:
    start = (await world.store.get(world.key("a"))).revision + 1
    writer = world.client()

    async def write() -> None:
        for number in range(300):
            await writer.put(world.key("a"), b"%d" % number)

    async with world.store.watch(world.prefix, start) as batches:
        writing = asyncio.ensure_future(write())
        seen = [await next_events(batches) for _ in range(300)]
        await writing

    assert [batch.revision for batch in seen] == list(range(start, start + 300))
    assert [event.kv.value for batch in seen for event in batch.events] == [b"%d" % number for number in range(300)]


async def test_other_prefixes_are_not_seen_but_move_the_progress(world: World) -> None:
    start = await world.store.put(world.key("in/a"), b"")
    last = await world.store.put(world.key("in0"), b"outside")

    async with world.store.watch(world.key("in/"), start) as batches:
        first = await anext(batches)
        second = await anext(batches)

    assert [event.kv.key for event in first.events] == [world.key("in/a")]
    assert second.events == ()
    assert second.revision >= last


async def test_previous_states_come_when_asked_for(world: World) -> None:
    key = world.key("a")
    start = await world.store.put(key, b"1")
    await world.store.put(key, b"2")
    await world.store.delete(key)

    async with world.store.watch(world.prefix, start, previous=True) as batches:
        asked = [(await next_events(batches)).events[0] for _ in range(3)]
    async with world.store.watch(world.prefix, start) as batches:
        unasked = [(await next_events(batches)).events[0] for _ in range(3)]

    assert [event.previous.value if event.previous else None for event in asked] == [None, b"1", b"2"]
    assert [event.previous for event in unasked] == [None, None, None]


async def test_events_of_keys_that_are_no_utf8_arrive(world: World) -> None:
    odd = world.key("") + b"\xfe\xff".decode("utf-8", "surrogateescape")
    start = await world.store.put(odd, b"1")

    async with world.store.watch(world.prefix, start) as batches:
        batch = await next_events(batches)

    assert batch.events[0].kv.key == odd


async def test_a_large_revision_arrives_in_one_batch(world: World) -> None:
    """With their previous states the events are 2.8 MB: etcd cuts that into fragments."""
    names = [world.key(f"{number}") for number in range(4)]
    await world.store.txn((), [Put(name, b"x" * 350_000) for name in names])
    result = await world.store.txn((), [Put(name, b"y" * 350_000) for name in names])

    async with world.store.watch(world.prefix, result.revision, previous=True) as batches:
        batch = await next_events(batches)

    assert batch.revision == result.revision
    assert [event.kv.key for event in batch.events] == names
    assert all(event.previous is not None and len(event.previous.value) == 350_000 for event in batch.events)


async def test_watch_from_before_the_compaction_raises_compacted(world: World) -> None:
    first = await world.store.put(world.key("a"), b"1")
    last = await world.store.put(world.key("a"), b"2")
    world.compact(last)

    with pytest.raises(Compacted) as refused:
        async with world.store.watch(world.prefix, first) as batches:
            await next_events(batches)

    assert refused.value.compact_revision == last


async def test_a_watch_from_the_compacted_revision_itself_still_works(world: World) -> None:
    await world.store.put(world.key("a"), b"1")
    last = await world.store.put(world.key("a"), b"2")
    world.compact(last)

    async with world.store.watch(world.prefix, last) as batches:
        batch = await next_events(batches)

    assert [event.kv.value for event in batch.events] == [b"2"]


async def test_an_open_watch_does_not_mind_a_compaction(world: World) -> None:
    start = await world.store.put(world.key("a"), b"1")

    async with world.store.watch(world.prefix, start) as batches:
        await next_events(batches)
        last = await world.store.put(world.key("a"), b"2")
        world.compact(last)
        batch = await next_events(batches)

    assert [event.kv.value for event in batch.events] == [b"2"]


async def test_a_start_beyond_the_newest_revision_means_that_the_store_went_back(world: World) -> None:
    revision = await world.store.put(world.key("a"), b"1")

    with pytest.raises(RevisionWentBack):
        async with world.store.watch(world.prefix, revision + 1000) as batches:
            await next_events(batches)


async def test_an_open_watch_ends_when_its_store_is_closed(world: World) -> None:
    client = world.client()
    revision = await client.put(world.key("a"), b"1")

    async with client.watch(world.prefix, revision) as batches:
        await next_events(batches)

        async def drain() -> int:
            return len([batch async for batch in batches if batch.events])

        draining = asyncio.ensure_future(drain())
        await asyncio.sleep(0)
        await client.close()
        rest = await asyncio.wait_for(draining, patient(20))

    assert rest == 0
