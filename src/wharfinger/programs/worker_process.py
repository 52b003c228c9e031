"""The process around one worker: signals, pages, and the connections that it waits for.

The pages are served first, so that what the process waits for can be read. Then it connects to etcd, to Temporal and,
where it schedules a Kubernetes API, to that. `worker.Worker` does the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

from temporalio.client import Client

from wharfinger.apiserver.client import ApiClient
from wharfinger.apiserver.transport import HttpApiClient
from wharfinger.framework.config.notes import enabling, package
from wharfinger.framework.profiles import Configured
from wharfinger.kubernetes.loops.connecting import ConnectedApi, connect_api_server, open_api_server
from wharfinger.process.api_keys import api_key_renewed
from wharfinger.process.build import build_id
from wharfinger.process.connecting import connect_etcd, connect_temporal, identity, sdk_metrics, temporal_configuration
from wharfinger.process.names import check_cluster
from wharfinger.process.parts import ProcessParts
from wharfinger.process.running import stop_on_signals, tune_garbage_collection, unless_stopped
from wharfinger.process.temporal_plugins import plugins_of
from wharfinger.programs.grants import OwnGrant, while_granted
from wharfinger.programs.kube_pages import KubePages
from wharfinger.programs.membership import Membership, place_of, registered_while
from wharfinger.programs.worker import Worker, configuration_of, own_grant
from wharfinger.serving.content import OK, Content
from wharfinger.serving.options import ServingOptions
from wharfinger.serving.server import Server
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

T = TypeVar("T")

FENCED_OFF = 3
"""Exit code of a worker whose grant is gone."""
SIGNALLED_TWICE = 1
"""Exit code after a second signal where the process stands in kube-scheduler's place."""
WAITING = "has not answered yet"


async def run_worker(
    settings: WorkerSettings,
    serving: ServingOptions,
    *,
    configured: Configured | None = None,
    pages: KubePages | None = None,
) -> int:
    """Run a worker process until a signal stops it; returns its exit code.

    `serving`: how its pages are served; `configured`: the configuration, where it was read already; `pages`: of
    kube-scheduler, where the process stands in its place.
    The first SIGTERM or SIGINT drains, and so does the grant where there is one; the second ends the process at once.
    Raises `InvalidConfiguration` before anything is opened.
    """
    configured = configured or configuration_of(settings)
    _log_not_enabled(configured)
    tune_garbage_collection()
    stop = stop_on_signals(second=SIGNALLED_TWICE if pages is not None else None)
    async with contextlib.AsyncExitStack() as stack:
        return await _WorkerProcess(settings, configured, pages, stop, stack).run(serving)


class _WorkerProcess:
    """One process, from its pages to the end of its worker. What it opens is closed by the caller's stack."""

    def __init__(
        self,
        settings: WorkerSettings,
        configured: Configured,
        pages: KubePages | None,
        stop: asyncio.Event,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self._settings = settings
        self._configured = configured
        self._pages = pages
        self._stop = stop
        self._stack = stack
        self._metrics = Metrics()
        self._rng = random.Random()  # noqa: S311 - spreads retries, no secret
        self._sdk = sdk_metrics()
        build_id()  # of the files that run, before another installation may replace them
        self._waits_for = {"etcd": WAITING, "temporal": WAITING}
        """The checks until there is a worker."""
        self._grant: OwnGrant | None = None

    async def run(self, serving: ServingOptions) -> int:
        """Serve, connect, and work until told to stop; the exit code."""
        temporal, plugins = temporal_configuration(self._settings.temporal), plugins_of(self._settings.temporal)
        content = Content(
            self._metrics.registry,
            checks=lambda: self._waits_for,
            sdk_metrics_url=self._sdk.url,
            configuration=lambda: self._configured.configuration.document(secrets=False),
        )
        api = None
        if self._settings.kubernetes is not None:
            api = open_api_server(self._settings.kubernetes, self._metrics)
            self._stack.push_async_callback(api.close)
        health = await self._serve(serving, content, api)
        log.info("worker_starts tenant=%s", self._settings.tenant)
        store = await unless_stopped(
            self._stop, connect_etcd(self._settings.etcd, rng=self._rng, format_=self._settings.format)
        )
        if store is None:
            return 0
        self._stack.push_async_callback(store.close)
        self._waits_for["etcd"] = OK
        log.info("etcd_connected")
        if self._pages is not None:
            self._pages.fill_with_pods(content, store)
        process = ProcessParts(store, self._metrics, rng=self._rng)
        self._grant = own_grant(self._settings, store)
        connecting = connect_temporal(temporal, plugins, identity=identity(), runtime=self._sdk.runtime, rng=self._rng)
        client = await self._unless_ended(self._registered(process, health, connecting))
        if client is None:
            return self._code()
        log.info("temporal_connected")
        await self._stack.enter_async_context(api_key_renewed(client, self._settings.temporal))
        connected = None
        if api is not None:
            connected = await self._unless_ended(self._connected(api, process, client))
            if connected is None:
                return self._code()
            log.info("kubernetes_connected cluster=%s", connected.uid)
        worker = Worker(
            self._settings,
            process,
            client,
            configured=self._configured,
            health_url=health.url,
            grant=self._grant,
            connected=connected,
        )
        content.checks, content.refresh = worker.checks, worker.refresh_metrics
        await worker.run(self._stop)
        return self._code()

    async def _serve(self, serving: ServingOptions, content: Content, api: HttpApiClient | None) -> Server:
        """Begin to serve the pages; those of kube-scheduler have the cluster decide about callers."""
        reviewer: HttpApiClient | None = None
        if api is not None:
            reviewer = (self._pages or KubePages()).reviewer(api, self._metrics)
            self._stack.push_async_callback(reviewer.close)
        if self._pages is not None:
            self._pages.fill(content)
        health = Server(serving, content, apiserver=reviewer)
        await health.start()
        self._stack.push_async_callback(health.stop)
        if self._pages is not None and reviewer is not None:
            await self._pages.require_authorities(health, reviewer)
            following = asyncio.create_task(self._pages.follow_authorities(health, reviewer))
            self._stack.callback(following.cancel)
        return health

    def _registered(
        self, process: ProcessParts, health: Server, connecting: Coroutine[Any, Any, Client]
    ) -> Coroutine[Any, Any, Client]:
        """The connection to Temporal; meanwhile a worker that lives under a grant is registered as waiting for it."""
        if self._grant is None:
            return connecting
        place = place_of(self._settings, health.url, self._configured.profiles)
        early = Membership(process, place, self._settings.lease, grant=self._grant)
        return registered_while(early, f"temporal: {self._waits_for['temporal']}", connecting)

    async def _connected(self, api: ApiClient, process: ProcessParts, client: Client) -> ConnectedApi:
        """The Kubernetes API, as soon as it answers. Raises `InstallationMismatch`."""
        assert self._settings.kubernetes is not None, "there is an API"
        self._waits_for |= {"temporal": OK, "kubernetes": WAITING}
        return await connect_api_server(
            api,
            self._settings.kubernetes,
            process,
            cluster=check_cluster(self._settings.cluster),
            temporal_namespace=client.namespace,
            waiting=lambda why: self._waits_for.update(kubernetes=why),
        )

    async def _unless_ended(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The work's result; None when the process is to end before."""
        return await unless_stopped(self._stop, while_granted(self._grant, work))

    def _code(self) -> int:
        return FENCED_OFF if self._grant is not None and self._grant.gone.is_set() else 0


def _log_not_enabled(configured: Configured) -> None:
    """Log each installed plugin that takes no part, with the line of a configuration that enables it."""
    for plugin in configured.not_enabled:
        log.warning(
            "plugin_not_enabled plugin=%s package=%r enable=%r",
            plugin.name,
            package(plugin.origin, plugin.version),
            enabling(plugin, next(iter(configured.profiles))),
        )
