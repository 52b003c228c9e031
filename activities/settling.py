"""Finding out, in the background, what became of transactions whose answer got lost.

The bind itself fails then, and its retry, perhaps on another worker, binds or finds the pod bound. This
worker still counts the pod on its node; a linearizable read tells from which revision on the watch has
shown the truth, and the assumption ends there.
"""

from __future__ import annotations

import asyncio
import contextlib

from wharfinger.cache.cache import Cache
from wharfinger.errors import StoreError
from wharfinger.model.pod import PodIdentity
from wharfinger.registry import keys
from wharfinger.registry.store import Store

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between reads while etcd does not answer; the last for ever."""


class Settling:
    """Assumptions in doubt, each with a task that asks etcd until it answers."""

    def __init__(self, *, store: Store, cache: Cache) -> None:
        self._store = store
        self._cache = cache
        self._tasks: dict[PodIdentity, asyncio.Task[None]] = {}

    def begin(self, identity: PodIdentity) -> None:
        """The pod's transaction may or may not have happened."""
        if identity not in self._tasks:
            task = asyncio.create_task(self._settle(identity), name=f"settle {identity.namespace}/{identity.name}")
            self._tasks[identity] = task
            task.add_done_callback(lambda _: self._tasks.pop(identity, None))

    async def close(self) -> None:
        """Stop asking: the process ends, and its assumptions with it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _settle(self, identity: PodIdentity) -> None:
        for attempt in range(10**9):
            try:
                read = await self._store.get(keys.pod(identity.namespace, identity.name))
            except StoreError:
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            else:
                self._cache.settle(identity, read.revision)
                return
