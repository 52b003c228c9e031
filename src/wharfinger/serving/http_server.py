"""aiohttp behind a listener: one handler for every request, limits of what is read, and an end in time.

What all HTTP servers here have in common: `serving.server`, for health and metrics, and that of the web page. What
they answer is theirs.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from wharfinger.serving.listening import ConnectionLimits, Listener

_aiohttp = logging.getLogger("wharfinger.serving.protocol")
_aiohttp.setLevel(logging.CRITICAL + 1)  # it logs requests that it cannot read, with what they contain: tokens as well

LONGEST_LINE = 8190
"""Bytes of the request line, and of one header."""
MOST_HEADERS = 64
SHUTDOWN = 0.5
"""Seconds that requests get when the server stops."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Unreadable = Callable[[int], web.Response]
BeforeHeaders = Callable[[web.Request, web.StreamResponse], Awaitable[None]]


class ReticentProtocol(web.RequestHandler):
    """aiohttp's, except that it does not repeat what it cannot read, and does not name itself."""

    __slots__ = ("_unreadable",)

    def __init__(self, server: web.Server, *, unreadable: Unreadable, **options: Any) -> None:
        super().__init__(server, **options)
        self._unreadable = unreadable

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,  # noqa: ARG002
        message: str | None = None,  # noqa: ARG002 - it has the request's own bytes
    ) -> web.StreamResponse:
        """The answer to what is no request, or failed before any handler. Raises `ConnectionError`: too late."""
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer was sent already")
        response = self._unreadable(status)
        response.headers["Server"] = "-"  # aiohttp fills in its own name and version where there is none
        response.force_close()
        return response


class HttpServer:
    """Hands every request to one handler from `start` to `stop`."""

    def __init__(
        self,
        handler: Handler,
        before_headers: BeforeHeaders,
        limits: ConnectionLimits,
        unreadable: Unreadable = lambda status: web.Response(text=f"{status}\n", status=status),
    ) -> None:
        """`before_headers` is called with each response before its headers are sent; `unreadable` makes the answer, of
        a status, to what cannot be read as a request.
        """
        self._unreadable = unreadable
        self._handler = handler
        self._before_headers = before_headers
        self._limits = limits
        self._runner: web.AppRunner | None = None
        self._listener: Listener | None = None

    async def start(self, sockets: Sequence[socket.socket], address: str, context: ssl.SSLContext | None) -> str:
        """Accept on the sockets, which are closed with the server; answers the base URL.

        `address`: as the user gave it, for the URL; `context`: None = plain HTTP.
        """
        app = web.Application(logger=_aiohttp)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.on_response_prepare.append(self._before_headers)
        self._runner = web.AppRunner(app, access_log=None, logger=_aiohttp, shutdown_timeout=SHUTDOWN)
        await self._runner.setup()
        server = self._runner.server
        assert server is not None, "the runner is set up"
        self._listener = Listener(lambda: self._protocol(server), context, self._limits)
        self._listener.start(sockets)
        host = f"[{address}]" if ":" in address else address or "0.0.0.0"  # noqa: S104 - a URL
        return f"{'https' if context is not None else 'http'}://{host}:{sockets[0].getsockname()[1]}"

    def _protocol(self, server: web.Server) -> ReticentProtocol:
        """For one connection."""
        return ReticentProtocol(
            server,
            loop=asyncio.get_running_loop(),
            unreadable=self._unreadable,
            access_log=None,
            logger=_aiohttp,
            keepalive_timeout=self._limits.next_request,
            lingering_time=0,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            max_headers=MOST_HEADERS,
        )

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """A whole request has come in."""
        connection = self._listener.begin(request.protocol) if self._listener is not None else None
        try:
            return await self._handler(request)
        finally:
            if connection is not None:
                connection.end()

    def admit(self, request: web.Request) -> None:
        """Who sent the request is let in: its connection gives way after those of strangers."""
        if self._listener is not None:
            self._listener.admit(request.protocol)

    async def stop(self) -> None:
        """Listen no more; requests under way have half a second. Idempotent."""
        listener, self._listener = self._listener, None
        runner, self._runner = self._runner, None
        if listener is not None:
            await listener.close()
        if runner is not None:
            await runner.cleanup()
        if listener is not None:
            listener.cut_off_all()
