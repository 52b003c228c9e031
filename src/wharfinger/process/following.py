"""Following what lies under a prefix: a list, then a watch, and a list again whenever the watch cannot go on."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
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
