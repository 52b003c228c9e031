"""Temporal, reached when somebody asks for something that it has; and whether it answers, while somebody looks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError

from wharfinger.errors import ServerError, WharfingerError

log = logging.getLogger(__name__)

T = TypeVar("T")

ASK_EVERY, ASK_AGAIN = 3.0, 1.0
"""Seconds between two questions while it answers, and while it does not."""
WITHIN, FIRST_WITHIN = 2.0, 5.0
"""Seconds for an answer, and for the first one, which needs a connection."""
LOOK_EVERY = 0.2
"""Seconds between two looks whether a call that is under way has to be given up."""


class TemporalReach:
    """The client, and how Temporal answered last."""

    def __init__(self, connect: Callable[[], Awaitable[Client]], clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._connect = connect
        self._clock = clock
        self._client: Client | None = None
        self._silent_since: float | None = None
        self._asked = False
        self._looked = float("-inf")
        """When it was asked last."""

    async def client(self) -> Client:
        """The client; made at the first call. Raises `ServerError` at once while Temporal is known not to answer."""
        if self._silent and self._clock() - self._looked <= ASK_AGAIN + 2 * WITHIN:
            raise ServerError(self._said())
        return await self._made()

    async def soon(self, call: Coroutine[Any, Any, T]) -> T:
        """What the call answers; given up as soon as Temporal turns out not to answer. Raises `ServerError`."""
        asking = asyncio.ensure_future(call)
        began = self._clock()
        try:
            while not (await asyncio.wait({asking}, timeout=LOOK_EVERY))[0]:
                if self._silent and self._looked > began:
                    raise ServerError(self._said())
            return asking.result()
        finally:
            asking.cancel()

    async def _made(self) -> Client:
        if self._client is None:
            client = await self._connect()
            try:
                async with asyncio.timeout(FIRST_WITHIN):
                    await client.service_client.check_health()
            except (RPCError, RuntimeError, TimeoutError, OSError) as error:  # a lazy client says so at its first call
                log.debug("temporal_unreached error=%r", str(error))
                raise ServerError("Temporal cannot be reached") from error
            self._client = client
        return self._client

    @property
    def _silent(self) -> bool:
        """Whether it has not answered more than once: a busy server may be late."""
        return self._silent_since is not None and self._looked > self._silent_since

    def _said(self) -> str:
        return f"Temporal has not answered for {self._clock() - (self._silent_since or 0.0):.0f} s"

    def told(self) -> dict[str, Any]:
        """Whether it answers (null = nobody asked yet), and how long it has not."""
        silent = self._clock() - self._silent_since if self._silent_since is not None else 0.0
        return {"answers": self._silent_since is None if self._asked else None, "silentSeconds": round(silent)}

    async def run(self, wanted: Callable[[], bool]) -> None:
        """Ask again and again while it is wanted, until cancelled."""
        while True:
            if wanted():
                await self._ask()
            await asyncio.sleep(ASK_EVERY if self._silent_since is None else ASK_AGAIN)

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(WITHIN):
                await (await self._made()).service_client.check_health()
            self._silent_since = None
        except (RPCError, RuntimeError, TimeoutError, OSError, WharfingerError) as error:
            log.debug("temporal_silent error=%r", str(error))
            self._silent_since = self._silent_since if self._silent_since is not None else self._clock()
        self._asked = True
        self._looked = self._clock()
