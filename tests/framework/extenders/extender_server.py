"""A real extender for tests: an HTTP server whose verbs are functions, and which remembers what it was asked."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

Verb = Callable[[Any], Any] | Callable[[web.Request], Awaitable[web.StreamResponse]]


class ExtenderServer:
    """Serves `POST /<verb>`: a plain function gets the request's JSON, a coroutine the request itself."""

    def __init__(self) -> None:
        self.verbs: dict[str, Verb] = {}
        self.asked: list[tuple[str, Any]] = []
        """Verb and JSON of each request, as they arrived."""
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        verb = request.match_info["verb"]
        self.asked.append((verb, orjson.loads(await request.read())))
        self.headers.append(dict(request.headers))
        answer = self.verbs[verb]
        if inspect.iscoroutinefunction(answer):
            response: web.StreamResponse = await answer(request)
            return response
        return web.Response(body=orjson.dumps(answer(self.asked[-1][1])), content_type="application/json")

    @asynccontextmanager
    async def serving(self, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """Its URL while it serves."""
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/{verb}", self.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        assert runner.server is not None
        made = runner.server

        def connected() -> asyncio.Protocol:
            self.connections += 1
            return made()

        server = await asyncio.get_running_loop().create_server(connected, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        finally:
            server.close()
            await runner.cleanup()
