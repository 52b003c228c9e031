"""Following a prefix of etcd: what keeps a watch that cannot go on from becoming a loop of lists."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.fleet.agent.hosts import running
from wharfinger.errors import Compacted, StoreError, Unavailable
from wharfinger.etcd.store import WatchBatch
from wharfinger.process.following import list_and_watch
from wharfinger.testing.memory_store import MemoryStore


class Unwatched(MemoryStore):
    """A store whose watches end at once."""

    def __init__(self, ends_with: StoreError) -> None:
        super().__init__()
        self._ends_with = ends_with

    @asynccontextmanager
    async def watch(self, prefix: str, start_revision: int) -> AsyncIterator[AsyncIterator[WatchBatch]]:
        raise self._ends_with
        yield


@pytest.mark.parametrize("error", [Compacted("forgotten"), Unavailable("cut", maybe_applied=False)])
async def test_a_watch_that_ends_at_once_is_listed_again_after_a_pause(error: StoreError) -> None:
    causes: list[str] = []

    async def lists(cause: str) -> int:
        causes.append(cause)
        assert len(causes) < 10, "lists without a pause"
        return 1

    async def takes(_: WatchBatch) -> None:
        raise AssertionError("no batch comes")

    following = list_and_watch(Unwatched(error), "/a/", lists=lists, takes=takes, rng=random.Random(1))
    async with running(following):
        for _ in range(50):
            await asyncio.sleep(0)
        assert causes == ["start"]
