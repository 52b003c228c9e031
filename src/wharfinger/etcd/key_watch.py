"""Waiting for something to happen to a few keys, by etcd's watch; what happened is read, never taken from the watch.

So a watch that was cut, compacted or late costs a moment and loses nothing. A component that
needs each change, and not only that there was one, follows by list and watch (`process.following`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from wharfinger.errors import Compacted, StoreError
from wharfinger.etcd.store import Store


class KeyWatch:
    """Whether anything happened since it was asked last."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def mark(self) -> None:
        """Something did, or may have."""
        self._event.set()

    async def changed(self, seconds: float) -> bool:
        """Return when something happens, or after so many seconds; whether something did."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        happened = self._event.is_set()
        self._event.clear()
        return happened


@asynccontextmanager
async def watching(store: Store, wanted: Sequence[str]) -> AsyncIterator[KeyWatch]:
    """Watch keys, and all below those that end with `/`, inside the block; look at them after entering it.

    Raises the store's errors on entering.
    """
    after = (await store.get(wanted[0])).revision
    seen = KeyWatch()
    tasks = [asyncio.create_task(_follow(store, key, after + 1, seen), name=f"watch {key}") for key in wanted]
    try:
        yield seen
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(store: Store, wanted: str, start: int, seen: KeyWatch) -> None:
    """Mark what happens. It ends where no watch can be had: then the reader's own pace has to do."""
    below = wanted.endswith("/")
    while True:
        try:
            async with store.watch(wanted, start) as batches:
                async for batch in batches:
                    start = batch.revision + 1
                    if any(below or event.kv.key == wanted for event in batch.events):  # others only begin like it
                        seen.mark()
            return
        except Compacted as error:
            start = max(start, error.compact_revision) + 1
            seen.mark()
        except StoreError:
            seen.mark()
            return
