"""How a process opens what it serves with: health endpoints first, then etcd, then Temporal where it needs that.

Each is waited for until it answers, and `/readyz` says which is missing. A worker registers meanwhile and so opens its
own (`wharfinger.programs.worker_process`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from temporalio.client import Client

from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.api_keys import api_key_renewed
from wharfinger.process.build import build_id
from wharfinger.process.connecting import connect_etcd, connect_temporal, identity, sdk_metrics, temporal_configuration
from wharfinger.process.parts import ProcessParts
from wharfinger.process.running import stop_on_signals, tune_garbage_collection, unless_stopped
from wharfinger.process.temporal_plugins import plugins_of
from wharfinger.serving.content import OK, Content
from wharfinger.serving.options import ServingOptions
from wharfinger.serving.server import Server
from wharfinger.settings import EtcdSettings, TemporalSettings
from wharfinger.telemetry import Metrics

WAITING = "has not answered yet"


@dataclass(frozen=True, slots=True)
class Opened:
    """What a process serves with."""

    process: ProcessParts
    health: Server
    stop: asyncio.Event
    """Set by the first signal."""
    stack: contextlib.AsyncExitStack
    """Closes what the process opens further, before what is here."""
    client: Client | None = None

    @property
    def temporal(self) -> Client:
        """The client of Temporal, where one was asked for."""
        assert self.client is not None, "it was asked for"
        return self.client


class Served(Protocol):
    """What a process does once everything is open."""

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on: name -> `ok`, or why not."""

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date."""

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""


async def serve(
    etcd: EtcdSettings,
    format_: ClusterFormat,
    temporal: TemporalSettings | None,
    serving: ServingOptions,
    make: Callable[[Opened], Awaitable[Served | None]],
) -> int:
    """Open all of it and run what `make` returns until a signal stops it; returns the process's exit code.

    The second signal ends the process at once. `temporal`: None = it is not needed. `make` returns None when the
    process is told to stop before. Raises `UsageError`, `AccessDenied`, `ConfigurationError`, and what `make` and its
    result raise.
    """
    configuration = temporal_configuration(temporal) if temporal is not None else None
    plugins = plugins_of(temporal) if temporal is not None else []
    tune_garbage_collection()
    stop = stop_on_signals()
    metrics, rng = Metrics(), random.Random()  # noqa: S311 - spreads retries, no secret
    sdk = sdk_metrics() if configuration is not None else None
    build_id()  # of the files that run, before another installation may replace them
    connected = {"etcd": WAITING} | ({"temporal": WAITING} if configuration is not None else {})
    url = sdk.url if sdk is not None else ""
    content = Content(metrics.registry, checks=lambda: connected, sdk_metrics_url=url)
    health = Server(serving, content)
    await health.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(health.stop)
        store = await unless_stopped(stop, connect_etcd(etcd, rng=rng, format_=format_))
        if store is None:
            return 0
        stack.push_async_callback(store.close)
        connected["etcd"] = OK
        client = None
        if temporal is not None and configuration is not None and sdk is not None:
            connecting = connect_temporal(configuration, plugins, identity=identity(), runtime=sdk.runtime, rng=rng)
            client = await unless_stopped(stop, connecting)
            if client is None:
                return 0
            await stack.enter_async_context(api_key_renewed(client, temporal))
        served = await make(Opened(ProcessParts(store, metrics, rng=rng), health, stop, stack, client))
        if served is not None:
            content.checks, content.refresh = served.checks, served.refresh_metrics
            await served.run(stop)
    return 0
