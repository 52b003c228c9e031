"""The worker process: puts everything together, and holds no policy.

`Worker` is one worker on a given store and Temporal client; `run_worker` is the process around it:
connections, health endpoints, signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from temporalio.client import Client

from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.activities.transactions import Limits
from wharfinger.cache.cache import Cache
from wharfinger.client import temporal_configuration
from wharfinger.config.load import Configuration
from wharfinger.contracts.names import TENANT_LABEL, check_cluster, check_tenant, task_queue
from wharfinger.contracts.scheduling import AttemptTimings
from wharfinger.control import garbage
from wharfinger.control.attempts import TemporalAttempts
from wharfinger.control.completing import Completing, RunEnds
from wharfinger.control.connecting import connect_etcd, connect_temporal, sdk_metrics
from wharfinger.control.installation import prepare
from wharfinger.control.loops import Loops
from wharfinger.control.polling import Polling, worker_factory
from wharfinger.control.stopping import stop_on_signals, unless_stopped
from wharfinger.framework.territory import Territory
from wharfinger.model.ownership import Ownership
from wharfinger.observe.health import HealthServer
from wharfinger.profiles import Configured, load_configuration
from wharfinger.queue.scheduling_queue import SchedulingQueue
from wharfinger.registry.store import Store
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics
from wharfinger.workflows.schedule_attempt import ScheduleAttempt
from wharfinger.workflows.schedule_cohort import ScheduleCohort


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
        configured: Configured | None = None,
        metrics: Metrics | None = None,
        health_url: str = "",
        clock: Callable[[], float] = time.monotonic,
        utc_now: Callable[[], datetime] = utc_now,
        chance: random.Random | None = None,
    ) -> None:
        """`configured`: what `settings.config` comes to, when it was read already; `chance` spreads retries."""
        self._cluster = check_cluster(settings.cluster)
        self._store = store
        self._client = client
        self._chance = chance if chance is not None else random.Random()  # noqa: S311 - no secret
        configured = configured if configured is not None else load_configuration(settings.config)
        self._profiles = configured.profiles
        self.metrics = metrics if metrics is not None else Metrics()
        self.cache = Cache(clock=clock, assume_expiry=settings.binding.assume_expiry)
        territory = Territory(settings.binding.own_node_margin)
        ownership = Ownership(frozenset(self._profiles), check_tenant(settings.tenant), TENANT_LABEL)
        self._activities = SchedulingActivities(
            store=store,
            cache=self.cache,
            profiles=self._profiles,
            ownership=ownership,
            cluster=self._cluster,
            identity=identity(),
            settings=settings.binding,
            metrics=self.metrics,
            utc_now=utc_now,
            eviction=settings.eviction,
            territory=territory,
            limits=Limits(settings.etcd.max_txn_ops, settings.etcd.max_txn_bytes),
        )
        completing = Completing(clock)
        polling = worker_factory(
            client,
            task_queue=task_queue(self._cluster, settings.tenant),
            workflows=[ScheduleAttempt, ScheduleCohort],
            activities=self._activities.all,
            identity=identity(),
            build_id=_release(),
            max_cached_workflows=settings.max_cached_workflows,
            drain_timeout=settings.drain_timeout,
            interceptors=[RunEnds(completing)],
        )
        self.loops = Loops(
            settings,
            store=store,
            cache=self.cache,
            profiles=self._profiles,
            ownership=ownership,
            attempts=TemporalAttempts(
                client, cluster=self._cluster, tenant=settings.tenant, timings=backoff(configured.configuration)
            ),
            polling=Polling(polling, drain_timeout=settings.drain_timeout),
            probe=client.service_client.check_health,
            metrics=self.metrics,
            clock=clock,
            chance=self._chance,
            health_url=health_url,
            completing=completing,
            territory=territory,
        )

    @property
    def queue(self) -> SchedulingQueue:
        """The pods that are this worker's to place."""
        return self.loops.queue

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on: name -> `ok`, or why not."""
        return self.loops.checks()

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date."""
        self.loops.refresh_metrics()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then drain.

        Raises `InstallationMismatch`, and what ends a worker while it serves (`RevisionWentBack`).
        """
        preparing = prepare(
            self._store, self._client, self._profiles.values(), cluster=self._cluster, chance=self._chance
        )
        await unless_stopped(stop, preparing)
        try:
            if not stop.is_set():
                await self.loops.run(stop)
        finally:
            await self._activities.close()


async def run_worker(settings: WorkerSettings) -> int:
    """Run a worker process until it is told to stop; its exit code.

    The first SIGTERM or SIGINT drains; the second ends the process at once. Raises `InvalidConfiguration`
    before anything is opened.
    """
    configured = load_configuration(settings.config)
    garbage.tune()
    stop = stop_on_signals()
    metrics, chance = Metrics(), random.Random()  # noqa: S311 - spreads retries, no secret
    configuration = temporal_configuration(settings.temporal)
    sdk = sdk_metrics()
    connected = {"etcd": "has not answered yet", "temporal": "has not answered yet"}
    health = HealthServer(metrics, checks=lambda: connected, sdk_metrics_url=sdk.url)
    if settings.health_port >= 0:
        await health.start(settings.bind_address, settings.health_port)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(health.stop)
        store = await unless_stopped(stop, connect_etcd(settings.etcd, chance=chance))
        if store is None:
            return 0
        stack.push_async_callback(store.close)
        connected["etcd"] = "ok"
        connecting = connect_temporal(configuration, identity=identity(), runtime=sdk.runtime, chance=chance)
        client = await unless_stopped(stop, connecting)
        if client is None:
            return 0
        worker = Worker(
            settings,
            store=store,
            client=client,
            configured=configured,
            metrics=metrics,
            health_url=health.url,
            chance=chance,
        )
        health.checks, health.refresh = worker.checks, worker.refresh_metrics
        await worker.run(stop)
    return 0


def identity() -> str:
    """This process among all: `<pid>@<host>`, as Temporal names workers."""
    return f"{os.getpid()}@{socket.gethostname()}"


def backoff(configuration: Configuration) -> AttemptTimings | None:
    """The back-off of the attempts that are started; None = the usual one."""
    settings = configuration.settings
    timings = AttemptTimings(
        backoff_initial=settings.pod_initial_backoff_seconds, backoff_maximum=settings.pod_max_backoff_seconds
    )
    return timings if timings != AttemptTimings() else None


def _release() -> str:
    """Our version, by which Temporal tells releases of workers apart."""
    try:
        return version("wharfinger")
    except PackageNotFoundError:
        return "checkout"
