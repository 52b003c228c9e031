"""Accepts connections: a bounded number, each with time limits, so that no client can keep others away.

::

    accept ──► handshake (10 s) ──► first request (10 s) ──► response ──► next request (90 s)
                    └──────────────────── all places taken: the connection without progress for longest is cut off

Progress is a whole request, so neither a silent client nor one that sends a byte at a time keeps its place. Where the
server says whom it let in (`Listener.admit`), strangers give way first, whatever they are doing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from wharfinger.errors import UsageError

log = logging.getLogger(__name__)

BACKLOG = 128
PAUSE = 0.5
"""Seconds before accepting again when this process has no file descriptors left."""

ProtocolFactory = Callable[[], asyncio.Protocol]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one client may take; seconds."""

    connections: int = 100
    """At a time, all clients together."""
    handshake: float = 10.0
    """For TLS."""
    first_request: float = 10.0
    """From the connection to its first whole request."""
    next_request: float = 90.0
    """From a request's end to the next whole one: more than the usual interval of a scrape."""
    answer: float = 30.0
    """For one page."""


USUAL = ConnectionLimits()


def open_sockets(address: str, port: int, *, dual: bool, share_port: bool) -> list[socket.socket]:
    """Sockets that listen on the address; port 0 = any free one.

    `dual`: whether an unspecified address (`0.0.0.0`, `::`, empty) means all addresses of both families. Raises
    `OSError`.
    """
    if dual and address in ("", "0.0.0.0", "::") and socket.has_dualstack_ipv6():  # noqa: S104 - the user asks for it
        return [socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG, reuse_port=share_port
        )]  # fmt: skip
    found = socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, host in dict.fromkeys((family, str(where[0])) for family, _, _, _, where in found):
            chosen = port or (sockets[0].getsockname()[1] if sockets else 0)  # the same free port for every address
            sockets.append(socket.create_server((host, chosen), family=family, backlog=BACKLOG, reuse_port=share_port))
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return sockets


class AcceptedConnection(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's protocol, and keeps the time."""

    def __init__(self, inner: asyncio.Protocol, listener: Listener, limits: ConnectionLimits) -> None:
        self.inner = inner
        self._limits = limits
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        """The handshake, while it is under way."""
        self.busy = False
        """Whether a request is being answered."""
        self.admitted = False
        """Whether who is at the other end was let in."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done, if there is any."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses
        self._wait(self._limits.first_request)
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The place is free."""
        self._stop_waiting()
        self._listener.ended(self)
        self.inner.connection_lost(exc)

    def begin(self) -> None:
        """A whole request has come in."""
        self.busy = True
        self._stop_waiting()

    def end(self) -> None:
        """The request is answered, but for what the client has not read yet."""
        self.busy = False
        self._wait(self._limits.next_request)

    def cut_off(self) -> None:
        """End at once, whatever is under way."""
        self._stop_waiting()
        if self._transport is not None:
            self._transport.abort()
        elif self.task is not None:
            self.task.cancel()

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        if self._transport is not None and not self._transport.is_closing():
            self._timer = asyncio.get_running_loop().call_later(seconds, self.cut_off)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Listener:
    """Accepts on some sockets until it is closed."""

    def __init__(
        self, factory: ProtocolFactory, context: ssl.SSLContext | None, limits: ConnectionLimits = USUAL
    ) -> None:
        """`factory` makes aiohttp's protocol for a connection; `context`: None = plain HTTP."""
        self._factory = factory
        self._context = context
        self._limits = limits
        self._sockets: Sequence[socket.socket] = ()
        self._accepting: list[asyncio.Task[None]] = []
        self._connections: dict[asyncio.Protocol, AcceptedConnection] = {}
        """By aiohttp's protocol; the one without progress for longest comes first."""
        self._displaced = 0

    def __len__(self) -> int:
        return len(self._connections)

    def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept on these sockets, which are closed with the listener."""
        self._sockets = sockets
        for listening in sockets:
            listening.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(listening)))

    async def close(self) -> None:
        """Accept no more, and end what only shakes hands. Idempotent."""
        accepting, self._accepting = self._accepting, []
        shaking = [one.task for one in self._connections.values() if one.task is not None]
        for task in (*accepting, *shaking):
            task.cancel()
        await asyncio.gather(*accepting, *shaking, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        self._sockets = ()

    def cut_off_all(self) -> None:
        """End every connection at once."""
        for connection in list(self._connections.values()):
            connection.cut_off()

    def begin(self, inner: asyncio.Protocol) -> AcceptedConnection | None:
        """A whole request has come in on the connection of aiohttp's protocol; None when that is gone."""
        connection = self._connections.pop(inner, None)
        if connection is not None:
            self._connections[connection.inner] = connection
            connection.begin()
        return connection

    def admit(self, inner: asyncio.Protocol) -> None:
        """Who is at the other end of this connection was let in."""
        connection = self._connections.get(inner)
        if connection is not None:
            connection.admitted = True

    def ended(self, connection: AcceptedConnection) -> None:
        """The connection is gone."""
        self._connections.pop(connection.inner, None)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    log.warning("accept_failed error=%r", error.strerror)
                    await asyncio.sleep(PAUSE)
                continue  # the client went away before it was accepted
            self._make_room()
            connection = AcceptedConnection(self._factory(), self, self._limits)
            self._connections[connection.inner] = connection
            connection.task = asyncio.create_task(self._open(connection, accepted))

    def _make_room(self) -> None:
        if len(self._connections) < self._limits.connections:
            return
        oldest = min(self._connections.values(), key=lambda one: (one.admitted, one.busy))  # the first of the least
        self.ended(oldest)
        oldest.cut_off()
        self._displaced += 1
        if self._displaced & (self._displaced - 1) == 0:  # at 1, 2, 4, 8, ...: a flood must not fill the log
            most = self._limits.connections
            log.warning("connections_cut_off most=%d total=%d", most, self._displaced)

    async def _open(self, connection: AcceptedConnection, accepted: socket.socket) -> None:
        loop, secured = asyncio.get_running_loop(), self._context is not None
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.handshake if secured else None,
                ssl_shutdown_timeout=2.0 if secured else None,
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError: no TLS, or no certificate we know
            log.debug("connection_refused error=%r", str(error))
            self._give_up(connection, accepted)
        except asyncio.CancelledError:
            self._give_up(connection, accepted)
            raise
        finally:
            connection.task = None

    def _give_up(self, connection: AcceptedConnection, accepted: socket.socket) -> None:
        self.ended(connection)
        with contextlib.suppress(OSError):  # uvloop has closed what it was given
            accepted.close()


def cannot_listen(address: str, port: int, error: OSError, *, kubernetes: bool) -> UsageError:
    """One line that says what to do."""
    advice = (
        "choose another --secure-port or --bind-address, or --secure-port 0 to serve nothing"
        if kubernetes
        else "choose another --health-port, 0 for any free one, -1 for none"
    )
    what = "the secure port" if kubernetes else "health endpoints"
    return UsageError(f"{what} cannot listen on {address}:{port} ({error.strerror or error}): {advice}")
