"""Puts the loops together by which a worker places pods; what they use of Temporal is passed in.

The order in which changes are passed on matters: which workers are ready, whose a pod is (`Lifecycle` of
`programs`), then the queue
(`PodEventHandler`), then what reads the queue (`Waker`), then what cleans up (`Closer`). Upkeep of the cache runs
beside them: assumptions expire, and other writers' over-commitment is counted.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from wharfinger.objects.documents.formats import format_of
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.effects.open_runs import TASK_TIMEOUT
from wharfinger.scheduling.loops.closer import ChainEnds, Closer
from wharfinger.scheduling.loops.dispatcher import Dispatcher
from wharfinger.scheduling.loops.gauges import Gauges, UnservedPods
from wharfinger.scheduling.loops.node_evictions import Caretakers, NodeEvictionStarter
from wharfinger.scheduling.loops.pod_events import PodEventHandler
from wharfinger.scheduling.loops.queueing import Gangs, alone_by, gate_by, order_by, shares_by
from wharfinger.scheduling.loops.shards import Instances, Shards, ShareOut
from wharfinger.scheduling.loops.signals import TemporalSide, WakeSignals
from wharfinger.scheduling.loops.waker import Waker
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import KINDS, Subscriber
from wharfinger.scheduling.state.informer.decoding import OwnKey
from wharfinger.scheduling.state.informer.informer import Informer
from wharfinger.scheduling.state.informer.view import View
from wharfinger.scheduling.state.pool import Pool
from wharfinger.scheduling.state.queue.active_queue import Window
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.scheduling.state.queue.turns import one_share
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

UPKEEP_EVERY = 1.0
"""Seconds between two looks at the cache."""


class Loop(Protocol):
    """What runs as long as the worker does."""

    async def run(self) -> None:
        """Run until cancelled."""


class SchedulingLoops:
    """Follows etcd, shares pods out, starts and wakes attempts, and starts the workflows that clear nodes."""

    def __init__(
        self,
        settings: WorkerSettings,
        process: ProcessParts,
        pool: Pool,
        temporal: TemporalSide,
        *,
        own: OwnKey | None,
    ) -> None:
        """`own`: one more key that the watch decodes."""
        dispatching, attempts = settings.dispatching, temporal.attempts
        store, metrics, clock = process.store, process.metrics, process.clock
        self.cache = cache = pool.cache
        self.shards = Shards(hold=dispatching.hold, clock=clock)
        self.view = View(cache, metrics, own=own, format_=format_of(store.format), as_stored=store.as_stored)
        gate = gate_by(pool.profiles)
        self.gangs = Gangs(cache, pool.ownership, gate=gate)
        rules = QueueRules(
            gate,
            order_by(pool.profiles),
            alone_by(pool.profiles),
            self.gangs.placed_with,
            attempts.seconds_after,
            shares_by(pool.profiles) if dispatching.take_turns else one_share,
        )
        self.queue = SchedulingQueue(
            rules,
            dispatching,
            clock=clock,
            spread=process.rng.random,
            window=Window(
                dispatching.cohort_most, dispatching.cohorts_in_flight, task_timeout=TASK_TIMEOUT.total_seconds()
            ),
            incoming=functools.cache(metrics.queue_incoming.labels),
        )
        self.dispatcher = Dispatcher(process, pool, self.queue, attempts, dispatching)
        kick = self.dispatcher.kick
        temporal.run_ends.on_failure(self.dispatcher.run_failed)
        self.signals = WakeSignals(process, attempts, self.queue, kick=kick)
        self.waker = Waker(
            process,
            pool,
            self.queue,
            signals=self.signals,
            groups=self.dispatcher,
            sweep_every=dispatching.restart_every,
        )
        self.chain_ends = ChainEnds(process, attempts, busy=lambda: self.dispatcher.busy)
        self.closer = Closer(process, attempts, self.view, ends=self.chain_ends)
        self.pod_events = PodEventHandler(
            process, pool, self.queue, gangs=self.gangs, shards=self.shards, ending=self.closer, kick=kick
        )
        cache.unanswered.on_answer(self.pod_events.answered)
        self._instances = instances = Instances()
        self.share_out = ShareOut(
            pool, self.shards, instances, serve=self.dispatcher.serve, resharded=self.pod_events.resharded
        )
        self._subscribers: list[Subscriber] = []
        self.informer = Informer(store, self.view, self._subscribers, metrics, rng=process.rng, clock=clock)
        caretakers = Caretakers(instances, self.shards)
        self.node_evictions = NodeEvictionStarter(
            settings.node_evictions, self.view, caretakers, temporal.nodes, clock=clock
        )
        self._upkeep = Upkeep(cache, metrics)
        unserved = UnservedPods(self.pod_events.foreign, pool, instances, self.shards)
        lost = self.node_evictions.lost
        self.gauges = Gauges(metrics, self.queue, cache, self.shards, unserved=unserved, lost=lost)

    def subscribe(self, before: Iterable[Subscriber], after: Iterable[Subscriber]) -> None:
        """Pass each revision's changes to `before`, to these loops, then to `after`; first to the registrations."""
        own = (self.pod_events, self.waker, self.closer, self.node_evictions)
        self._subscribers[:] = [self._instances, *before, *own, *after]
        for one in self._subscribers:
            if unknown := set(one.follows or ()).difference(KINDS):  # it would never be told of these
                raise ValueError(f"{type(one).__name__} follows {unknown}, which no change has")

    @property
    def all(self) -> Sequence[Loop]:
        """What the worker has to run."""
        return (
            self.informer,
            self.dispatcher,
            self.waker,
            self.closer,
            self.chain_ends,
            self._upkeep,
            self.node_evictions,
        )

    def reconfigured(self, gates: bool) -> None:
        """Plugins have other arguments: look at every waiting pod again, and at every other one where gates do."""
        if gates:
            self.pod_events.reconfigured()
        self.waker.reconfigured()


class Upkeep:
    """A timer over the cache."""

    def __init__(self, cache: Cache, metrics: Metrics) -> None:
        self._cache = cache
        self._metrics = metrics
        self._revision = 0
        self._over: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(UPKEEP_EVERY)
            try:
                self.look()
            except Exception:  # one failing look must not end the timer
                log.exception("upkeep_failed")

    def look(self) -> None:
        """One look."""
        for assumption in self._cache.expire():
            log.info("assumption_expired pod=%s/%s node=%s", *assumption.identity[:2], assumption.node)
        if self._cache.progress.revision == self._revision:
            return
        self._revision = self._cache.progress.revision
        over = frozenset(self._cache.over_committed())
        for node in over - self._over:
            self._metrics.foreign_overcommit.inc()
            log.warning("node_overcommitted reason=other_writer node=%s", node)
        self._over = over
