"""The worker process: puts everything together, and holds no policy.

`Worker` is one worker on a given store and Temporal client; `run_worker` is the process around it:
connections, health endpoints, signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from temporalio.client import Client

from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.cache.cache import Cache
from wharfinger.contracts.names import TENANT_LABEL, check_cluster, check_tenant, task_queue
from wharfinger.control.attempts import TemporalAttempts
from wharfinger.control.changes import Subscriber
from wharfinger.control.closer import Closer
from wharfinger.control.connecting import connect_etcd, connect_temporal, sdk_metrics, temporal_configuration
from wharfinger.control.dispatcher import Dispatcher
from wharfinger.control.duty import Duty
from wharfinger.control.gauges import Gauges
from wharfinger.control.informer import Informer
from wharfinger.control.installation import prepare
from wharfinger.control.intake import Intake
from wharfinger.control.membership import Membership, Place
from wharfinger.control.polling import Polling, worker_factory
from wharfinger.control.queueing import gate_by, order_by
from wharfinger.control.reachability import Reachability
from wharfinger.control.shards import Shards
from wharfinger.control.stopping import stop_on_signals, unless_stopped
from wharfinger.control.upkeep import Upkeep
from wharfinger.control.view import View
from wharfinger.control.wake_signals import WakeSignals
from wharfinger.control.waker import Waker
from wharfinger.framework.profile import Profile
from wharfinger.model.ownership import Ownership
from wharfinger.observe.health import HealthServer
from wharfinger.profiles import load_profiles
from wharfinger.queue.entry import Entry, Part
from wharfinger.queue.scheduling_queue import SchedulingQueue
from wharfinger.registry.store import Store
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics
from wharfinger.workflows.schedule_attempt import ScheduleAttempt

log = logging.getLogger(__name__)


def utc_now() -> datetime:
    """The time of day, for records and conditions."""
    return datetime.now(UTC)


class Worker:
    """One worker, on a store and a client that somebody else opened and closes."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        store: Store,
        client: Client,
        profiles: Mapping[str, Profile] | None = None,
        metrics: Metrics | None = None,
        health_url: str = "",
        clock: Callable[[], float] = time.monotonic,
        utc_now: Callable[[], datetime] = utc_now,
        chance: random.Random | None = None,
    ) -> None:
        """`clock`: monotonic seconds; `chance`: spreads retries."""
        self._settings = settings
        self._store = store
        self._client = client
        self._chance = chance = chance if chance is not None else random.Random()  # noqa: S311 - no secret
        self._profiles = profiles = profiles if profiles is not None else load_profiles()
        self.metrics = metrics = metrics if metrics is not None else Metrics()
        ownership = Ownership(frozenset(profiles), check_tenant(settings.tenant), TENANT_LABEL)
        identity = f"{os.getpid()}@{socket.gethostname()}"

        # what is known
        self.cache = Cache(clock=clock, assume_expiry=settings.binding.assume_expiry)
        view = View(self.cache, metrics)
        shards = Shards(hold=settings.dispatching.hold, clock=clock)
        self.queue = SchedulingQueue(
            clock=clock,
            gate=gate_by(profiles),
            order=order_by(profiles),
            confirm_after=settings.dispatching.confirm_after,
            restart_every=settings.dispatching.restart_every,
            spread=chance.random,
            entered=self._entered,
        )

        # who acts on it
        attempts = TemporalAttempts(client, cluster=check_cluster(settings.cluster), tenant=settings.tenant)
        self._dispatcher = Dispatcher(
            self.queue,
            attempts,
            settings.dispatching,
            metrics,
            tenant_label=TENANT_LABEL,
            clock=clock,
            chance=chance,
        )
        kick = self._dispatcher.kick
        self._signals = WakeSignals(attempts, self.queue, workflow_id=attempts.workflow_id, kick=kick, chance=chance)
        self._waker = Waker(
            queue=self.queue,
            cache=self.cache,
            profiles=profiles,
            signals=self._signals,
            metrics=metrics,
            clock=clock,
            sweep_every=settings.dispatching.restart_every,
        )
        self._closer = Closer(store, attempts, view, chance=chance)
        intake = Intake(
            queue=self.queue,
            cache=self.cache,
            records=view.records,
            ownership=ownership,
            shards=shards,
            ending=self._closer,
            metrics=metrics,
            clock=clock,
            kick=kick,
        )

        # on duty or not
        self._activities = activities = SchedulingActivities(
            store=store,
            cache=self.cache,
            profiles=profiles,
            ownership=ownership,
            cluster=settings.cluster,
            identity=identity,
            settings=settings.binding,
            metrics=metrics,
            utc_now=utc_now,
        )
        self._polling = Polling(
            worker_factory(
                client,
                task_queue=task_queue(settings.cluster, settings.tenant),
                workflows=[ScheduleAttempt],
                activities=activities.all,
                identity=identity,
                build_id=_release(),
                max_cached_workflows=settings.max_cached_workflows,
                drain_timeout=settings.drain_timeout,
            ),
            drain_timeout=settings.drain_timeout,
            failed=self._polling_failed,
        )
        place = Place(
            settings.tenant,
            settings.slot,
            socket.gethostname(),
            os.getpid(),
            health_url,
            dispatches=settings.dispatch == "sharded",
        )
        self._membership = Membership(store, place, settings.lease, clock=clock, chance=chance, changed=self._changed)
        self._reachability = Reachability(
            client.service_client.check_health,
            patience=settings.lease.temporal_unreachable,
            clock=clock,
            changed=self._changed,
        )
        subscribers: list[Subscriber] = []
        self._informer = Informer(store, view, subscribers, metrics, chance=chance)
        self._duty = Duty(
            tenant=settings.tenant,
            informer=self._informer,
            membership=self._membership,
            reachability=self._reachability,
            polling=self._polling,
            shards=shards,
            serve=self._dispatcher.serve,
            roll=intake,
        )
        # The order matters: whose a pod is, then the queue, then who reads the queue.
        subscribers += [self._duty, intake, self._waker, self._closer]
        self._upkeep = Upkeep(self.cache, metrics)
        self._gauges = Gauges(metrics, self.queue, self.cache, shards)

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on: name -> `ok`, or why not."""
        return self._duty.checks()

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date."""
        self._gauges.refresh(ready=self._duty.on)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then drain. Raises what ends a worker (`RevisionWentBack`, ...)."""
        cluster, profiles = self._settings.cluster, self._profiles.values()
        await unless_stopped(stop, prepare(self._store, self._client, profiles, cluster=cluster, chance=self._chance))
        if stop.is_set():
            return
        roles = (
            self._informer,
            self._membership,
            self._reachability,
            self._duty,
            self._dispatcher,
            self._waker,
            self._closer,
            self._upkeep,
        )
        loops = {asyncio.create_task(role.run(), name=type(role).__name__) for role in roles}
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
        await self._duty.drain()
        self._signals.stop()
        await self._activities.close()
        with contextlib.suppress(Exception):
            await self._membership.leave()
        log.info("drained")

    def _changed(self) -> None:
        self._duty.changed()

    def _polling_failed(self) -> None:
        self._duty.polling_failed()

    def _entered(self, entry: Entry, cause: str) -> None:
        self.metrics.queue_incoming.labels(entry.part.value, cause).inc()
        if entry.part is Part.WAITING:
            self._waker.arrived(entry)


async def run_worker(settings: WorkerSettings) -> int:
    """Run a worker process until it is told to stop; its exit code.

    The first SIGTERM or SIGINT drains; the second ends the process at once.
    """
    stop = stop_on_signals()
    metrics, chance = Metrics(), random.Random()  # noqa: S311 - spreads retries, no secret
    sdk = sdk_metrics()
    connected = {"etcd": "has not answered yet", "temporal": "has not answered yet"}
    health = HealthServer(metrics, checks=lambda: connected, sdk_metrics_url=sdk.url)
    if settings.health_port >= 0:
        await health.start(settings.bind_address, settings.health_port)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(health.stop)
        configuration = temporal_configuration(settings.temporal)
        store = await unless_stopped(stop, connect_etcd(settings.etcd, chance=chance))
        if store is None:
            return 0
        stack.push_async_callback(store.close)
        connected["etcd"] = "ok"
        identity = f"{os.getpid()}@{socket.gethostname()}"
        connecting = connect_temporal(configuration, identity=identity, runtime=sdk.runtime, chance=chance)
        client = await unless_stopped(stop, connecting)
        if client is None:
            return 0
        worker = Worker(settings, store=store, client=client, metrics=metrics, health_url=health.url, chance=chance)
        health.checks, health.refresh = worker.checks, worker.refresh_metrics
        await worker.run(stop)
    return 0


def _release() -> str:
    """Our version, by which Temporal tells releases of workers apart."""
    try:
        return version("wharfinger")
    except PackageNotFoundError:
        return "checkout"
