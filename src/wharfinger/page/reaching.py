"""Temporal, reached when somebody asks for something that it has; and whether it answers, while somebody looks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from wharfinger.errors import WharfingerError

log = logging.getLogger(__name__)

ASK_EVERY = 3.0
"""Seconds."""
WITHIN = 2.0


class TemporalReach:
    """The client, and how Temporal answered last."""

    def __init__(self, connect: Callable[[], Awaitable[Client]], clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._connect = connect
        self._clock = clock
        self._client: Client | None = None
        self._silent_since: float | None = None
        self._asked = False

    async def client(self) -> Client:
        """The client; made at the first call."""
        if self._client is None:
            self._client = await self._connect()
        return self._client

    def told(self) -> dict[str, Any]:
        """Whether it answers (null = nobody asked yet), and how long it has not."""
        silent = self._clock() - self._silent_since if self._silent_since is not None else 0.0
        return {"answers": self._silent_since is None if self._asked else None, "silentSeconds": round(silent)}

    async def run(self, wanted: Callable[[], bool]) -> None:
        """Ask again and again while it is wanted, until cancelled."""
        while True:
            if wanted():
                await self._ask()
            await asyncio.sleep(ASK_EVERY)

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(WITHIN):
                await (await self.client()).service_client.check_health()
            self._silent_since = None
        except (RPCError, RuntimeError, TimeoutError, OSError, WharfingerError) as error:
            log.debug("temporal_silent error=%r", str(error))
            self._silent_since = self._silent_since if self._silent_since is not None else self._clock()
        self._asked = True
