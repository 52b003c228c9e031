"""Waiting for a change of a few keys: what wakes the reader, what does not, and that nothing is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

import pytest

from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Read
from wharfinger.process.following import KeyWatch, watching
from wharfinger.testing.memory_store import MemoryStore

LONG = 20.0
"""Seconds that no test waits out."""
SHORT = 0.02


async def woken(watch: KeyWatch) -> bool:
    """Whether something happened, by the time every other task had a turn."""
    return await watch.changed(SHORT)


async def test_change_ends_the_wait_and_is_reported_once() -> None:
    store = MemoryStore()
    async with watching(store, ["/a"]) as watch:
        waiting = asyncio.ensure_future(watch.changed(LONG))
        began = monotonic()
        await store.put("/a", b"1")

        assert await waiting
        assert monotonic() - began < LONG / 2
        assert not await woken(watch)


async def test_a_deletion_is_a_change() -> None:
    store = MemoryStore()
    await store.put("/a", b"1")
    async with watching(store, ["/a"]) as watch:
        await store.delete("/a")

        assert await watch.changed(LONG)


async def test_any_of_several_keys_wakes() -> None:
    store = MemoryStore()
    async with watching(store, ["/a", "/b"]) as watch:
        await store.put("/b", b"1")

        assert await watch.changed(LONG)


async def test_without_a_change_the_wait_ends_with_its_time() -> None:
    async with watching(MemoryStore(), ["/a"]) as watch:
        assert not await watch.changed(SHORT)


async def test_key_with_the_same_beginning_ends_no_wait() -> None:
    store = MemoryStore()
    async with watching(store, ["/a/1"]) as watch:
        await store.put("/a/10", b"1")
        assert not await woken(watch)

        await store.put("/a/1", b"1")
        assert await watch.changed(LONG)


async def test_a_prefix_stands_for_all_keys_below_it() -> None:
    store = MemoryStore()
    async with watching(store, ["/a/"]) as watch:
        await store.put("/b/1", b"1")
        assert not await woken(watch)

        await store.put("/a/1", b"1")
        assert await watch.changed(LONG)


class Overtaken(MemoryStore):
    """Something happens between each read and what follows on it."""

    def __init__(self, meanwhile: Callable[[MemoryStore], Awaitable[object]]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    async def get(self, key: str, *, revision: int = 0) -> Read:
        read = await super().get(key, revision=revision)
        await self._meanwhile(self)
        return read


async def test_change_between_the_read_and_the_watch_is_reported() -> None:
    store = Overtaken(lambda store: store.put("/a", b"2"))
    async with watching(store, ["/a"]) as watch:
        assert await watch.changed(LONG)


async def test_watch_from_now_on_reports_no_earlier_change() -> None:
    store = MemoryStore()
    await store.put("/a", b"1")
    async with watching(store, ["/a"]) as watch:
        assert not await woken(watch)


async def test_a_compacted_watch_has_the_reader_look_again_and_goes_on() -> None:
    async def compacted(store: MemoryStore) -> None:
        for value in (b"2", b"3"):
            await store.put("/b", value)
        store.compact(store.revision)

    store = Overtaken(compacted)
    async with watching(store, ["/a"]) as watch:
        assert await watch.changed(LONG)

        await store.put("/a", b"2")
        assert await watch.changed(LONG)


async def test_a_watch_that_cannot_go_on_has_the_reader_look_again() -> None:
    store = MemoryStore()
    old = await store.put("/a", b"1")
    async with watching(store, ["/a"]) as watch:
        await store.put("/a", b"2")
        assert await watch.changed(LONG)

        store.restore(old)
        assert await watch.changed(LONG)


async def test_unreadable_store_raises_on_entering() -> None:
    store = MemoryStore()
    store.fail_reads()
    with pytest.raises(Unavailable):
        async with watching(store, ["/a"]):
            pytest.fail("not reached")


async def test_no_watch_outlives_the_block() -> None:
    before = asyncio.all_tasks()
    async with watching(MemoryStore(), ["/a", "/b"]):
        assert len(asyncio.all_tasks() - before) == 2

    assert asyncio.all_tasks() == before
