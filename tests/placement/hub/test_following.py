"""A hub's streams, on a store in memory: what is gone at a new list, and how far a quiet stream was seen."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from tests.fleet.agent.hosts import running, until
from tests.patience import patient
from wharfinger.errors import RevisionWentBack
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.hub.following import HubStreams
from wharfinger.placement.state.hub_view import HubView
from wharfinger.testing.memory_store import MemoryStore


async def test_what_went_before_a_list_is_waited_for_no_longer() -> None:
    store, view = MemoryStore(), HubView(time.monotonic)
    key = placement_keys.placement("cluster/web")
    put = await store.put(key, b"{}")
    await store.delete(key)
    streams = HubStreams(store, view, note=lambda _: None, rng=random.Random(1))
    async with running(streams.run()):
        assert await view.wait_for(StreamRevisions(objects=put), patient(20))


async def test_an_attempt_waits_until_what_started_it_was_seen() -> None:
    store, view = MemoryStore(), HubView(time.monotonic)
    streams = HubStreams(store, view, note=lambda _: None, rng=random.Random(1))
    async with running(streams.run()):
        await until(lambda: view.in_sync)
        store.pause_watches()
        put = await store.put(placement_keys.member("a"), b"{}")
        waiting = asyncio.create_task(view.wait_for(StreamRevisions(hub=put), patient(20)))
        assert not await view.wait_for(StreamRevisions(hub=put), 0.05)
        store.resume_watches()
        assert await waiting


async def test_a_hub_ends_when_etcd_was_restored() -> None:
    store, view = MemoryStore(), HubView(time.monotonic)
    await store.put(placement_keys.member("a"), b"{}")
    before = (await store.get("x")).revision
    streams = HubStreams(store, view, note=lambda _: None, rng=random.Random(1))
    following = asyncio.create_task(streams.run())
    await until(lambda: view.in_sync)
    await store.put(placement_keys.member("b"), b"{}")
    await until(lambda: view.revisions["hub"] > before)
    store.restore(before)
    with pytest.raises(RevisionWentBack):
        await following
