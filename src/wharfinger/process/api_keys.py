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
        while True:
            await asyncio.sleep(EVERY)
            await asyncio.to_thread(renew, client, settings)

    task = asyncio.create_task(keep(), name="api key")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def renew(client: Client, settings: TemporalSettings) -> None:
    """Give the client the key that the configuration has now, if that is another one.

    A configuration that has none, or cannot be read, changes nothing: half of a file that is being written does not.
    """
    try:
        key = temporal_configuration(settings).get("api_key")
    except ConfigurationError as error:
        log.warning("api_key_not_read effect=kept error=%r", str(error))
        return
    if key and key != client.api_key:
        client.api_key = key
        log.info("api_key_renewed")
