"""The worker process: puts everything together, and holds no policy.

`Worker` is one worker on a given store and Temporal client; `run_worker` is the process around it:
connections, health endpoints, signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Mapping

from temporalio.client import Client

from wharfinger.activities.node_evictions import NodeEvictionActivities
from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.cache.cache import Cache
from wharfinger.client.starts import temporal_configuration
from wharfinger.config.file_fields import SchedulerConfiguration
from wharfinger.config.load import Configuration
from wharfinger.config.origins import enabling, package
from wharfinger.contracts.attempts import AttemptTimings
from wharfinger.contracts.names import check_cluster, check_tenant, task_queue
from wharfinger.dynamic_config.kinds import LogKind, ProfileKind, QueueKind
from wharfinger.engine.failures import PODS_AND_NODES
from wharfinger.engine.parts import Identity, Pool, ProcessParts
from wharfinger.engine.transactions import Limits
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import InForce
from wharfinger.model.ownership import Ownership
from wharfinger.observe import logs
from wharfinger.observe.health import HealthServer
from wharfinger.process.connecting import connect_etcd, connect_temporal, identity, release, sdk_metrics
from wharfinger.process.garbage import tune_garbage_collection
from wharfinger.process.installation import prepare
from wharfinger.process.polling import Polling, worker_factory
from wharfinger.process.stopping import stop_on_signals, unless_stopped
from wharfinger.profiles import Configured, load_configuration, overlay_configuration
from wharfinger.queue.scheduling_queue import SchedulingQueue
from wharfinger.registry.store import Store
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics
from wharfinger.worker_loops.attempts import TemporalAttempts
from wharfinger.worker_loops.completing import Completing, RunEnds
from wharfinger.worker_loops.grants import OwnGrant, while_granted
from wharfinger.worker_loops.loops import Loops
from wharfinger.worker_loops.membership import Membership, place_of, registered_while
from wharfinger.worker_loops.node_workflows import TemporalNodes
from wharfinger.worker_loops.signals import TemporalSide
from wharfinger.workflows.node_eviction import NodeEviction
from wharfinger.workflows.schedule_attempt import ScheduleAttempt
from wharfinger.workflows.schedule_cohort import ScheduleCohort

log = logging.getLogger(__name__)

FENCED_OFF = 3
"""Exit code of a worker whose grant is gone."""


class Worker:
    """One worker, on a store and a client that the caller opened and closes."""

    def __init__(
        self,
        settings: WorkerSettings,
        process: ProcessParts,
        client: Client,
        *,
        configured: Configured | None = None,
        health_url: str = "",
        grant: OwnGrant | None = None,
    ) -> None:
        """`configured`: what `settings.config` comes to, when it was read already; `grant`: the one that the settings
        name.
        """
        self.grant = grant if grant is not None else own_grant(settings, process.store)
        self._cluster = cluster = check_cluster(settings.cluster)
        self._process = process
        self._client = client
        configured = configured if configured is not None else _configured(settings)
        self._started = configured
        self._profiles = InForce(configured.profiles)
        self.metrics = process.metrics
        self.cache = Cache(clock=process.clock, assume_expiry=settings.binding.assume_expiry)
        pool = Pool(
            self.cache,
            self._profiles,
            Ownership(frozenset(self._profiles), check_tenant(settings.tenant), settings.tenant_label),
            PreferredNodes(settings.binding.own_node_margin),
        )
        revision = str(settings.grant.revision) if settings.grant is not None else ""
        self._activities = SchedulingActivities(
            process,
            pool,
            Identity(cluster, identity(), revision),
            settings.binding,
            eviction=settings.eviction,
            limits=Limits(settings.etcd.max_txn_ops, settings.etcd.max_txn_bytes),
        )
        node_evictions = NodeEvictionActivities(process, self.cache, settings.node_evictions, mode=settings.eviction)
        completing, build_id = Completing(process.clock), release()
        polling = worker_factory(
            client,
            task_queue=task_queue(cluster, settings.tenant),
            workflows=[ScheduleAttempt, ScheduleCohort, NodeEviction],
            activities=[*self._activities.all, *node_evictions.all],
            identity=identity(),
            build_id=build_id,
            max_cached_workflows=settings.max_cached_workflows,
            drain_timeout=settings.drain_timeout,
            failures=PODS_AND_NODES,
            interceptors=[RunEnds(completing)],
        )
        timings = backoff(configured.configuration)
        attempts = TemporalAttempts(client, cluster=cluster, tenant=settings.tenant, build_id=build_id, timings=timings)
        self.loops = Loops(
            settings,
            process,
            pool,
            TemporalSide(
                attempts=attempts,
                nodes=TemporalNodes(client, cluster=cluster, tenant=settings.tenant),
                polling=Polling(polling, drain_timeout=settings.drain_timeout),
                probe=client.service_client.check_health,
                completing=completing,
            ),
            health_url=health_url,
            grant=self.grant,
        )
        self._follow(attempts)

    def _follow(self, attempts: TemporalAttempts) -> None:
        """Take in what the dynamic configuration says of these kinds while this worker runs."""
        written, dynamic = self._started.configuration.settings, self.loops.dynamic
        usual = SchedulerConfiguration()
        dynamic.follow(
            ProfileKind(
                self._profiles,
                self._started,
                store=self._process.store,
                overlay=lambda value, running: overlay_configuration(self._started, value, running),
                said_at_start=written.profiles != usual.profiles,
                changed=self.loops.reconfigured,
            )
        )
        dynamic.follow(
            QueueKind(
                written.pod_initial_backoff_seconds,
                written.pod_max_backoff_seconds,
                back_off=lambda initial, longest: attempts.back_off(_timings(initial, longest)),
                said_at_start=backoff(self._started.configuration) is not None,
            )
        )
        level = logs.level()
        dynamic.follow(LogKind(level, set_level=logs.set_level, said_at_start=level != logs.USUAL))

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
            self._process.store,
            self._client,
            self._profiles.values(),
            cluster=self._cluster,
            rng=self._process.rng,
        )
        await unless_stopped(stop, while_granted(self.grant, preparing))
        try:
            if not stop.is_set():
                await self.loops.run(stop)
        finally:
            await self._activities.close()


async def run_worker(settings: WorkerSettings) -> int:
    """Run a worker process until a signal stops it; returns its exit code.

    The first SIGTERM or SIGINT drains, and so does the grant where there is one; the second ends the process at once.
    Raises `InvalidConfiguration` before anything is opened.
    """
    configured = _configured(settings)
    _log_not_enabled(configured)
    tune_garbage_collection()
    stop = stop_on_signals()
    metrics, rng = Metrics(), random.Random()  # noqa: S311 - spreads retries, no secret
    configuration = temporal_configuration(settings.temporal)
    sdk = sdk_metrics()
    connected = {"etcd": "has not answered yet", "temporal": "has not answered yet"}
    health = HealthServer(metrics, checks=lambda: connected, sdk_metrics_url=sdk.url)
    if settings.health_port >= 0:
        await health.start(settings.bind_address, settings.health_port)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(health.stop)
        store = await unless_stopped(stop, connect_etcd(settings.etcd, rng=rng, format_=settings.format))
        if store is None:
            return 0
        stack.push_async_callback(store.close)
        connected["etcd"] = "ok"
        grant = own_grant(settings, store)
        connecting = connect_temporal(configuration, identity=identity(), runtime=sdk.runtime, rng=rng)
        if grant is not None:
            waiting = f"temporal: {connected['temporal']}"
            place = place_of(settings, health.url, configured.profiles)
            early = Membership(store, place, settings.lease, clock=time.monotonic, rng=rng, grant=grant)
            connecting = registered_while(early, waiting, connecting)
        client = await unless_stopped(stop, while_granted(grant, connecting))
        if client is None:
            return _code(grant)
        worker = Worker(
            settings,
            ProcessParts(store, metrics, rng=rng),
            client,
            configured=configured,
            health_url=health.url,
            grant=grant,
        )
        health.checks, health.refresh = worker.checks, worker.refresh_metrics
        await worker.run(stop)
    return _code(grant)


def _configured(settings: WorkerSettings) -> Configured:
    return load_configuration(settings.config, all_plugins=settings.all_plugins, format_=settings.format)


def _log_not_enabled(configured: Configured) -> None:
    """Log each installed plugin that takes no part, with the line of a configuration that enables it."""
    for plugin in configured.not_enabled:
        log.warning(
            "plugin_not_enabled plugin=%s package=%r enable=%r",
            plugin.name,
            package(plugin.origin, plugin.version),
            enabling(plugin, next(iter(configured.profiles))),
        )


def _code(grant: OwnGrant | None) -> int:
    return FENCED_OFF if grant is not None and grant.gone.is_set() else 0


def own_grant(settings: WorkerSettings, store: Store) -> OwnGrant | None:
    """The grant under which the worker lives; None when it was started by hand."""
    return OwnGrant(store, settings.tenant, settings.grant) if settings.grant is not None else None


def backoff(configuration: Configuration) -> AttemptTimings | None:
    """The back-off of the attempts that are started; None = the usual one."""
    settings = configuration.settings
    return _timings(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)


def _timings(initial: float, longest: float) -> AttemptTimings | None:
    timings = AttemptTimings(backoff_initial=initial, backoff_maximum=longest)
    return timings if timings != AttemptTimings() else None
