"""From connection options to open connections: etcd as a `Store`, Temporal as a client.

Errors are one line that says what to do; `cli.main` prints them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from wharfinger.cli.options import ConnectionOptions
from wharfinger.errors import ServerError, Unavailable

if TYPE_CHECKING:
    from temporalio.client import Client

    from wharfinger.registry.store import Store

FIRST_ANSWER = 5.0
"""Seconds within which etcd, and Temporal, must answer for the first time: a person waits."""

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end on a fresh event loop."""
    return asyncio.run(main)


@asynccontextmanager
async def open_store(connection: ConnectionOptions, *, within: float = FIRST_ANSWER) -> AsyncIterator[Store]:
    """The etcd that the options name, asked once so that a wrong address is reported at once: `within` so many seconds.

    Its keys are those of its cluster's format. Raises `Unavailable`, `AccessDenied`, and `InstallationMismatch` when
    the options name another format.
    """
    from wharfinger.client.cluster_format import in_its_format
    from wharfinger.registry.etcd import EtcdStore

    try:
        store = await EtcdStore.connect(connection.etcd, within=within)
    except Unavailable as error:
        raise _no_etcd(connection, error) from error
    try:
        yield await in_its_format(store, connection.format)
    finally:
        await store.close()


def _no_etcd(connection: ConnectionOptions, error: Unavailable) -> Unavailable:
    addresses = ", ".join(connection.etcd.endpoints)
    reason = str(error.__cause__ or error)
    return Unavailable(
        f"cannot reach etcd at {addresses} ({reason[:100]}): is it running? "
        "(`wharfinger dev` starts one; --etcd names it)"
    )


async def open_temporal(connection: ConnectionOptions, *, within: float = FIRST_ANSWER) -> Client:
    """A Temporal client with pydantic's data converter, which has answered within so many seconds.

    TLS and API keys come from the SDK's environment configuration. Raises `ServerError`, and
    `ConfigurationError` when that configuration is malformed.
    """
    from temporalio.client import Client

    from wharfinger.client.starts import temporal_configuration
    from wharfinger.contracts.conversion import data_converter

    configuration = temporal_configuration(connection.temporal)
    try:
        async with asyncio.timeout(within):
            return await Client.connect(**configuration, data_converter=data_converter)
    except (RuntimeError, ValueError, OSError) as error:
        address = configuration.get("target_host", "")
        raise ServerError(
            f"cannot reach Temporal at {address}: is it running? (`wharfinger dev` starts one; --temporal names it)"
        ) from error
