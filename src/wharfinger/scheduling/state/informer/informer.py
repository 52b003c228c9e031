"""The informer: one list and one watch over everything, told on in the order of etcd's revisions.

::

    list at R, page by page ──► differences, as one set of changes ──► watch from R+1 ──► a set a revision
         ▲                                                                 │
         └──────────────── compacted, or the watch was ended ◄─────────────┘

All changes of one revision go to the cache and to every subscriber that follows their kind in one synchronous block,
and only then does `state.cache.progress` move. The first list alone fills the cache page by page: no decision is made
before. Objects that cannot be read are reported and stop nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence

from wharfinger.errors import RevisionWentBack
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, Store, WatchBatch
from wharfinger.process.following import breathe, list_and_watch
from wharfinger.scheduling.state.informer.changes import Changes, PodChange, Subscriber
from wharfinger.scheduling.state.informer.decoding import ObservedKey, observe, printable
from wharfinger.scheduling.state.informer.view import View
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

STRETCH = 0.01
"""Seconds of taking things in before the loop may run something else: a revision may hold one heart-beat or hundreds
of pods."""


class Informer:
    """Follows etcd for a `View` and its subscribers until it is cancelled."""

    def __init__(
        self,
        store: Store,
        view: View,
        subscribers: Sequence[Subscriber],
        metrics: Metrics,
        *,
        rng: random.Random,
        page_size: int = 500,
        clock: Callable[[], float] = time.monotonic,
        passed_over: Callable[[str], None] | None = None,
    ) -> None:
        """`passed_over` is called with each key that changed and is of no kind that is followed."""
        self._passed_over = passed_over
        self._clock = clock
        self._store = store
        self._view = view
        self._progress = view.cache.progress
        self._subscribers = subscribers
        self._metrics = metrics
        self._rng = rng
        self._page_size = page_size
        self.synced = asyncio.Event()
        """Set once the first list was taken in."""
        self._began = 0.0
        """When this last let the loop run something else, while it watches."""
        self._first: Changes | None = Changes(0, listed=True)
        """What the first list has shown so far, of which no subscriber was told; None when they were."""

    async def run(self) -> None:
        """Follow until cancelled. Raises `RevisionWentBack`: what we know never was, as etcd has it."""
        await list_and_watch(self._store, keys.ROOT, lists=self._list, takes=self._take, rng=self._rng)

    async def _list(self, cause: str) -> int:
        seen: set[str] = set()
        found: list[ObservedKey] = []
        revision = 0
        began = self._clock()
        async for page in self._store.list(keys.ROOT, page_size=self._page_size):
            revision = page.revision
            listed: list[ObservedKey] = []
            for kv in page.items:
                seen.add(kv.key)
                if self._view.went_back(kv, revision):
                    key = printable(self._store.as_stored(kv.key))
                    raise RevisionWentBack(
                        f"etcd has lost what it had shown of {key}: it was restored from a backup; "
                        "start the workers anew"
                    )
                if self._view.unchanged(kv):
                    continue
                if (observed := self._observe(Event(kv))) is not None:
                    listed.append(observed)
                began = await breathe(began, self._clock, STRETCH)
            found += listed if self._first is None else self._take_early(listed, self._first)
            await asyncio.sleep(0)
        if revision < self._progress.revision:
            raise RevisionWentBack(
                f"etcd is at revision {revision} and was at {self._progress.revision}: it was restored from a backup; "
                "start the workers anew, and restore with --bump-revision and --mark-compacted"
            )
        found.sort(key=_appearance)
        found += filter(None, map(self._observe, self._view.vanished(seen, revision)))
        changes = self._first or Changes(revision, listed=True)
        changes.revision = revision
        self._metrics.relists.labels(cause).inc()
        log.info("listed keys=%d changed=%d revision=%d cause=%s", len(seen), len(found), revision, cause)
        self._apply(found, changes)
        self._first = None
        self.synced.set()
        self._began = self._clock()
        return self._progress.revision

    def _take_early(self, listed: list[ObservedKey], changes: Changes) -> list[ObservedKey]:
        """Take a page of the first list in at once, but for the nodes, which are answered.

        No decision is made before the first list is complete, so it need not be held twice, nor taken in at one stretch
        of seconds. A try that fails leaves what it found, and the changes to report, to the next one.
        """
        for observed in listed:
            if observed.prefix != keys.NODES:
                self._view.take(observed, changes)
        return [observed for observed in listed if observed.prefix == keys.NODES]

    async def _take(self, batch: WatchBatch) -> None:
        if batch.events:
            self._apply(filter(None, map(self._observe, batch.events)), Changes(batch.revision))
        else:
            self._progress.advance(batch.revision)
            self._metrics.watch_revision.set(self._progress.revision)
        self._began = await breathe(self._began, self._clock, STRETCH)

    def _observe(self, event: Event) -> ObservedKey | None:
        view = self._view
        observed = observe(event, view.own, view.cache.surroundings.priority_classes, view.format)
        if observed is None and self._passed_over is not None:
            self._passed_over(event.kv.key)
        return observed

    def _apply(self, observations: Iterable[ObservedKey], changes: Changes) -> None:
        for observed in observations:
            self._view.take(observed, changes)
        self._view.reclassify(changes)
        changes.surroundings = self._view.cache.surroundings
        if changes.listed:  # in the order of keys until now
            changes.pods.sort(key=_age)
        kinds = changes.kinds()
        for subscriber in self._subscribers:
            if subscriber.follows is not None and kinds.isdisjoint(subscriber.follows):
                continue
            try:
                subscriber.apply(changes)
            except Exception:  # a loop's mistake must not keep the others from the truth
                log.exception(
                    "subscriber_failed subscriber=%s revision=%d", type(subscriber).__name__, changes.revision
                )
        self._progress.advance(changes.revision)
        self._metrics.watch_revision.set(self._progress.revision)


def _appearance(observed: ObservedKey) -> int:
    """Nodes are to stand in the order in which they appeared: a sampling profile begins its search by it."""
    return observed.kv.create_revision


def _age(change: PodChange) -> int:
    """Pods that were waiting already are queued in the order in which they came."""
    pod = change.new or change.old
    return pod.create_revision if pod is not None else 0
