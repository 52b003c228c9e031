"""All loops of one worker, put together; what they need of Temporal is passed in.

The order in which changes are handed on matters: whose a pod is (`Duty`), then the queue (`Intake`),
then who reads the queue (`Waker`), then who cleans up (`Closer`).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
import socket
from collections.abc import Callable, Mapping

from wharfinger.cache.cache import Cache
from wharfinger.contracts.names import TENANT_LABEL
from wharfinger.control.chain_ends import ChainEnds
from wharfinger.control.changes import Subscriber
from wharfinger.control.closer import Closer
from wharfinger.control.completing import Completing
from wharfinger.control.dispatcher import Dispatcher
from wharfinger.control.duty import Duty, Pollable
from wharfinger.control.gangs import Gangs
from wharfinger.control.gauges import Gauges
from wharfinger.control.informer import Informer
from wharfinger.control.intake import Intake
from wharfinger.control.membership import Membership, Place
from wharfinger.control.queueing import alone_by, gate_by, order_by
from wharfinger.control.reachability import Probe, Reachability
from wharfinger.control.shards import Shards
from wharfinger.control.signals import Attempts
from wharfinger.control.upkeep import Upkeep
from wharfinger.control.view import View
from wharfinger.control.wake_signals import WakeSignals
from wharfinger.control.waker import Waker
from wharfinger.framework.profile import Profile
from wharfinger.framework.territory import Territory
from wharfinger.model.ownership import Ownership
from wharfinger.queue.entry import Entry, Part
from wharfinger.queue.scheduling_queue import SchedulingQueue
from wharfinger.registry.store import Store
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

SHARDED = "sharded"


class Loops:
    """Follows etcd, shares pods out, starts and wakes attempts, until told to stop."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        store: Store,
        cache: Cache,
        profiles: Mapping[str, Profile],
        ownership: Ownership,
        attempts: Attempts,
        polling: Pollable,
        probe: Probe,
        metrics: Metrics,
        clock: Callable[[], float],
        chance: random.Random,
        health_url: str = "",
        completing: Completing | None = None,
        territory: Territory | None = None,
    ) -> None:
        """`probe` asks Temporal anything; `clock`: monotonic seconds; `chance`: spreads retries.

        `completing` is told elsewhere when runs end; without it they count until their pod is bound. `territory` is
        asked elsewhere which nodes are this worker's own; here it is told who shares them.
        """
        dispatching = settings.dispatching
        self.cache = cache
        self.metrics = metrics
        self._incoming = functools.cache(metrics.queue_incoming.labels)
        self.shards = Shards(hold=dispatching.hold, clock=clock)
        self.territory = territory if territory is not None else Territory()
        self.view = View(cache, metrics)
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
            spread=chance.random,
            entered=self._entered,
        )
        self.dispatcher = Dispatcher(
            self.queue,
            attempts,
            dispatching,
            metrics,
            tenant_label=TENANT_LABEL,
            clock=clock,
            chance=chance,
            completing=lambda: len(completing) if completing is not None else 0,
            seen=lambda: cache.progress.revision,
        )
        kick = self.dispatcher.kick
        if completing is not None:
            completing.on_end(kick)
        self.signals = WakeSignals(
            attempts, self.queue, workflow_id=attempts.workflow_id, kick=kick, clock=clock, chance=chance
        )
        self.waker = Waker(
            queue=self.queue,
            cache=cache,
            profiles=profiles,
            signals=self.signals,
            metrics=metrics,
            clock=clock,
            kick=kick,
            many=dispatching.cohort_from if dispatching.cohorts else None,
            sweep_every=dispatching.restart_every,
        )
        self.chain_ends = ChainEnds(attempts, busy=lambda: self.dispatcher.busy, clock=clock, chance=chance)
        self.closer = Closer(
            store, attempts, self.view, ends=self.chain_ends, workflow_id=attempts.workflow_id, chance=chance
        )
        self.intake = Intake(
            queue=self.queue,
            cache=cache,
            records=self.view.records,
            ownership=ownership,
            shards=self.shards,
            ending=self.closer,
            metrics=metrics,
            clock=clock,
            kick=kick,
            gangs=self.gangs,
            bound=lambda pod: completing.bound(attempts.workflow_id(pod)) if completing is not None else None,
        )
        subscribers: list[Subscriber] = []
        self.informer = Informer(store, self.view, subscribers, metrics, chance=chance)
        self.membership = Membership(
            store,
            _place(settings, health_url),
            settings.lease,
            clock=clock,
            chance=chance,
            changed=self._changed,
        )
        self.reachability = Reachability(
            probe, patience=settings.lease.temporal_unreachable, clock=clock, changed=self._changed
        )
        self.duty = Duty(
            tenant=settings.tenant,
            informer=self.informer,
            membership=self.membership,
            reachability=self.reachability,
            polling=polling,
            shards=self.shards,
            territory=self.territory,
            serve=self.dispatcher.serve,
            roll=self.intake,
        )
        polling.on_failure(self.duty.polling_failed)
        subscribers += [self.duty, self.intake, self.waker, self.closer]
        self._upkeep = Upkeep(cache, metrics)
        self._gauges = Gauges(metrics, self.queue, cache, self.shards)

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on: name -> `ok`, or why not."""
        return self.duty.checks()

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date."""
        self._gauges.refresh(ready=self.duty.on)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then drain. Raises what ends a worker (`RevisionWentBack`, ...)."""
        running = (
            self.informer,
            self.membership,
            self.reachability,
            self.duty,
            self.dispatcher,
            self.waker,
            self.closer,
            self.chain_ends,
            self._upkeep,
        )
        loops = {asyncio.create_task(loop.run(), name=type(loop).__name__) for loop in running}
        stopped = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({*loops, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                log.error("loop ended loop=%s", task.get_name())
                task.result()
        finally:
            stopped.cancel()
            await self._drain()
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _drain(self) -> None:
        """Take no more work, finish activities (the informer still runs for them), give the lease back."""
        log.info("draining in_flight=%d", len(self.queue.in_flight))
        await self.duty.drain()
        self.signals.stop()
        try:
            await self.membership.leave()
        except Exception as error:  # the lease runs out by itself; the process must end all the same
            log.warning("the lease was not given back and runs out error=%r", str(error))
        log.info("drained")

    def _changed(self) -> None:
        self.duty.changed()

    def _entered(self, entry: Entry, cause: str) -> None:
        self._incoming(entry.part.value, cause).inc()
        if entry.part is Part.WAITING:
            self.waker.arrived(entry)


def _place(settings: WorkerSettings, health_url: str) -> Place:
    return Place(
        tenant=settings.tenant,
        slot=settings.slot,
        host=socket.gethostname(),
        pid=os.getpid(),
        health=health_url,
        dispatches=settings.dispatch == SHARDED,
    )
