"""Follows etcd for the page: the informer and the read model, made anew when etcd was restored from a backup.

It also says whether etcd answers at all: a watch is silent both when nothing happens and when nobody is there.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

from wharfinger.errors import RevisionWentBack, StoreError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.formats import format_of
from wharfinger.scheduling.model.promises import UpstreamSide
from wharfinger.scheduling.page.prompt_store import PromptStore
from wharfinger.scheduling.page.read_model import ClusterModel
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.informer import Informer
from wharfinger.scheduling.state.informer.view import View
from wharfinger.telemetry import Metrics

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
        cache.upstream = UpstreamSide(only_copies=False)
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
        """Read a key that is not there, again and again: the smallest question."""
        while True:
            try:
                async with asyncio.timeout(SILENT_AFTER):
                    await self.patient.get(keys.OURS + "page")
                self._answered = self.clock()
            except (StoreError, TimeoutError) as error:
                log.debug("etcd_silent error=%r", str(error))
            await asyncio.sleep(ASK_EVERY)
