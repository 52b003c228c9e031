"""All that a hub sees, read once for everybody who looks, and not so often that the page does little else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from wharfinger.etcd.store import Store
from wharfinger.placement.reading.observe_placements import read_all
from wharfinger.placement.state.hub_view import HubView

FRESH = 2.0
"""Seconds for which a view is given again while nothing changes."""
SHORT = 0.25
"""Seconds; a reading that takes no longer may be followed by another at once."""
REST = 4.0
"""After any other one, so many times as long nothing is read, whatever changes: a fifth of a core goes into it."""


class ReadView(NamedTuple):
    """What a reading found."""

    view: HubView
    at: float
    """When it ended, by the clock."""


class HubReading:
    """Reads the hub's view; those who ask while it is read get that reading, and its error."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._store = store
        self._clock = clock
        self.last: ReadView | None = None
        self.took = 0.0
        """Seconds of the last reading."""
        self._expired = False
        self._reading: asyncio.Task[ReadView] | None = None

    def age(self, found: ReadView) -> int:
        """Whole seconds since a view was read."""
        return round(self._clock() - found.at)

    def expire(self) -> None:
        """Something changed: read anew when somebody asks."""
        self._expired = True

    async def view(self) -> ReadView:
        """What hubs have seen by now. Raises `StoreError`."""
        if self.last is not None and not self._is_stale(self.last):
            return self.last
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._ended)
        return await asyncio.shield(self._reading)  # who gives up ends it for nobody else

    async def _read(self) -> ReadView:
        began = self._clock()
        self._expired = False  # what changes from now on may not be in it
        view = await read_all(self._store)
        self.last = ReadView(view, self._clock())
        self.took = self.last.at - began
        return self.last

    def _ended(self, reading: asyncio.Task[ReadView]) -> None:
        self._reading = None
        if reading.cancelled() or reading.exception() is not None:
            self._expired = True

    def _is_stale(self, last: ReadView) -> bool:
        age = self._clock() - last.at
        if self.took > SHORT and age < REST * self.took:
            return False
        return self._expired or age >= FRESH
