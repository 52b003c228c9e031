"""Temporal's API key, read again while a process runs: one that was rotated in the SDK's configuration file counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client

from wharfinger.errors import ConfigurationError
from wharfinger.process.connecting import temporal_configuration
from wharfinger.settings import TemporalSettings

log = logging.getLogger(__name__)

EVERY = 30.0
"""Seconds between two looks at the file."""


@asynccontextmanager
async def api_key_renewed(client: Client, settings: TemporalSettings) -> AsyncIterator[None]:
    """Keep the client's API key as the configuration has it, for as long as the block runs."""

    async def keep() -> None:
        said = ""
        while True:
            await asyncio.sleep(EVERY)
            why = await asyncio.to_thread(renew, client, settings)
            if why and why != said:
                log.warning("api_key_not_renewed error=%r", why)
            said = why

    task = asyncio.create_task(keep(), name="api key")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def renew(client: Client, settings: TemporalSettings) -> str:
    """Give the client the key that the configuration has now, if that is another one; answers why not, if it could not.

    A configuration that has none changes nothing, nor does one that cannot be read: it may just be written. A client
    that connected without a key gets none, because its connection may be without TLS.
    """
    try:
        key = temporal_configuration(settings).get("api_key")
    except ConfigurationError as error:
        return str(error)
    if not key or key == client.api_key:
        return ""
    if client.api_key is None:
        return "this process connected without an API key: restart it"
    client.api_key = key
    log.info("api_key_renewed")
    return ""
