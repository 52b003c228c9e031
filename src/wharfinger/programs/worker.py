"""One worker on a given store and Temporal client: puts everything together, and holds no policy.

`worker_process` is the process around it: connections, pages, signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from temporalio.client import Client

from wharfinger.activities.node_evictions import NodeEvictionActivities
from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.configuration.following import LogKind, ProfileKind, QueueKind
from wharfinger.etcd.store import Store
from wharfinger.framework.config.extender_fields import binding
from wharfinger.framework.config.file_fields import SchedulerConfiguration
from wharfinger.framework.config.load import Configuration
from wharfinger.framework.config.validation import refuse
from wharfinger.framework.extenders.calls import ExtenderCalls
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import InForce
from wharfinger.framework.profiles import Configured, load_configuration, overlay_configuration
from wharfinger.kubernetes.effects.extender_binding import ExtenderBinders
from wharfinger.kubernetes.loops.connecting import ConnectedApi
from wharfinger.kubernetes.loops.worker_loops import KubernetesParts
from wharfinger.process import logs
from wharfinger.process.build import build_id
from wharfinger.process.connecting import identity
from wharfinger.process.installation import prepare
from wharfinger.process.names import check_cluster, check_tenant, task_queue
from wharfinger.process.parts import ProcessParts
from wharfinger.process.polling import Polling, worker_factory
from wharfinger.process.records import SoftwareRecord
from wharfinger.process.running import unless_stopped
from wharfinger.process.transactions import Limits
from wharfinger.programs.grants import OwnGrant, while_granted
from wharfinger.programs.loops import Loops
from wharfinger.scheduling.contracts.attempts import AttemptTimings
from wharfinger.scheduling.effects.failures import PODS_AND_NODES
from wharfinger.scheduling.loops.attempts import TemporalAttempts
from wharfinger.scheduling.loops.node_evictions import TemporalNodes
from wharfinger.scheduling.loops.run_ends import RunEnds
from wharfinger.scheduling.loops.signals import TemporalSide
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.settings import WorkerSettings
from wharfinger.workflows.node_eviction import NodeEviction
from wharfinger.workflows.schedule_attempt import ScheduleAttempt
from wharfinger.workflows.schedule_cohort import ScheduleCohort


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
        connected: ConnectedApi | None = None,
    ) -> None:
        """`configured`: what `settings.config` comes to, when it was read already; `grant`: the one that the settings
        name; `connected`: the Kubernetes API whose pods are scheduled.
        """
        self.grant = grant if grant is not None else own_grant(settings, process.store)
        self._cluster = cluster = check_cluster(settings.cluster)
        self._process = process
        self._client = client
        configured = configured if configured is not None else configuration_of(settings)
        self._started = configured
        self._profiles = InForce(configured.profiles, process.metrics.point_durations)
        self.metrics = process.metrics
        self.cache = Cache(clock=process.clock, assume_expiry=settings.binding.assume_expiry)
        pool = Pool(
            self.cache,
            self._profiles,
            Ownership(frozenset(self._profiles), check_tenant(settings.tenant), settings.tenant_label),
            PreferredNodes(settings.binding.own_node_margin),
        )
        calls = ExtenderCalls(clock=process.clock)
        parts = None
        if connected is not None:
            binders = ExtenderBinders(self.cache, self._profiles, calls)
            whole = bool(configured.configuration.extenders)
            parts = KubernetesParts(process, connected, settings, binders=binders, whole=whole)
        self._kubernetes_uid = connected.uid if connected is not None else ""
        self.cache.kubernetes = parts.side if parts is not None else None
        revision = str(settings.grant.revision) if settings.grant is not None else ""
        self._software = software_of(configured)
        life = f"{self._software.digest}-{process.rng.getrandbits(32):08x}"
        self._activities = SchedulingActivities(
            process,
            pool,
            Identity(cluster, identity(), revision, life),
            settings.binding,
            eviction=settings.eviction,
            limits=Limits(settings.etcd.max_txn_ops, settings.etcd.max_txn_bytes),
            kubernetes=parts.writers if parts is not None else None,
            calls=calls,
        )
        node_evictions = NodeEvictionActivities(process, self.cache, settings.node_evictions, mode=settings.eviction)
        run_ends = RunEnds()
        polling = worker_factory(
            client,
            task_queue=task_queue(cluster, settings.tenant),
            workflows=[ScheduleAttempt, ScheduleCohort, NodeEviction],
            activities=[*self._activities.all, *node_evictions.all],
            max_cached_workflows=settings.max_cached_workflows,
            drain_timeout=settings.drain_timeout,
            failures=PODS_AND_NODES,
            interceptors=[run_ends],
        )
        timings = backoff(configured.configuration)
        attempts = TemporalAttempts(
            client, cluster=cluster, tenant=settings.tenant, build_id=build_id(), timings=timings
        )
        self.loops = Loops(
            settings,
            process,
            pool,
            TemporalSide(
                attempts=attempts,
                nodes=TemporalNodes(client, cluster=cluster, tenant=settings.tenant),
                polling=Polling(polling, drain_timeout=settings.drain_timeout),
                probe=client.service_client.check_health,
                run_ends=run_ends,
            ),
            health_url=health_url,
            grant=self.grant,
            kubernetes=parts,
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
                changed=self.loops.scheduling.reconfigured,
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
        return self.loops.scheduling.queue

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
            self._process,
            self._client,
            cluster=self._cluster,
            profiles=self._profiles.values(),
            software=self._software,
            kubernetes_uid=self._kubernetes_uid,
        )
        await unless_stopped(stop, while_granted(self.grant, preparing))
        try:
            if not stop.is_set():
                await self.loops.run(stop)
        finally:
            await self._activities.close()


def configuration_of(settings: WorkerSettings) -> Configured:
    """What `settings.config` comes to. Raises `InvalidConfiguration`."""
    configured = load_configuration(settings.config, all_plugins=settings.all_plugins, format_=settings.format)
    binders = [] if settings.kubernetes is not None else list(binding(configured.configuration.settings.extenders))
    if binders:
        raise refuse(binders)
    return configured


def software_of(configured: Configured) -> SoftwareRecord:
    """What decides by this configuration: our build, and the distributions that its plugins come from."""
    named = {plugin.name for profile in configured.profiles.values() for plugin in profile.plugins}
    entries = [entry for name in sorted(named) if (entry := configured.catalog.get(name)) is not None and entry.origin]
    return SoftwareRecord(build=build_id(), packages={entry.origin: entry.version for entry in entries})


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
