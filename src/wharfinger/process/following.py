"""Following what lies under a prefix: a list, then a watch, and a list again whenever the watch cannot go on."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from wharfinger.errors import Compacted, RevisionWentBack, StoreError
from wharfinger.process.backoff import delays
from wharfinger.registry.store import Event, KeyValue, Store

log = logging.getLogger(__name__)

PAUSE = 0.5
"""Seconds, about, before listing again after a watch that ended: one that is refused must not spin."""


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
) -> None:
    """Call `listed` with everything under the prefix, then `changed` with each change, until cancelled.

    A new list replaces all that was passed before: what it does not contain is gone. `reached` is told up to which
    revision all was passed, also while nothing changes. Errors of the store are retried; `failing` is told each one of
    a list. Without `survives_restore`, raises `RevisionWentBack` when etcd was restored from a backup, because what was
    passed before never was.
    """
    while True:
        revision = await _list(store, prefix, listed, survives_restore, rng, failing=failing)
        reached(revision)
        try:
            async with store.watch(prefix, revision + 1) as batches:
                async for batch in batches:
                    for event in batch.events:
                        changed(event)
                    reached(batch.revision)
        except Compacted as error:
            log.info("watch_compacted effect=list_again prefix=%s error=%r", prefix, str(error))
        except RevisionWentBack as error:
            if not survives_restore:
                raise
            log.error("etcd_revision_went_back effect=list_again prefix=%s error=%r", prefix, str(error))
        except StoreError as error:
            log.warning("watch_ended effect=list_again prefix=%s error=%r", prefix, str(error))
        await asyncio.sleep(PAUSE * (0.5 + rng.random()))


async def _list(
    store: Store,
    prefix: str,
    listed: Callable[[Sequence[KeyValue]], None],
    survives_restore: bool,
    rng: random.Random,
    *,
    failing: Callable[[StoreError], None],
) -> int:
    """Answers the revision of the list."""
    said = False
    for delay in delays(0.2, 5.0, rng):
        try:
            found = await store.whole(prefix)
        except StoreError as error:
            if isinstance(error, RevisionWentBack) and not survives_restore:
                raise
            failing(error)
            if not said:
                said = True
                log.warning("list_failed effect=retried prefix=%s error=%r", prefix, str(error))
            await asyncio.sleep(delay)
        else:
            listed(found.items)
            return found.revision
    raise AssertionError("delays are endless")
