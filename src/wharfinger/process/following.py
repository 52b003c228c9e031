"""Following keys in etcd: each change of those under a prefix, or only that something happened to a few keys.

`follow` lists, watches, and lists again whenever the watch cannot go on, so no change is missed. `watching` lets its
caller wait: what happened is read, never taken from the watch, so one that was cut, compacted or late costs a moment
and loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn

from wharfinger.errors import Compacted, RevisionWentBack, StoreError
from wharfinger.etcd.store import Event, KeyValue, Store, WatchBatch
from wharfinger.pressure import delays

log = logging.getLogger(__name__)

PAUSE = 0.5
"""Seconds, about, before listing again after a watch that ended: one that is refused must not spin."""


async def list_and_watch(
    store: Store,
    prefix: str,
    *,
    lists: Callable[[str], Awaitable[int]],
    takes: Callable[[WatchBatch], Awaitable[None]],
    failing: Callable[[StoreError], None] = lambda _: None,
    survives_restore: bool = False,
    rng: random.Random,
) -> NoReturn:
    """List, watch from the revision behind the list, and list again whenever the watch cannot go on, until cancelled.

    `lists` reads the list, and returns its revision; it gets the cause: `start`, `compacted`, `ended` or `cancelled`.
    `takes` gets each batch of the watch. Errors of the store are retried; `failing` is called with each one of a list.
    Without `survives_restore`, raises `RevisionWentBack` when etcd was restored from a backup, because what was passed
    before never was.
    """
    cause = "start"
    while True:
        said = False
        for delay in delays(0.2, 5.0, rng):
            try:
                revision = await lists(cause)
                break
            except StoreError as error:
                if isinstance(error, RevisionWentBack) and not survives_restore:
                    raise
                failing(error)
                if not said:
                    said = True
                    log.warning("list_failed effect=retried prefix=%s cause=%s error=%r", prefix, cause, str(error))
            await asyncio.sleep(delay)
        try:
            async with store.watch(prefix, revision + 1) as batches:
                async for batch in batches:
                    await takes(batch)
            cause = "ended"
        except Compacted as error:
            log.warning("watch_compacted effect=list_again prefix=%s error=%r", prefix, str(error))
            cause = "compacted"
        except StoreError as error:
            if not isinstance(error, RevisionWentBack):
                log.warning("watch_ended effect=list_again prefix=%s error=%r", prefix, str(error))
            elif survives_restore:
                log.error("etcd_revision_went_back effect=list_again prefix=%s error=%r", prefix, str(error))
            else:
                raise
            cause = "cancelled"
        await asyncio.sleep(PAUSE * (0.5 + rng.random()))


async def breathe(began: float, clock: Callable[[], float], stretch: float) -> float:
    """Let others run where this took longer than `stretch` seconds since `began`; returns since when it goes on."""
    if clock() - began <= stretch:
        return began
    await asyncio.sleep(0)
    return clock()


async def follow(
    store: Store,
    prefix: str,
    *,
    listed: Callable[[Sequence[KeyValue]], None],
    changed: Callable[[Event], None],
    reached: Callable[[int], None] = lambda _: None,
    failing: Callable[[StoreError], None] = lambda _: None,
    survives_restore: bool = True,
    rng: random.Random,
) -> NoReturn:
    """Call `listed` with everything under the prefix, then `changed` with each change, until cancelled.

    A new list replaces all that was passed before: what it does not contain is gone. `reached` is called with the
    revision up to which all was passed, also while nothing changes. The rest is as in `list_and_watch`.
    """

    async def lists(_: str) -> int:
        found = await store.whole(prefix)
        listed(found.items)
        reached(found.revision)
        return found.revision

    async def takes(batch: WatchBatch) -> None:
        for event in batch.events:
            changed(event)
        reached(batch.revision)

    await list_and_watch(
        store, prefix, lists=lists, takes=takes, failing=failing, survives_restore=survives_restore, rng=rng
    )


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
