"""Follows etcd for the page: the informer and the read model, made anew when etcd was restored from a backup.

It also reports whether etcd answers at all: a watch is silent both when nothing happens and when etcd is away.
While etcd is silent, reads and writes of `PromptStore` fail at once. The deadline of a call, ten seconds and more, is
right for a worker and too long for a viewer. The informer keeps the store with that deadline.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, TypeVar

from wharfinger.errors import RevisionWentBack, StoreError, Unavailable
from wharfinger.etcd.store import Condition, Lease, Operation, Page, Read, Store, TxnResult, WatchBatch
from wharfinger.objects.documents.formats import format_of
from wharfinger.scheduling.model.promises import KubernetesSide
from wharfinger.scheduling.page.read_model import ClusterModel
from wharfinger.scheduling.reading.pods_and_nodes import answers
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.informer import Informer
from wharfinger.scheduling.state.informer.view import View
from wharfinger.telemetry import Metrics

T = TypeVar("T")

CALL_SILENT_AFTER = 2.0
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
        return self._unanswered() > CALL_SILENT_AFTER

    def _said(self) -> str:
        return f"etcd has not answered for {self._unanswered():.0f} s"


async def _next(pages: AsyncIterator[Page]) -> Page | None:
    """The next one; None at the end."""
    return await anext(pages, None)


log = logging.getLogger(__name__)

ASK_EVERY = 1.0
"""Seconds between two questions whether etcd answers."""
SILENT_AFTER = 3.0
"""Seconds without an answer after which etcd counts as away."""


class Following:
    """What the page knows of the cluster, and whether that is current."""

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        *,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
        utc_now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`clock`: monotonic seconds."""
        self.patient = store
        """For what goes on by itself."""
        self.store: Store = PromptStore(store, lambda: self.clock() - self._answered)
        """For those who wait for an answer: it fails at once while etcd is silent."""
        self.metrics = metrics
        self.clock = clock
        self.utc_now = utc_now
        self._rng = rng
        self.restarts = 0
        """How often everything was read anew because etcd had been restored."""
        self._answered = clock()
        self._watched: set[str] = set()
        self.marks: dict[str, tuple[str, ...]] = {}
        """What changes with the keys below some prefixes, of which no pod is made: each view adds its own."""
        self.in_step = asyncio.Event()
        """Set while a whole list was taken in."""
        self._begin()

    def _begin(self) -> None:
        cache = Cache(clock=self.clock)
        cache.kubernetes = KubernetesSide(only_copies=False)
        self.view = View(cache, self.metrics, format_=format_of(self.store.format), as_stored=self.store.as_stored)
        self.model = ClusterModel(cache, self.view, clock=self.clock, utc_now=self.utc_now, marks=self.marks)
        self.model.watched = self._watched
        self._informer = Informer(
            self.patient,
            self.view,
            (self.model,),
            self.metrics,
            rng=self._rng,
            clock=self.clock,
            passed_over=self.model.passed_over,
        )

    @property
    def cache(self) -> Cache:
        """The facts."""
        return self.view.cache

    @property
    def revision(self) -> int:
        """The newest that was taken in."""
        return self.cache.progress.revision

    @property
    def silent_seconds(self) -> float:
        """How long etcd has not answered; 0 while it does."""
        silent = self.clock() - self._answered
        return silent if silent > SILENT_AFTER else 0.0

    def watch_for(self, marks: set[str]) -> None:
        """Which changes somebody wants to be told; see `ClusterModel.touched`."""
        self._watched = marks
        self.model.watched = marks

    def take_touched(self) -> set[str]:
        """What changed since the last call, of what is watched."""
        return self.model.take_touched()

    async def run(self) -> None:
        """Follow until cancelled."""
        asking = asyncio.create_task(self._ask(), name="page asks etcd")
        try:
            while True:
                await self._follow()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _follow(self) -> None:
        noting = asyncio.create_task(self._note_step())
        try:
            await self._informer.run()
        except RevisionWentBack as error:
            log.error("etcd_revision_went_back effect=read_anew error=%r", str(error))
            self.restarts += 1
            self.in_step.clear()
            self._begin()
        finally:
            noting.cancel()
            await asyncio.gather(noting, return_exceptions=True)

    async def _note_step(self) -> None:
        await self._informer.synced.wait()
        self.in_step.set()

    async def _ask(self) -> None:
        """Ask etcd the smallest question, again and again."""
        while True:
            try:
                async with asyncio.timeout(SILENT_AFTER):
                    await answers(self.patient)
                self._answered = self.clock()
            except (StoreError, TimeoutError) as error:
                log.debug("etcd_silent error=%r", str(error))
            await asyncio.sleep(ASK_EVERY)
