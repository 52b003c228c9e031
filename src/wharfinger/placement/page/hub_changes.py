"""Notices that something changed on a hub, while somebody looks at its placements.

Decisions, work and results lie outside of what the page follows, because only a hub has them. So they have a watch of
their own, which is there only while it is wanted; nothing of it is read, for a view asks for what it shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from wharfinger.errors import StoreError
from wharfinger.etcd.store import Store
from wharfinger.placement.contracts import placement_keys

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
"""Seconds between two looks whether it is wanted."""
AGAIN = 2.0
"""Seconds before watching again after a watch that failed."""


class HubChanges:
    """Watches while it is wanted."""

    def __init__(self, store: Store, wanted: Callable[[], bool], changed: Callable[[], None]) -> None:
        """`changed` is called for every change, and whenever some may have been missed."""
        self._store = store
        self._wanted = wanted
        self._changed = changed

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            if self._wanted():
                try:
                    await self._watch()
                except StoreError as error:
                    log.debug("hub_unwatched error=%r", str(error))
                    await asyncio.sleep(AGAIN)
            await asyncio.sleep(LOOK_EVERY)

    async def _watch(self) -> None:
        revision = (await self._store.first(placement_keys.HUB)).revision
        self._changed()
        async with self._store.watch(placement_keys.HUB, revision + 1) as batches:
            async for batch in batches:
                if not self._wanted():
                    return
                if batch.events:
                    self._changed()
