"""Time for code that is given a pause: it passes only when the test moves it, and every pause ends at its moment.

Runs on the loop of `tests/event_loop.py`, which shows when everything has happened at a moment.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count

from tests.event_loop import watched_loop

TURNS = 150
"""Turns of the event loop after which everything in memory has gone as far as it can."""


class VirtualTime:
    """A clock, and the pauses that end by it. Lives on one event loop."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._pauses: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def __call__(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        """Return after so many seconds."""
        ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._pauses, (self.now + max(0.0, seconds), next(self._order), ends))
        await ends

    async def advance(self, seconds: float) -> None:
        """Let time pass, from pause to pause, and everything happen that happens then."""
        until = self.now + seconds
        await self.settle()
        while self._pauses and self._pauses[0][0] <= until:
            self.now, _, ends = heappop(self._pauses)
            if not ends.done():
                ends.set_result(None)
                await self.settle()
        self.now = until
        await self.settle()

    async def settle(self) -> None:
        """Let everything go as far as it can at this moment."""
        await watched_loop().until_idle(TURNS)
