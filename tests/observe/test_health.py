"""The health endpoints, asked over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from wharfinger.errors import UsageError
from wharfinger.observe.health import HealthServer
from wharfinger.telemetry import Metrics


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def health() -> AsyncIterator[HealthServer]:
    server = HealthServer(Metrics(), checks=lambda: {"synced": "ok", "lease": "no lease is held"})
    await server.start("127.0.0.1", 0)
    yield server
    await server.stop()


async def test_alive_means_that_the_event_loop_turns(health: HealthServer, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{health.url}/livez") as answer:
        assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_readyz_names_the_failing_check_with_its_reason(
    health: HealthServer, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{health.url}/readyz") as answer:
        assert answer.status == 503
        assert await answer.text() == "[+] synced: ok\n[-] lease: no lease is held\nnot ready\n"


async def test_ready_when_every_check_is_ok(health: HealthServer, http: aiohttp.ClientSession) -> None:
    health.checks = lambda: {"synced": "ok"}
    async with http.get(f"{health.url}/readyz?format=json") as answer:
        assert answer.status == 200
        assert await answer.json() == {"ready": True, "checks": {"synced": "ok"}}


async def test_gauges_are_brought_up_to_date_when_metrics_are_read(
    health: HealthServer, http: aiohttp.ClientSession
) -> None:
    metrics = Metrics()
    server = HealthServer(metrics, checks=dict, refresh=lambda: metrics.members.set(3))
    await server.start("127.0.0.1", 0)
    async with http.get(f"{server.url}/metrics") as answer:
        text = await answer.text()
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    await server.stop()

    assert "wharfinger_members 3.0" in text
    assert "_created" not in text


async def test_the_sdks_metrics_follow_ours_and_may_be_missing(http: aiohttp.ClientSession) -> None:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text="temporal_num_pollers 5\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sdk = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    server = HealthServer(Metrics(), checks=dict, sdk_metrics_url=sdk)
    await server.start("127.0.0.1", 0)
    async with http.get(f"{server.url}/metrics") as answer:
        assert (await answer.text()).endswith("temporal_num_pollers 5\n")
    await runner.cleanup()
    async with http.get(f"{server.url}/metrics") as answer:
        assert answer.status == 200
    await server.stop()


async def test_a_port_that_is_taken_is_one_clear_line(health: HealthServer) -> None:
    taken = int(health.url.rpartition(":")[2])

    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{taken}.*--health-port"):
        await HealthServer(Metrics(), checks=dict).start("127.0.0.1", taken)
