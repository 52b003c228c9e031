"""The process of the page: its server first, then etcd, which it follows; Temporal when somebody asks for what it has.

It follows as a worker does and takes no part in anything, so any number of them may run, and a worker notices none.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from temporalio.client import Client

from wharfinger.errors import StoreError, UsageError
from wharfinger.etcd.store import Store
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.page.options import PageOptions
from wharfinger.page.parts import PageParts
from wharfinger.page.web.server import PageServer
from wharfinger.process.api_keys import api_key_renewed
from wharfinger.process.connecting import (
    DEFAULT_NAMESPACE,
    connect_etcd,
    data_converter,
    identity,
    temporal_configuration,
)
from wharfinger.process.installation_record import in_its_format
from wharfinger.process.running import stop_on_signals, tune_garbage_collection, unless_stopped
from wharfinger.process.temporal_plugins import plugins_of
from wharfinger.scheduling.page.following import Following
from wharfinger.settings import EtcdSettings, TemporalSettings
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

AGAIN = 2.0
"""Seconds between two looks at which format the cluster has, while etcd does not say."""


async def run_page(
    options: PageOptions,
    etcd: EtcdSettings,
    temporal: TemporalSettings,
    *,
    cluster: str,
    format_: ClusterFormat | None = None,
    say: Callable[[str], None] = print,
) -> int:
    """Run until a signal stops it; returns the exit code. `say` shows the one-time link to the operator.

    Raises `UsageError`, `ConfigurationError`, `AccessDenied`, `InstallationMismatch`.
    """
    configuration, plugins = temporal_configuration(temporal), plugins_of(temporal)
    tune_garbage_collection()
    stop = stop_on_signals()
    rng = random.Random()  # noqa: S311 - spreads retries, no secret
    server = PageServer(options, lambda link: _announce(link, options.link_file, say))
    await server.start()

    stack = AsyncExitStack()

    async def connect() -> Client:
        client = await Client.connect(
            **configuration, data_converter=data_converter, plugins=plugins, identity=identity(), lazy=True
        )
        await stack.enter_async_context(api_key_renewed(client, temporal))
        return client

    store: Store | None = None
    try:
        store = await unless_stopped(stop, connect_etcd(etcd, rng=rng))
        if store is None:
            return 0
        store = await unless_stopped(stop, _formatted(store, format_))
        if store is None:
            return 0
        following = Following(store, Metrics(), rng=rng)
        namespace = configuration.get("namespace") or DEFAULT_NAMESPACE
        parts = PageParts(following, options, connect, cluster=cluster, namespace=namespace, etcd=etcd)
        server.show(parts)
        await unless_stopped(stop, parts.run())
        return 0
    finally:
        await server.stop()
        await stack.aclose()
        if store is not None:
            await store.close()
        if options.link_file is not None:
            options.link_file.unlink(missing_ok=True)


async def _formatted(store: Store, asked: ClusterFormat | None) -> Store:
    """The store with the keys of its cluster's format. Raises `InstallationMismatch`."""
    while True:
        try:
            return await in_its_format(store, asked)
        except StoreError as error:
            log.warning("waiting_for_etcd error=%r", str(error))
        await asyncio.sleep(AGAIN)


def _announce(link: str, file: Path | None, say: Callable[[str], None]) -> None:
    """Show the link, and keep it where only this user reads it; empty = there is none any more. Raises `UsageError`."""
    if not link:
        if file is not None:
            file.unlink(missing_ok=True)
        return
    if file is not None:
        try:
            temporary = file.with_name(f".{file.name}.{os.getpid()}")
            with suppress(FileNotFoundError):
                temporary.unlink()
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as kept:
                kept.write(f"{link}\n")
            temporary.replace(file)
        except OSError as error:
            raise UsageError(f"--link-file {file}: {error.strerror or error}") from error
    say(link)
