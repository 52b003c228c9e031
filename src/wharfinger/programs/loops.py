"""All loops of one worker, put together from those of the wings.

`SchedulingLoops` place pods, `KubernetesLoops` run beside them where a Kubernetes API is the store. Added here are the
worker's registration, its lifecycle and its dynamic configuration, and all of it runs until a signal or the grant ends
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from wharfinger.configuration.following import CohortKind, DynamicConfig
from wharfinger.configuration.last_good import LastGood, of_hand_started, of_instance
from wharfinger.configuration.trials import TrialTerms
from wharfinger.errors import RevisionWentBack
from wharfinger.kubernetes.loops.worker_loops import KubernetesLoops, KubernetesParts
from wharfinger.process.connecting import Reachability
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import ConfigStatusRecord
from wharfinger.process.running import unless_stopped
from wharfinger.programs.grants import OwnGrant, decode_grant, min_ready
from wharfinger.programs.lifecycle import Lifecycle
from wharfinger.programs.membership import Membership, place_of
from wharfinger.scheduling.loops.scheduling_loops import SchedulingLoops
from wharfinger.scheduling.loops.signals import TemporalSide
from wharfinger.scheduling.state.informer.decoding import OwnKey
from wharfinger.scheduling.state.pool import Pool
from wharfinger.settings import WorkerSettings

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
        kubernetes: KubernetesParts | None = None,
    ) -> None:
        """`grant`: the worker lives under it; None = it was started by hand. `kubernetes`: has the
        loops that a Kubernetes API needs, where one is the store.
        """
        store, clock, polling = process.store, process.clock, temporal.polling
        self._profiles = pool.profiles
        self._metrics = process.metrics
        self._grant = grant
        self.scheduling = scheduling = SchedulingLoops(
            settings,
            process,
            pool,
            temporal,
            own=OwnKey(grant.key, decode_grant) if grant is not None else None,
        )
        if grant is not None:
            grant.follow(lambda: scheduling.view.grant)
        self.kubernetes: KubernetesLoops | None = None
        if kubernetes is not None:
            self.kubernetes = kubernetes.loops(pool, scheduling.shards, scheduling.dispatcher.kick)
            scheduling.dispatcher.pause_while(self.kubernetes.paused)
        self.membership = Membership(
            process,
            place_of(settings, health_url, pool.profiles),
            settings.lease,
            changed=self._changed,
            grant=grant,
        )
        self.reachability = Reachability(
            temporal.probe, patience=settings.lease.temporal_unreachable, clock=clock, changed=self._changed
        )
        self.lifecycle = Lifecycle(
            synced=lambda: scheduling.informer.synced.is_set() and self.dynamic.taken_in,
            membership=self.membership,
            reachability=self.reachability,
            polling=polling,
            share_out=scheduling.share_out,
            clock=clock,
            settle=lambda: grant.settle if grant is not None else 0.0,
            warm=pool.cache.snapshot,
        )
        self.dynamic = DynamicConfig(
            TrialTerms(
                _remembered(settings),
                process.metrics,
                clock,
                ready=lambda: self.lifecycle.on,
                proven_after=lambda: min_ready(store, settings.tenant, settings.min_ready),
            ),
            tenant=settings.tenant,
            slot=str(settings.grant.slot) if settings.grant is not None else "",
            report=self._describe,
            begun=self._changed,
        )
        """The composition root adds further kinds."""
        self._describe(ConfigStatusRecord())
        self.dynamic.follow(CohortKind(settings.dispatching, dispatch=scheduling.dispatcher.configure))
        polling.on_failure(self.lifecycle.polling_failed)
        subscribers = (grant, self.kubernetes, self.lifecycle)
        scheduling.subscribe([one for one in subscribers if one is not None], [self.dynamic])

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on: name -> `ok`, or why not."""
        return {**self.lifecycle.checks(), **(self.kubernetes.checks() if self.kubernetes is not None else {})}

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date."""
        self.scheduling.gauges.refresh(ready=self.lifecycle.on)
        if self.kubernetes is not None:
            self.kubernetes.refresh(self._metrics)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set or the grant says so, then drain; where the grant is gone, stop at once.

        Raises what ends a worker (`RevisionWentBack`, ...).
        """
        running = (
            *self.scheduling.all,
            self.membership,
            self.reachability,
            self.lifecycle,
            self.dynamic,
            *(self.kubernetes.all if self.kubernetes is not None else ()),
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
        self.scheduling.signals.stop()
        await self._leave()

    async def _drain(self) -> bool:
        """Take no more work, finish activities (the informer still runs for them), give the lease back; then True."""
        log.info("draining in_flight=%d", len(self.scheduling.queue.in_flight))
        await self.lifecycle.drain()
        self.scheduling.signals.stop()
        await self._leave()
        log.info("drained")
        return True

    async def _leave(self) -> None:
        try:
            await self.membership.leave()
        except Exception as error:  # the lease runs out by itself; the process must end all the same
            log.warning("lease_not_revoked effect=expires error=%r", str(error))

    def _changed(self) -> None:
        self.lifecycle.changed()

    def _describe(self, configured: ConfigStatusRecord) -> None:
        """What etcd is told of the configuration, with what decides now."""
        digests = {name: profile.digest for name, profile in sorted(self._profiles.items())}
        self.membership.describe(configured.model_copy(update={"profiles": digests}))


def _remembered(settings: WorkerSettings) -> LastGood:
    """Where the worker remembers its dynamic configuration."""
    if settings.grant is None:
        return of_hand_started(settings.state_dir) if settings.state_dir is not None else LastGood()
    lock = settings.grant.lock
    return of_instance(lock, settings.grant.incarnation) if lock is not None else LastGood()
