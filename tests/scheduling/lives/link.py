"""A worker's way to the store in memory: it takes time, loses answers, and its watches lag, end and repeat themselves.

What it may do is what etcd's contract allows. Within a watch, revisions keep their order; the watch may be late by
seconds, and end at any moment, whereupon its user lists again. Beyond that, what the informer claims to bear is tried:
a revision that comes twice, and events within one revision in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from random import Random
from typing import TypeVar

from tests.scheduling.lives.weather import Weather
from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Condition, Lease, Operation, Page, Read, Store, TxnResult, WatchBatch
from wharfinger.testing import MemoryStore

T = TypeVar("T")


CALM = Weather()


class Link(Store):
    """One worker's client of the store."""

    def __init__(self, store: MemoryStore, rng: Random, name: str, tell: Callable[..., None]) -> None:
        self._store = store.client()
        self._rng = rng
        self._name = name
        self._tell = tell
        self.weather = CALM
        self.severed = False
        self._holds = asyncio.Event()
        self._holds.set()

    def sever(self) -> None:
        """Its process is dead: nothing goes through any more, its leases are renewed no more."""
        self.severed = True
        self._holds.set()
        self._store._closed = True
        self._store._shared.leases.abandon(self._store)

    def hold(self, held: bool) -> None:
        """Let its watch stand still, or go on."""
        self._tell(self._name, "sees nothing of etcd" if held else "sees etcd again")
        (self._holds.clear if held else self._holds.set)()

    async def get(self, key: str, *, revision: int = 0) -> Read:
        return await self._call(lambda: self._store.get(key, revision=revision), writes=False)

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        await self._there(writes=False)
        async for page in self._store.list(prefix, revision=revision, page_size=page_size):
            yield page
            await self._there(writes=False)

    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        return await self._call(lambda: self._store.txn(compares, success, failure), writes=True)

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        return await self._call(lambda: self._store.put(key, value, lease=lease), writes=True)

    async def delete(self, key: str) -> bool:
        return await self._call(lambda: self._store.delete(key), writes=True)

    def watch(
        self, prefix: str, start_revision: int, *, previous: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        return aclosing(self._batches(prefix, start_revision, previous))

    async def grant_lease(self, ttl: float, *, alive: Callable[[], bool] | None = None) -> Lease:
        return await self._call(lambda: self._store.grant_lease(ttl, alive=alive), writes=False)

    async def close(self) -> None:
        await self._store.close()

    async def _call(self, call: Callable[[], Awaitable[T]], *, writes: bool) -> T:
        await self._there(writes=writes)
        answer = await call()
        if self.severed or (writes and self._rng.random() < self.weather.answer_lost):
            self._tell(self._name, "gets no answer to what etcd has done")
            await asyncio.sleep(self.weather.latency)
            raise Unavailable("no answer from the store", maybe_applied=True)
        return answer

    async def _there(self, *, writes: bool) -> None:
        if self.severed:
            raise Unavailable("the process is dead")
        weather = self.weather
        await asyncio.sleep(weather.latency * (0.5 + self._rng.random()))
        if self.severed or self._rng.random() < weather.request_lost:
            raise Unavailable("no answer from the store", maybe_applied=writes)

    async def _batches(self, prefix: str, start: int, previous: bool) -> AsyncGenerator[WatchBatch, None]:
        async with self._store.watch(prefix, start, previous=previous) as batches:
            async for batch in batches:
                weather = self.weather
                if weather.lag:
                    await asyncio.sleep(weather.lag * self._rng.random() ** 4)
                await self._holds.wait()
                if self.severed or (weather.cut and self._rng.random() < weather.cut):
                    self._tell(self._name, "loses its watch")
                    return
                events = batch.events
                if weather.shuffled:
                    events = tuple(self._rng.sample(events, len(events)))
                yield WatchBatch(batch.revision, events)
                if weather.doubled and self._rng.random() < weather.doubled:
                    yield batch
