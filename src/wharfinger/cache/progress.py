"""How far the watch has come, and waiting for it."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class Progress:
    """The newest revision whose events were applied; tasks can wait for a later one.

    Lives on one event loop. Waits are always bounded by a time-out.
    """

    def __init__(self) -> None:
        self.revision = 0
        """Everything up to this revision has been applied."""
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def advance(self, revision: int) -> None:
        """Say that everything up to `revision` has been applied."""
        self.revision = max(self.revision, revision)
        while self._waiters and self._waiters[0][0] <= self.revision:
            _, _, future = heapq.heappop(self._waiters)
            if not future.done():
                future.set_result(None)

    async def wait_for(self, revision: int, timeout: float) -> bool:
        """Whether `revision` was reached within `timeout` seconds."""
        if revision <= self.revision:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (revision, next(self._order), future))
        try:
            async with asyncio.timeout(timeout):  # wait_for can swallow a cancellation
                await future
        except TimeoutError:
            return revision <= self.revision
        return True
