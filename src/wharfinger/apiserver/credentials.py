"""Who we are to an API server: identities, and when they are read again.

A `Source` makes an identity from what it reads (`credential_files.py`, `exec_plugin.py`). `RenewedCredentials` decides
when it reads again: when that is due, shortly before the identity expires, and after the server has refused it. One
renewal serves all callers, and none blocks the event loop. Nothing secret is in any `repr`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from wharfinger.errors import UpstreamDenied

log = logging.getLogger(__name__)

RETRY_AFTER = 5.0
"""Seconds after a failed renewal until the next one, so that a failing plugin is not run for each request."""
SETTLING = 5.0
"""Seconds after a renewal that a 401 caused in which another 401 is about the identity before it."""


@dataclass(frozen=True, slots=True)
class ApiIdentity:
    """What is shown to the server with each request; without both, we are anonymous."""

    token: str = field(default="", repr=False)
    """Bearer token."""
    username: str = ""
    """Of basic authentication, for a proxy that asks for it; servers of today do not."""
    password: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    """PEM, with its chain; empty = no client certificate."""
    key: bytes = field(default=b"", repr=False)
    """PEM, of the certificate."""


class Credentials(Protocol):
    """Who we are now. Files and plugins behind it are read again when they are due."""

    async def current(self) -> ApiIdentity:
        """The identity for the next request; quick where nothing is due. Raises `UpstreamDenied`, with one line
        that names the file or the plugin, when there is none to be had.
        """

    def refused(self) -> None:
        """The server answered 401: `current` reads everything again the next time."""


@dataclass(frozen=True, slots=True)
class Access:
    """One API server, as one user."""

    server: str
    """`https://host:port`, perhaps with a path; `http` only where the file says so."""
    credentials: Credentials = field(repr=False)
    ca: bytes = field(default=b"", repr=False)
    """PEM of the authorities that may sign the server's certificate; empty = the system's."""
    verify: bool = True
    """False only where the user asked for it twice: in the file and by `--allow-insecure-upstream`."""
    tls_server_name: str = ""
    """Name that the certificate must have; empty = the host of the URL."""
    proxy: str = field(default="", repr=False)
    """`http://` or `https://` URL of a proxy, perhaps with a password; empty = none."""
    namespace: str = ""
    """What the context names; empty = `default`."""


@dataclass(frozen=True, slots=True)
class HeldIdentity:
    """An identity, and how long it is good for."""

    identity: ApiIdentity
    reread_after: float = math.inf
    """Seconds after which it is read again before it is used. If that fails, it stays in use."""
    renew_at: float = math.inf
    """Unix time from which it is renewed in the background."""
    expires_at: float = math.inf
    """Unix time from which it is useless."""


class Source(Protocol):
    """Where an identity comes from."""

    @property
    def title(self) -> str:
        """Files, fields or commands, for log lines."""

    async def read(self) -> HeldIdentity:
        """The identity as it is now. Raises `UpstreamDenied`, with one line and no secret."""


@dataclass(frozen=True, slots=True)
class ApiClocks:
    """The time, for what depends on it."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds."""
    now: Callable[[], float] = time.time
    """Unix time; what expires names it, and a `Retry-After` that is a date."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits for so many seconds."""


class RenewedCredentials:
    """`Credentials` from one source. Calls of `current` during a renewal share it.

    A failed renewal of an identity that is still valid is logged, and the identity stays in use. Without a valid
    identity, every call raises, and the source is read again after `RETRY_AFTER`.
    """

    def __init__(self, source: Source, clocks: ApiClocks, first: HeldIdentity | None = None) -> None:
        """`first`: what the source has read just now, where it has."""
        self._source = source
        self._clocks = clocks
        self._held: HeldIdentity | None = None
        self._due = math.inf
        self._renewal: asyncio.Task[HeldIdentity] | None = None
        self._answers_refusal = False
        self._settled_at = -math.inf
        self._failure: UpstreamDenied | None = None
        self._retry_at = -math.inf
        if first is not None:
            self._keep(first)

    async def current(self) -> ApiIdentity:
        """The identity for the next request. Raises `UpstreamDenied`."""
        held = self._held
        if held is None or self._clocks.now() >= held.expires_at:
            return (await self._renewed()).identity
        if self._clocks.monotonic() >= self._due:
            try:
                return (await self._shared_renewal()).identity
            except UpstreamDenied:
                return held.identity  # the failure is in the log
        if self._clocks.now() >= held.renew_at and self._clocks.monotonic() >= self._retry_at:
            self._begin()
        return held.identity

    def refused(self) -> None:
        """The server answered 401: read everything again before the next use."""
        if self._clocks.monotonic() < self._settled_at:
            return
        self._held = None
        self._answers_refusal = True
        self._retry_at = -math.inf

    async def _renewed(self) -> HeldIdentity:
        waits = self._clocks.monotonic() < self._retry_at
        if waits and self._failure is not None and not self._is_renewing():
            raise UpstreamDenied(str(self._failure)) from self._failure
        return await self._shared_renewal()

    async def _shared_renewal(self) -> HeldIdentity:
        # A caller that is cancelled must not cancel the renewal of the others.
        return await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[HeldIdentity]:
        """The renewal that runs, or a new one."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.get_running_loop().create_task(self._renew())
            # asyncio reports exceptions that are never retrieved, as in the background; `_renew` logs them.
            self._renewal.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._renewal

    def _is_renewing(self) -> bool:
        return self._renewal is not None and not self._renewal.done()

    async def _renew(self) -> HeldIdentity:
        try:
            held = await self._source.read()
        except UpstreamDenied as error:
            self._failure = error
            self._retry_at = self._due = self._clocks.monotonic() + RETRY_AFTER
            effect = "requests_fail" if self._held is None else "old_ones_stay_in_use"
            log.warning("credentials_not_renewed effect=%s source=%r error=%r", effect, self._source.title, str(error))
            raise
        return self._keep(held)

    def _keep(self, held: HeldIdentity) -> HeldIdentity:
        if self._held is not None and self._held.identity == held.identity:
            # Callers see by the object whether anything is new.
            held = replace(held, identity=self._held.identity)
        self._held = held
        self._failure = None
        self._retry_at = -math.inf
        self._due = self._clocks.monotonic() + held.reread_after
        if self._answers_refusal:
            self._settled_at = self._clocks.monotonic() + SETTLING
            self._answers_refusal = False
        return held
