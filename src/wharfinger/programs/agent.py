"""The agent process: puts everything together, and holds no policy.

::

    host part       adopt ── register ── follow grants ── probe ── record ends        fleet.agent.host_*
                    create_instance, kill_instance on the host's queue               activities.hosts
    control part    follow fleets, signal                                            fleet.agent.fleet_watch
                    Fleet, RollingUpdate and their activities on the control queue   workflows, activities

`Agent` is one agent on a given store, Temporal client and runtime; `run_agent` is the process around it. Instances
are not the agent's children in any other way than that it started them: it leaves, and they go on.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import aiohttp
from temporalio.client import Client

from wharfinger.activities.fleets import ControlActivities
from wharfinger.activities.hosts import HostActivities
from wharfinger.errors import UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete
from wharfinger.fleet.agent.fleet_watch import FleetWatch, reconcile_signals, running_fleets
from wharfinger.fleet.agent.host_exits import HostExits, end_instances
from wharfinger.fleet.agent.instances import Ask, HostGrants, HostProbes, asking
from wharfinger.fleet.agent.processes import Processes
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.fleet.effects.fencing import FLEETS
from wharfinger.fleet.spec.agent_settings import AgentSettings
from wharfinger.fleet.state.fleets import FleetView
from wharfinger.framework.plugins import builtin
from wharfinger.framework.profiles import load_configuration
from wharfinger.kubernetes.loops.connecting import connect_api_server, open_api_server
from wharfinger.process.build import release
from wharfinger.process.children import limits, lives, locks
from wharfinger.process.children.runtime import Runtime
from wharfinger.process.connecting import temporal_configuration
from wharfinger.process.installation_record import installation_of
from wharfinger.process.named_process import NamedProcess
from wharfinger.process.names import check_cluster, control_queue, host_queue
from wharfinger.process.opening import Opened, serve
from wharfinger.process.parts import ProcessParts
from wharfinger.process.polling import Polling, worker_factory
from wharfinger.process.registration import LeasedName
from wharfinger.process.running import unless_stopped
from wharfinger.process.transactions import Limits
from wharfinger.serving.content import OK
from wharfinger.serving.options import ServingOptions
from wharfinger.settings import TemporalSettings
from wharfinger.workflows.fleet import Fleet
from wharfinger.workflows.rolling_update import RollingUpdate

log = logging.getLogger(__name__)

ACTIVITIES = 2000
"""Of one queue, at a time. Most of them wait (for an instance to be ready, to drain, to end), as long as their tenant's
instances take; with few places, some tenants in trouble would keep the others' plans waiting."""

BEFORE_INSTANCES = 1.0
"""Seconds that activities get when the instances are to end with the agent: theirs are counted from then on, and what
waits for instances would take all it may."""


class Agent(NamedProcess):
    """One agent, on a store, a client and a runtime that the caller opened and closes."""

    def __init__(
        self,
        settings: AgentSettings,
        process: ProcessParts,
        client: Client,
        *,
        runtime: Runtime,
        ask: Ask,
        environ: Mapping[str, str] = os.environ,
        kubernetes_uid: str = "",
    ) -> None:
        """`settings.temporal` is what instances are told; `ask` asks a health endpoint; `kubernetes_uid`: of the
        Kubernetes cluster whose pods the instances schedule, empty for none.
        """
        store, rng, host = process.store, process.rng, settings.host
        record = HostRecord(
            boot_id=lives.boot_id(),
            pid=os.getpid(),
            installs=tuple(name for name, _ in settings.installs),
            capacity=settings.capacity,
            allow_env=tuple(sorted(settings.allow_env)),
            version=release(),
            control=settings.control,
            lease_ttl=settings.lease.ttl,
            host_lost=settings.host_lost,
            cpus=len(os.sched_getaffinity(0)),
            time=process.utc_now().isoformat(timespec="seconds"),
        )
        # An agent that is there shows that the record of the host's loss was wrong.
        named = LeasedName("host", host, keys.host(host), "host", also=[Delete(keys.lost_host(host))])
        super().__init__(process, client, named, record, settings.lease)
        self._settings = settings
        self._runtime = runtime
        self._kubernetes_uid = kubernetes_uid
        self._exits = HostExits(process, runtime, host)
        self._grants = HostGrants(store, runtime, host, rng=rng)
        self._probes = HostProbes(
            store,
            runtime,
            self._exits,
            ask,
            every=settings.probe_every,
            most=settings.probe_failures,
            rng=rng,
        )
        hosting = HostActivities(store, runtime, self._exits, settings, environ=environ)
        self._watch = FleetWatch(
            store,
            reconcile_signals(client, settings.cluster),
            running_fleets(client, settings.cluster),
            host=host,
            rng=rng,
        )
        self._pollings = [self._polling(host_queue(settings.cluster, host), [], hosting.all)]
        self._controlling: ControlActivities | None = None
        if settings.control:
            catalog = builtin.catalog().with_installed()
            self._controlling = ControlActivities(
                process,
                client,
                view=FleetView(store, catalog),
                catalog=catalog,
                cluster=settings.cluster,
                lease_ttl=settings.lease.ttl,
                host_lost=settings.host_lost,
                limits=Limits(settings.etcd.max_txn_ops, settings.etcd.max_txn_bytes),
            )
            self._pollings.append(
                self._polling(control_queue(settings.cluster), [Fleet, RollingUpdate], self._controlling.all)
            )

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on: name -> `ok`, or why not."""
        said = self._checks(grants=self._grants.synced.is_set())
        if self._settings.control:
            said["fleets"] = OK if self._watch.in_sync else "not listed yet"
        return said

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date."""
        self.metrics.host_instances.set(len(self._runtime.running()))
        self.metrics.host_exits_waiting.set(self._exits.waiting)
        self.metrics.pokes_waiting.set(self._watch.waiting)
        if self._controlling is not None and self._watch.in_sync:
            self._controlling.refresh_metrics(self._watch.fleets)
        self.metrics.ready.set(all(said == OK for said in self.checks().values()))

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Raises `InstallationMismatch`, and `UsageError` when the host has an agent."""
        self._exits.add(await self._runtime.adopt())
        await self._serve(stop, cluster=self._settings.cluster, kubernetes_uid=self._kubernetes_uid)

    def _loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        following = {"fleets": self._watch.run()} if self._settings.control else {}
        loops = {"exits": self._exits.run(), "grants": self._grants.run(), "probes": self._probes.run()}
        return loops | following

    async def _before_polling(self) -> None:
        await self._grants.synced.wait()

    async def _before_end(self) -> None:
        if self._settings.stop_instances is not None:
            await end_instances(self._runtime, self._exits, self._settings.stop_instances)

    def _polling(self, queue: str, workflows: list[type], activities: list[Callable[..., object]]) -> Polling:
        timeout = self._settings.drain_timeout if self._settings.stop_instances is None else BEFORE_INSTANCES
        factory = worker_factory(
            self._client,
            task_queue=queue,
            workflows=workflows,
            activities=activities,
            max_cached_workflows=1000,
            drain_timeout=timeout,
            failures=FLEETS,
            max_concurrent_activities=ACTIVITIES,
        )
        return Polling(factory, drain_timeout=timeout)


async def run_agent(settings: AgentSettings, serving: ServingOptions) -> int:
    """Run an agent process until a signal stops it; returns its exit code.

    The first SIGTERM or SIGINT stops it, and leaves instances running unless the settings say otherwise; the second
    ends it at once. Raises `InvalidConfiguration` and `UsageError` before anything is opened.
    """
    check_cluster(settings.cluster)
    # Instances would fail by it, one after the other.
    load_configuration(settings.config, all_plugins=settings.all_plugins, format_=settings.format)
    configuration = temporal_configuration(settings.temporal)
    told = TemporalSettings(configuration.get("target_host"), configuration.get("namespace"), settings.temporal.plugins)
    settings = replace(settings, temporal=told, data_dir=settings.data_dir.resolve())
    folder = _hold(settings)
    try:
        making = partial(_agent_of, settings)
        return await serve(settings.etcd, settings.format, settings.temporal, serving, making)
    finally:
        folder.close()


async def _agent_of(settings: AgentSettings, found: Opened) -> Agent | None:
    uid = await _cluster_uid(settings, found)
    if uid is None:
        return None
    runtime = Processes(settings.data_dir, limits.ProcessLimits(limits.delegated()))
    found.stack.push_async_callback(runtime.close)
    logs = asyncio.create_task(runtime.look_after_logs())
    found.stack.callback(logs.cancel)
    session = await found.stack.enter_async_context(aiohttp.ClientSession(auto_decompress=False))
    ask = asking(session, min(3.0, settings.probe_every))
    return Agent(settings, found.process, found.temporal, runtime=runtime, ask=ask, kubernetes_uid=uid)


async def _cluster_uid(settings: AgentSettings, found: Opened) -> str | None:
    """The uid of the Kubernetes cluster; empty without one, None when the process is told to stop first.

    An agent needs the API only before anything is in etcd: later it starts instances whether the API answers or not,
    and these compare the uid. Raises `ConfigurationError` and `InstallationMismatch`.
    """
    if settings.kubernetes is None:
        return ""
    installed = await unless_stopped(found.stop, installation_of(found.process.store))
    if installed is not None and installed.upstream:
        return installed.upstream
    api = open_api_server(settings.kubernetes)
    try:
        connecting = connect_api_server(
            api,
            settings.kubernetes,
            found.process,
            cluster=settings.cluster,
            temporal_namespace=found.temporal.namespace,
        )
        connected = await unless_stopped(found.stop, connecting)
    finally:
        await api.close()
    return connected.uid if connected is not None else None


def _hold(settings: AgentSettings) -> locks.Lock:
    """Make the data folder and hold it. Raises `UsageError` when that cannot be."""
    try:
        lock = locks.take(settings.data_dir / "agent.lock")
    except OSError as error:
        raise UsageError(f"--data-dir {settings.data_dir}: {error.strerror}") from error
    if lock is None:
        raise UsageError(f"--data-dir {settings.data_dir}: another agent is running there")
    own = lives.life(os.getpid())
    if own is not None:
        lock.sign(own)
    return lock
