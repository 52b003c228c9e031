"""A process with `/metrics` and `/health`, whose answers a test sets: a worker, a hub, or an etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class MetricsProcess:
    """Answers with what a test says, to clients that have the token."""

    body: str = ""
    """What `/metrics` serves."""
    health: str = '{"health":"true"}'
    """What `/health` serves; without `true` in it, with status 503."""
    status: int = 200
    token: str = ""
    """Without it `/metrics` answers 401; empty = it is open to all."""
    url: str = ""
    """Where it serves."""
    credentials: list[str | None] = field(default_factory=list)
    """What came with each request for `/metrics`."""

    async def _metrics(self, request: web.Request) -> web.Response:
        self.credentials.append(request.headers.get("Authorization"))
        if self.token and self.credentials[-1] != f"Bearer {self.token}":
            return web.Response(status=401)
        return web.Response(text=self.body, status=self.status)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text=self.health, status=200 if "true" in self.health else 503)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[MetricsProcess]:
        """It answers during the block, and refuses connections after it."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/health", self._health)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()
