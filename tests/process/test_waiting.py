"""How a wait for a goal goes on while etcd forgets or does not answer, and when it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Store
from wharfinger.process.following import KeyWatch, watching
from wharfinger.process.waiting import Verdict, opened, wait_until
from wharfinger.testing.memory_store import MemoryStore


def watch(store: Store) -> AbstractAsyncContextManager[KeyWatch]:
    return watching(store, ["/x"])


async def test_what_etcd_forgets_meanwhile_is_read_again() -> None:
    store, looked = MemoryStore(), 0

    async def compacted(_: Store) -> Verdict:
        nonlocal looked
        looked += 1
        if looked == 1:
            first = await store.put("/x", b"")
            store.compact(await store.put("/x", b""))
            await store.get("/x", revision=first)
        return Verdict("reached", "it is")

    assert (await wait_until(opened(store), watch, compacted, 30, apart=0.0)).reached
    assert looked == 2


async def test_a_look_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wharfinger.process.waiting.LAST_LOOK", 0.01)

    async def never(_: Store) -> Verdict:
        await asyncio.sleep(3600)
        raise AssertionError

    found = await wait_until(opened(MemoryStore()), watch, never, 0.0)
    assert found == Verdict("waiting", "etcd has not answered")


async def test_each_outage_is_reported_once_and_the_store_is_opened_again() -> None:
    store, said = MemoryStore(), list[str]()
    answers = iter([False, False, True, False, False, True])

    @asynccontextmanager
    async def opening(_: float) -> AsyncIterator[Store]:
        if not next(answers):
            raise Unavailable("no answer")
        yield store

    async def look(_: Store) -> Verdict:
        if said.count("no answer") == 1 and "a step" not in said:
            said.append("a step")
            raise Unavailable("gone again")
        return Verdict("reached", "it is")

    found = await wait_until(opening, watch, look, 30, apart=0.0, say=said.append)

    assert found == Verdict("reached", "it is")
    assert said == ["no answer", "a step"]


async def test_a_wait_that_is_over_in_an_outage_tells_what_was_seen_before() -> None:
    client = MemoryStore().client()

    async def look(store: Store) -> Verdict:
        await store.get("/x")
        client.fail_reads(1000)
        return Verdict("waiting", "1 instance is left")

    said: list[str] = []
    found = await wait_until(opened(client), watch, look, 0.05, apart=0.0, say=said.append)

    assert (found.kind, found.why.endswith("; before: 1 instance is left")) == ("waiting", True)
    assert found.why != "; before: 1 instance is left"
    assert said == ["1 instance is left"]
