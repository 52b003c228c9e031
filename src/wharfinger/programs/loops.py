"""All loops of one worker, put together; what they use of Temporal is passed in.

The order in which changes are handed on matters: whose a pod is (`Lifecycle`), then the queue (`PodEventHandler`),
then who reads the queue (`Waker`), then who cleans up (`Closer`). Upkeep of the cache runs beside them: assumptions
expire, and other writers' over-commitment is counted.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Mapping

from wharfinger.configuration.following import DynamicConfig
from wharfinger.configuration.kinds import CohortKind
from wharfinger.configuration.last_good import Forgetful, LastGood, of_hand_started, of_instance
from wharfinger.errors import RevisionWentBack
from wharfinger.kubernetes.loops.worker_loops import MakeKubernetesLoops
from wharfinger.objects.documents.formats import format_of
from wharfinger.process.connecting import Reachability
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import ConfigStatusRecord
from wharfinger.process.running import unless_stopped
from wharfinger.programs.gauges import Gauges, UnservedPods
from wharfinger.programs.grants import OwnGrant, decode_grant, min_ready
from wharfinger.programs.lifecycle import Lifecycle
from wharfinger.programs.membership import Membership, place_of
from wharfinger.scheduling.effects.starts import TASK_TIMEOUT
from wharfinger.scheduling.loops.closer import ChainEnds, Closer
from wharfinger.scheduling.loops.dispatcher import Dispatcher
from wharfinger.scheduling.loops.node_evictions import Caretakers, LostPods, NodeEvictionStarter
from wharfinger.scheduling.loops.pod_events import PodEventHandler
from wharfinger.scheduling.loops.queueing import Gangs, alone_by, gate_by, order_by
from wharfinger.scheduling.loops.shards import Instances, Shards, ShareOut
from wharfinger.scheduling.loops.signals import TemporalSide
from wharfinger.scheduling.loops.wake_signals import WakeSignals
from wharfinger.scheduling.loops.waker import Waker
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Subscriber
from wharfinger.scheduling.state.informer.decoding import OwnKey
from wharfinger.scheduling.state.informer.informer import Informer
from wharfinger.scheduling.state.informer.view import View
from wharfinger.scheduling.state.pool import Pool
from wharfinger.scheduling.state.queue.active_queue import Window
from wharfinger.scheduling.state.queue.entry import Entry, Part
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)


class Loops:
    """Follows etcd, shares pods out, starts and wakes attempts, until told to stop."""

    def __init__(
        self,
        settings: WorkerSettings,
        process: ProcessParts,
        pool: Pool,
        temporal: TemporalSide,
        *,
        health_url: str = "",
        grant: OwnGrant | None = None,
        upstream: MakeKubernetesLoops | None = None,
    ) -> None:
        """`grant`: the worker lives under it; None = it was started by hand. `upstream`: makes the loops that a
        Kubernetes API needs, where one is the store.
        """
        dispatching, attempts, polling = settings.dispatching, temporal.attempts, temporal.polling
        store, metrics, clock, rng = process.store, process.metrics, process.clock, process.rng
        cache, profiles, ownership = pool.cache, pool.profiles, pool.ownership
        self.cache = cache
        self._profiles = profiles
        self._metrics = metrics
        self._incoming = functools.cache(metrics.queue_incoming.labels)
        self.shards = Shards(hold=dispatching.hold, clock=clock)
        self._grant = grant
        own = OwnKey(grant.key, decode_grant) if grant is not None else None
        self.view = View(cache, metrics, own=own, format_=format_of(store.format), as_stored=store.as_stored)
        if grant is not None:
            grant.follow(lambda: self.view.grant)
        gate = gate_by(profiles)
        self.gangs = Gangs(cache, ownership, gate=gate)
        self.queue = SchedulingQueue(
            clock=clock,
            gate=gate,
            gang=self.gangs.placed_with,
            order=order_by(profiles),
            alone=alone_by(profiles),
            confirm_after=dispatching.confirm_after,
            restart_every=dispatching.restart_every,
            spread=rng.random,
            backoff=attempts.seconds_after,
            window=Window(
                dispatching.cohort_most, dispatching.cohorts_in_flight, task_timeout=TASK_TIMEOUT.total_seconds()
            ),
            entered=self._entered,
        )
        self.dispatcher = Dispatcher(
            process,
            self.queue,
            attempts,
            dispatching,
            tenant_label=settings.tenant_label,
            seen=lambda: cache.progress.revision,
            paused=lambda: self.upstream is not None and self.upstream.paused,
        )
        kick = self.dispatcher.kick
        self.upstream = upstream(self.shards, self.view.records, kick) if upstream is not None else None
        temporal.run_ends.on_failure(self.dispatcher.run_failed)
        self.signals = WakeSignals(
            attempts, self.queue, workflow_id=attempts.workflow_id, kick=kick, clock=clock, rng=rng
        )
        self.waker = Waker(
            process,
            pool,
            self.queue,
            signals=self.signals,
            groups=self.dispatcher,
            sweep_every=dispatching.restart_every,
        )
        self.chain_ends = ChainEnds(attempts, busy=lambda: self.dispatcher.busy, clock=clock, rng=rng)
        self.closer = Closer(store, attempts, self.view, ends=self.chain_ends, rng=rng)
        self.pod_events = PodEventHandler(
            process,
            pool,
            self.queue,
            gangs=self.gangs,
            shards=self.shards,
            records=self.view.records,
            ending=self.closer,
            kick=kick,
        )
        cache.unanswered.on_answer(self.pod_events.answered)
        subscribers: list[Subscriber] = []
        self.informer = Informer(store, self.view, subscribers, metrics, rng=rng, clock=clock)
        self.membership = Membership(
            store,
            place_of(settings, health_url, profiles),
            settings.lease,
            clock=clock,
            rng=rng,
            changed=self._changed,
            grant=grant,
        )
        self.reachability = Reachability(
            temporal.probe, patience=settings.lease.temporal_unreachable, clock=clock, changed=self._changed
        )
        self.lifecycle = Lifecycle(
            informer=self.informer,
            membership=self.membership,
            reachability=self.reachability,
            polling=polling,
            share_out=ShareOut(pool, self.shards, serve=self.dispatcher.serve, resharded=self.pod_events.resharded),
            clock=clock,
            settle=lambda: grant.settle if grant is not None else 0.0,
            configured=lambda: self.dynamic.taken_in,
            warm=cache.snapshot,
        )
        self.dynamic = DynamicConfig(
            tenant=settings.tenant,
            slot=str(settings.grant.slot) if settings.grant is not None else "",
            metrics=metrics,
            clock=clock,
            ready=lambda: self.lifecycle.on,
            report=self._describe,
            begun=self._changed,
            remembered=_remembered(settings),
            proven_after=lambda: min_ready(store, settings.tenant, settings.min_ready),
        )
        """The composition root adds further kinds."""
        self._describe(ConfigStatusRecord())
        self.dynamic.follow(CohortKind(dispatching, dispatch=self.dispatcher.configure))
        polling.on_failure(self.lifecycle.polling_failed)
        subscribers += [
            *([grant] if grant is not None else []),
            *([self.upstream] if self.upstream is not None else []),
            self.lifecycle,
            self.pod_events,
            self.waker,
            self.closer,
        ]
        instances = Instances()
        unserved = UnservedPods(cache=cache, instances=instances, ownership=ownership, shards=self.shards)
        caretakers = Caretakers(instances, lambda: self.shards.me)
        lost = LostPods(self.view, caretakers)
        self.node_evictions = NodeEvictionStarter(
            settings.node_evictions,
            view=self.view,
            lost=lost,
            caretakers=caretakers,
            starter=temporal.nodes,
            clock=clock,
        )
        subscribers += [self.dynamic, instances, unserved, self.node_evictions]
        self._upkeep = Upkeep(cache, metrics)
        self._gauges = Gauges(metrics, self.queue, cache, self.shards, unserved=unserved, lost=lost)

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on: name -> `ok`, or why not."""
        return {**self.lifecycle.checks(), **(self.upstream.checks() if self.upstream is not None else {})}

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date."""
        self._gauges.refresh(ready=self.lifecycle.on)
        if self.upstream is not None:
            self.upstream.refresh(self._metrics)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set or the grant says so, then drain; where the grant is gone, stop at once.

        Raises what ends a worker (`RevisionWentBack`, ...).
        """
        running = (
            self.informer,
            self.membership,
            self.reachability,
            self.lifecycle,
            self.dispatcher,
            self.waker,
            self.closer,
            self.chain_ends,
            self._upkeep,
            self.dynamic,
            self.node_evictions,
            *(self.upstream.all if self.upstream is not None else ()),
        )
        loops = {asyncio.create_task(loop.run(), name=type(loop).__name__) for loop in running}
        ended = self._grant.ended if self._grant is not None else stop
        told = {asyncio.create_task(event.wait()) for event in (stop, ended)}
        try:
            done, _ = await asyncio.wait({*loops, *told}, return_when=asyncio.FIRST_COMPLETED)
            ended_by_itself = done - told
            for task in ended_by_itself:
                log.error("loop_ended loop=%s error=%r", task.get_name(), task.exception())
            if all(isinstance(task.exception(), RevisionWentBack) for task in ended_by_itself):
                await self.dynamic.close()  # as it was told, or for a reason that no value is to blame for
            for task in ended_by_itself:
                task.result()
        finally:
            for waiting in told:
                waiting.cancel()
            await self._end()
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _end(self) -> None:
        """Drain, as long as the grant is there."""
        gone = self._grant.gone if self._grant is not None else asyncio.Event()
        if not gone.is_set() and await unless_stopped(gone, self._drain()):
            return
        await self.lifecycle.cease()
        self.signals.stop()
        await self._leave()

    async def _drain(self) -> bool:
        """Take no more work, finish activities (the informer still runs for them), give the lease back; then True."""
        log.info("draining in_flight=%d", len(self.queue.in_flight))
        await self.lifecycle.drain()
        self.signals.stop()
        await self._leave()
        log.info("drained")
        return True

    async def _leave(self) -> None:
        try:
            await self.membership.leave()
        except Exception as error:  # the lease runs out by itself; the process must end all the same
            log.warning("lease_not_revoked effect=expires error=%r", str(error))

    def reconfigured(self, gates: bool) -> None:
        """Plugins have other arguments: look at every waiting pod again, and at every other one where gates do."""
        if gates:
            self.pod_events.reconfigured()
        self.waker.reconfigured()

    def _changed(self) -> None:
        self.lifecycle.changed()

    def _describe(self, configured: ConfigStatusRecord) -> None:
        """What etcd is told of the configuration, with what decides now."""
        digests = {name: profile.digest for name, profile in sorted(self._profiles.items())}
        self.membership.describe(configured.model_copy(update={"profiles": digests}))

    def _entered(self, entry: Entry, cause: str) -> None:
        self._incoming(entry.part.value, cause).inc()
        if entry.part is Part.WAITING:
            self.waker.arrived(entry)


def _remembered(settings: WorkerSettings) -> LastGood:
    """Where the worker remembers its dynamic configuration."""
    if settings.grant is None:
        return of_hand_started(settings.state_dir) if settings.state_dir is not None else Forgetful()
    lock = settings.grant.lock
    return of_instance(lock, settings.grant.incarnation) if lock is not None else Forgetful()


EVERY = 1.0
"""Seconds between two looks."""


class Upkeep:
    """A timer over the cache."""

    def __init__(self, cache: Cache, metrics: Metrics, *, every: float = EVERY) -> None:
        """`every`: seconds."""
        self._cache = cache
        self._metrics = metrics
        self._every = every
        self._revision = 0
        self._over: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
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
