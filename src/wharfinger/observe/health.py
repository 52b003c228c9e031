"""The health endpoints of a process: `/livez`, `/readyz`, `/metrics`.

`/livez` says that the event loop turns. `/readyz` lists each check with `ok` or why not, and is 503
unless all are ok; `?format=json` (or an Accept header) gives JSON. `/metrics` is Prometheus text: our
instruments, then those of the Temporal SDK.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping

import aiohttp
from aiohttp import web
from prometheus_client import generate_latest

from wharfinger.errors import UsageError
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

OK = "ok"
SDK_TIMEOUT = aiohttp.ClientTimeout(total=2)

Checks = Callable[[], Mapping[str, str]]
"""Answers each check's name with `ok`, or why not."""


class HealthServer:
    """Serves the endpoints from `start` to `stop`. Their content can change while it runs."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        checks: Checks,
        refresh: Callable[[], None] = lambda: None,
        sdk_metrics_url: str = "",
    ) -> None:
        """`refresh` is called before metrics are read; `sdk_metrics_url` is where the SDK's own are."""
        self.checks = checks
        self.refresh = refresh
        self._metrics = metrics
        self._sdk_metrics_url = sdk_metrics_url
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""
        """Base URL while it serves, else empty."""

    async def start(self, address: str, port: int) -> None:
        """Listen; port 0 = any free one. Raises `UsageError` when that cannot be."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/livez", self._livez),
                web.get("/healthz", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._read_metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, address, port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise UsageError(
                f"health endpoints cannot listen on {address}:{port} ({error.strerror or error}): "
                "choose another --health-port, 0 for any free one, -1 for none"
            ) from error
        bound = self._runner.addresses[0][1]
        host = f"[{address}]" if ":" in address else address
        self.url = f"http://{host}:{bound}"
        log.info("health_endpoints_started url=%s", self.url)

    async def stop(self) -> None:
        """Listen no more. Idempotent."""
        self.url = ""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        checks = self.checks()
        ready = all(said == OK for said in checks.values())
        status = 200 if ready else 503
        if request.query.get("format") == "json" or "application/json" in request.headers.get("Accept", ""):
            body = json.dumps({"ready": ready, "checks": dict(checks)})
            return web.Response(text=body, status=status, content_type="application/json")
        lines = [f"[{'+' if said == OK else '-'}] {name}: {said}" for name, said in checks.items()]
        lines.append("ready" if ready else "not ready")
        return web.Response(text="\n".join(lines) + "\n", status=status)

    async def _read_metrics(self, _request: web.Request) -> web.Response:
        self.refresh()
        text = generate_latest(self._metrics.registry) + await self._sdk_text()
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _sdk_text(self) -> bytes:
        if not self._sdk_metrics_url:
            return b""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=SDK_TIMEOUT)
        try:
            async with self._session.get(self._sdk_metrics_url) as answer:
                return await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            log.debug("sdk_metrics_unreadable error=%r", str(error))
            return b""
