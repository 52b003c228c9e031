"""Finding out, in the background, what became of transactions whose answer got lost.

The bind itself fails then, and its retry, perhaps on another worker, binds or finds the pod bound. This
worker still counts the pod on its node; a linearizable read tells from which revision on the watch has
shown the truth, and the assumption ends there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from wharfinger.cache.cache import Cache
from wharfinger.errors import StoreError
from wharfinger.model.pod import PodIdentity
from wharfinger.registry import keys
from wharfinger.registry.store import Store

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between reads while etcd does not answer; the last for ever."""


class InDoubtResolver:
    """Assumptions in doubt, each with a task that asks etcd until it answers."""

    def __init__(self, *, store: Store, cache: Cache) -> None:
        self._store = store
        self._cache = cache
        self._tasks: dict[PodIdentity, asyncio.Task[None]] = {}

    def begin(self, identities: Sequence[PodIdentity]) -> None:
        """The one transaction of these pods may or may not have happened."""
        new = [identity for identity in identities if identity not in self._tasks]
        if not new:
            return
        first = new[0]
        task = asyncio.create_task(self._settle(new), name=f"settle {first.namespace}/{first.name} of {len(new)}")
        self._tasks.update(dict.fromkeys(new, task))
        task.add_done_callback(lambda _: self._done(new))

    def _done(self, identities: Sequence[PodIdentity]) -> None:
        for identity in identities:
            self._tasks.pop(identity, None)

    async def close(self) -> None:
        """Stop asking: the process ends, and its assumptions with it."""
        tasks = list(dict.fromkeys(self._tasks.values()))
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _settle(self, identities: Sequence[PodIdentity]) -> None:
        """Any linearizable read will do: what matters is the revision that it is answered at."""
        first = identities[0]
        for attempt in range(10**9):
            try:
                read = await self._store.get(keys.pod(first.namespace, first.name))
            except StoreError:
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            else:
                for identity in identities:
                    self._cache.settle(identity, read.revision)
                return
