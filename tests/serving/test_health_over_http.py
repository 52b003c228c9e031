"""The health pages, asked over HTTP."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web

from tests.serving.serving import content, get, serving
from wharfinger.errors import UsageError
from wharfinger.serving.options import ServingOptions, of_process
from wharfinger.serving.server import Server
from wharfinger.telemetry import Metrics

OWN = of_process("127.0.0.1", 0)
KUBERNETES = ServingOptions(kubernetes=True, open=True)
ONE_FAILS = {"synced": "ok", "lease": "no lease is held"}


async def test_alive_means_that_the_event_loop_turns() -> None:
    async with serving(OWN, content(checks=lambda: ONE_FAILS)) as server:
        assert await get(server, "/livez") == (200, "ok\n")
        assert await get(server, "/healthz") == (200, "ok\n")


async def test_readyz_names_the_failing_check_with_its_reason() -> None:
    async with serving(OWN, content(checks=lambda: ONE_FAILS)) as server:
        answer = await get(server, "/readyz")

    assert answer == (503, "[+] synced: ok\n[-] lease: no lease is held\nnot ready\n")


async def test_ready_when_every_check_is_ok() -> None:
    async with serving(OWN) as server:
        assert await get(server, "/readyz") == (200, "[+] etcd: ok\nready\n")
        async with aiohttp.ClientSession() as http, http.get(f"{server.url}/readyz?format=json") as answer:
            assert answer.status == 200
            assert await answer.json() == {"ready": True, "checks": {"etcd": "ok"}}


async def test_checks_may_be_replaced_while_the_server_runs() -> None:
    async with serving(OWN) as server:
        server.content.checks = lambda: ONE_FAILS
        assert (await get(server, "/readyz"))[0] == 503


async def test_an_excluded_check_does_not_count() -> None:
    async with serving(OWN, content(checks=lambda: ONE_FAILS)) as server:
        assert await get(server, "/readyz?exclude=lease") == (200, "[+] synced: ok\nready\n")


async def test_every_check_has_a_page() -> None:
    async with serving(OWN, content(checks=lambda: ONE_FAILS)) as server:
        assert await get(server, "/readyz/synced") == (200, "ok")
        assert await get(server, "/readyz/lease") == (503, "internal server error: no lease is held\n")
        assert (await get(server, "/readyz/other"))[0] == 404
        assert await get(server, "/livez/ping") == (200, "ok")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_kubernetes_form_says_ok_alone(path: str) -> None:
    async with serving(KUBERNETES) as server:
        assert await get(server, path) == (200, "ok")


async def test_kubernetes_form_lists_checks_when_asked() -> None:
    pages = content(checks=lambda: {"leaderElection": "ok", "sched-handler-sync": "ok"})
    async with serving(KUBERNETES, pages) as server:
        verbose = await get(server, "/readyz?verbose")
        excluding = await get(server, "/readyz?verbose&exclude=leaderElection&exclude=nothing")
        alive = await get(server, "/livez?verbose")

    assert verbose == (200, "[+]leaderElection ok\n[+]sched-handler-sync ok\nreadyz check passed\n")
    assert excluding[1] == (
        "[+]leaderElection excluded: ok\n[+]sched-handler-sync ok\n"
        'warn: some health checks cannot be excluded: no matches for "nothing"\nreadyz check passed\n'
    )
    assert alive == (200, "[+]ping ok\nlivez check passed\n")


async def test_kubernetes_form_withholds_reasons(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with serving(KUBERNETES, content(checks=lambda: ONE_FAILS)) as server:
        answer = await get(server, "/readyz")

    assert answer == (500, "[+]synced ok\n[-]lease failed: reason withheld\nreadyz check failed\n")
    assert "no lease is held" in caplog.text


async def test_results_of_checks_are_counted() -> None:
    said = {"etcd": "ok"}
    async with serving(KUBERNETES, content(checks=lambda: said)) as server:
        await get(server, "/readyz")
        said["etcd"] = "no answer"
        await get(server, "/readyz")
        _, text = await get(server, "/metrics/slis")

    assert 'kubernetes_healthcheck{name="etcd",type="readyz"} 0.0' in text
    assert 'kubernetes_healthchecks_total{name="etcd",status="success",type="readyz"} 1.0' in text
    assert 'kubernetes_healthchecks_total{name="etcd",status="error",type="readyz"} 1.0' in text


async def test_gauges_are_brought_up_to_date_when_metrics_are_read() -> None:
    metrics = Metrics()
    pages = content(refresh=lambda: metrics.members.set(3))
    pages.registry = metrics.registry
    async with serving(OWN, pages) as server, aiohttp.ClientSession() as http, http.get(f"{server.url}/metrics") as got:
        text = await got.text()
        assert got.headers["Content-Type"].startswith("text/plain; version=0.0.4")

    assert "wharfinger_members 3.0" in text
    assert "_created" not in text


async def test_the_sdks_metrics_follow_ours_and_may_be_missing() -> None:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text="temporal_num_pollers 5\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sdk = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    async with serving(OWN, content(sdk_metrics_url=sdk)) as server:
        there = await get(server, "/metrics")
        await runner.cleanup()
        missing = await get(server, "/metrics")

    assert there[1].endswith("temporal_num_pollers 5\n")
    assert missing[0] == 200
    assert "temporal_num_pollers" not in missing[1]


@pytest.mark.parametrize(("kubernetes", "advice"), [(False, "--health-port"), (True, "--secure-port")])
async def test_a_port_that_is_taken_is_one_clear_line(kubernetes: bool, advice: str) -> None:
    async with serving(OWN) as server:
        taken = int(server.url.rpartition(":")[2])
        other = Server(ServingOptions(port=taken, kubernetes=kubernetes, open=True), content())

        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{taken}.*{advice}"):
            await other.start()


async def test_nothing_is_served_on_a_port_below_zero() -> None:
    async with serving(ServingOptions(port=-1)) as server:
        assert server.url == ""
