"""Locks of pods, nodes and namespaces inside one worker: what is known of them is used by one bind at a time.

A bind that takes several takes them in this order, each kind sorted: pods, then `bound/<namespace>` keys, then nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from wharfinger.model.pod import PodIdentity

Kind = TypeVar("Kind", str, PodIdentity)
T = TypeVar("T")


class Locks:
    """By what is locked: a pod's identity, a node's name, a key of etcd."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str | PodIdentity, asyncio.Lock] = WeakValueDictionary()

    def of(self, what: str | PodIdentity) -> asyncio.Lock:
        """The one lock of that; it lives as long as a task holds or awaits it."""
        lock = self._locks.get(what)
        if lock is None:
            lock = self._locks[what] = asyncio.Lock()
        return lock

    @asynccontextmanager
    async def hold(self, several: Iterable[Kind]) -> AsyncIterator[None]:
        """All of one kind, each once; taken in their order, so that no two tasks wait for each other."""
        held: list[asyncio.Lock] = []
        try:
            for what in sorted(set(several)):
                lock = self.of(what)
                await lock.acquire()
                held.append(lock)
            yield
        finally:
            for lock in held:
                lock.release()


async def gather_to_end(several: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Their results, once all have ended, cancelled or not: no locks are released over what still runs.

    Raises the first error, in their order.
    """
    answers = await asyncio.gather(*several, return_exceptions=True)
    results: list[T] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        results.append(answer)
    return results
