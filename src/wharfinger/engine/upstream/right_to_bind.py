"""Whether this installation may bind now: `active` is in etcd, by a read that began a moment ago.

The holder of the Lease deletes `active` before the Lease can pass to another scheduler: at the latest when its renewal
has failed for renewDeadline (10 s). Whoever sends a bind to the API has seen `active` at most half a second before, and
a bind takes at most four seconds, so the last one ends before the Lease does (15 s). See decision 28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from wharfinger.errors import UpstreamUnavailable
from wharfinger.registry import keys
from wharfinger.registry.store import Store

FRESH = 0.5
"""Seconds that a read counts, from when it began."""
NOT_HELD = (
    "this installation does not hold the Lease of the Kubernetes API: another scheduler binds now, or the importer "
    "has only just ended; `wharfinger kubernetes status` shows the holder"
)


class RightToBind:
    """Asks for `active`; one read serves everything that is sent in the next seconds."""

    def __init__(self, store: Store, *, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._store = store
        self._clock = clock
        self._read_at = float("-inf")
        self._reading: asyncio.Lock = asyncio.Lock()

    async def confirm(self) -> None:
        """Return when it is there. Raises `UpstreamUnavailable` when it is not, and `StoreError`."""
        if self._clock() - self._read_at <= FRESH:
            return
        async with self._reading:
            began = self._clock()
            if began - self._read_at <= FRESH:
                return
            if (await self._store.get(keys.ACTIVE)).kv is None:
                raise UpstreamUnavailable(NOT_HELD)
            self._read_at = began
