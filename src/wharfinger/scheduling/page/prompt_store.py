"""The store as people who wait for an answer need it: while etcd is silent, reads and writes fail at once.

Every call of a store ends within its deadline, which is ten seconds and more: right for a worker, too long for a view
that could say at once that etcd does not answer. `following` knows that, for it asks etcd every second. The informer
keeps the patient store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Condition, Lease, Operation, Page, Read, Store, TxnResult, WatchBatch

T = TypeVar("T")

SILENT_AFTER = 2.0
"""Seconds without any answer of etcd, after which a call is not made, or given up."""
LOOK_EVERY = 0.2
"""Seconds between two looks whether a call that is under way has to be given up."""


class PromptStore(Store):
    """Hands calls on to another store. Raises as that one does, and `Unavailable` at once while etcd is silent."""

    def __init__(self, inner: Store, unanswered: Callable[[], float]) -> None:
        """`unanswered`: for how many seconds etcd has answered nothing."""
        self._inner = inner
        self._unanswered = unanswered
        self.format = inner.format

    def as_stored(self, key: str) -> str:
        """See `Store`."""
        return self._inner.as_stored(key)

    async def get(self, key: str, *, revision: int = 0) -> Read:
        """See `Store`."""
        return await self._soon(self._inner.get(key, revision=revision))

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        """See `Store`."""
        pages = self._inner.list(prefix, revision=revision, page_size=page_size)
        while True:
            page = await self._soon(_next(pages))
            if page is None:
                return
            yield page

    def watch(
        self, prefix: str, start_revision: int, *, previous: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        """See `Store`; a watch is patient."""
        return self._inner.watch(prefix, start_revision, previous=previous)

    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        """See `Store`."""
        return await self._soon(self._inner.txn(compares, success, failure))

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        """See `Store`."""
        return await self._soon(self._inner.put(key, value, lease=lease))

    async def delete(self, key: str) -> bool:
        """See `Store`."""
        return await self._soon(self._inner.delete(key))

    async def grant_lease(self, ttl: float, *, alive: Callable[[], bool] | None = None) -> Lease:
        """See `Store`."""
        return await self._soon(self._inner.grant_lease(ttl, alive=alive))

    async def close(self) -> None:
        """Nothing: who opened the other store closes it."""

    async def _soon(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            await self._refuse_while_silent()
        except BaseException:
            call.close()  # it was never begun
            raise
        asking = asyncio.ensure_future(call)
        looks = 0
        try:
            while not (await asyncio.wait({asking}, timeout=LOOK_EVERY))[0]:
                looks = looks + 1 if self._silent else 0
                if looks == 2:
                    raise Unavailable(self._said(), maybe_applied=True)
            return asking.result()
        finally:
            asking.cancel()

    async def _refuse_while_silent(self) -> None:
        if self._silent:
            await asyncio.sleep(LOOK_EVERY)  # where the event loop was held up, its answer is only just coming in
        if self._silent:
            raise Unavailable(self._said())

    @property
    def _silent(self) -> bool:
        return self._unanswered() > SILENT_AFTER

    def _said(self) -> str:
        return f"etcd has not answered for {self._unanswered():.0f} s"


async def _next(pages: AsyncIterator[Page]) -> Page | None:
    """The next one; None at the end."""
    return await anext(pages, None)
