"""How a process opens what it serves with: health endpoints first, then etcd, then Temporal where it needs that.

Each is waited for until it answers, and `/readyz` says which is missing. A worker registers meanwhile and so opens its
own (`wharfinger.programs.worker`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from temporalio.client import Client

from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.build import build_id
from wharfinger.process.connecting import connect_etcd, connect_temporal, identity, sdk_metrics, temporal_configuration
from wharfinger.process.parts import ProcessParts
from wharfinger.process.running import unless_stopped
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
    client: Client | None = None

    @property
    def temporal(self) -> Client:
        """The client of Temporal, where one was asked for."""
        assert self.client is not None, "it was asked for"
        return self.client


@asynccontextmanager
async def opened(
    etcd: EtcdSettings,
    format_: ClusterFormat,
    temporal: TemporalSettings | None,
    *,
    serving: ServingOptions,
    stop: asyncio.Event,
) -> AsyncIterator[Opened | None]:
    """All of it, closed behind the block; None when told to stop before it answered.

    `temporal`: None = it is not needed. Raises `UsageError`, `AccessDenied`, `ConfigurationError`.
    """
    configuration = temporal_configuration(temporal) if temporal is not None else None
    metrics, rng = Metrics(), random.Random()  # noqa: S311 - spreads retries, no secret
    sdk = sdk_metrics() if configuration is not None else None
    build_id()  # of the files that run, before another installation may replace them
    connected = {"etcd": WAITING} | ({"temporal": WAITING} if configuration is not None else {})
    url = sdk.url if sdk is not None else ""
    health = Server(serving, Content(metrics.registry, checks=lambda: connected, sdk_metrics_url=url))
    await health.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(health.stop)
        store = await unless_stopped(stop, connect_etcd(etcd, rng=rng, format_=format_))
        if store is None:
            yield None
            return
        stack.push_async_callback(store.close)
        connected["etcd"] = OK
        client = None
        if configuration is not None and sdk is not None:
            connecting = connect_temporal(configuration, identity=identity(), runtime=sdk.runtime, rng=rng)
            client = await unless_stopped(stop, connecting)
            if client is None:
                yield None
                return
        yield Opened(ProcessParts(store, metrics, rng=rng), health, client)
