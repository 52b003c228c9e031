"""All that a hub sees, read once for everybody who looks, and not so often that the page does little else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from wharfinger.engine.placements.hub_view import HubView
from wharfinger.observe.placements import read_all
from wharfinger.registry.store import Store

FRESH = 2.0
"""Seconds for which a view is given again while nothing changes."""
SHORT = 0.1
"""Seconds; a reading that takes no longer may be followed by another at once."""
REST = 4.0
"""After any other one, so many times as long nothing is read, whatever changes: a fifth of a core goes into it."""


class HubReading:
    """Reads the hub's view; one reading at a time, and those who ask meanwhile get the same one."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._store = store
        self._clock = clock
        self._view: HubView | None = None
        self._read_at = 0.0
        self._took = 0.0
        self._expired = False
        self._reading = asyncio.Lock()

    @property
    def age(self) -> float:
        """Seconds since the view was read last."""
        return self._clock() - self._read_at

    def expire(self) -> None:
        """Something changed: read anew when somebody asks."""
        self._expired = True

    async def view(self) -> HubView:
        """What hubs have seen by now. Raises `StoreError`."""
        async with self._reading:
            if self._view is None or self._is_stale:
                began = self._clock()
                expired, self._expired = self._expired, False  # what changes while it is read may not be in it
                try:
                    self._view = await read_all(self._store)
                except BaseException:
                    self._expired = expired
                    raise
                self._read_at = self._clock()
                self._took = self._read_at - began
            return self._view

    @property
    def _is_stale(self) -> bool:
        if self._took > SHORT and self.age < REST * self._took:
            return False
        return self._expired or self.age >= FRESH
