"""How far the watch has come, waiting for it, and the mod revisions that binds compare."""

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


class Versions:
    """Mod revisions of the small keys that binds compare and rewrite, as this worker last saw them, by name.

    0 = the key does not exist, as far as this worker has seen. A revision comes from the watch, together with the pods
    behind the key, or from the header of a transaction of this worker that compared the key. It never comes from a
    read, because a read does not show what lies behind the key.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        return self._known.get(name, 0)

    def set(self, name: str, revision: int) -> None:
        """The key is at this mod revision; an older one than known is ignored."""
        self._known[name] = max(revision, self._known.get(name, 0))

    def remove(self, name: str) -> None:
        """Etcd holds the key no more."""
        self._known.pop(name, None)
