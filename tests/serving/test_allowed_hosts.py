"""Which hosts plain HTTP may be called by: a web page whose name was made to point here gets nothing."""

from __future__ import annotations

import aiohttp
import pytest

from wharfinger.serving.allowed_hosts import AllowedHosts
from wharfinger.serving.content import Content
from wharfinger.serving.options import of_process
from wharfinger.serving.server import Server
from wharfinger.telemetry import Metrics

FOREIGN = ("evil.example", "evil.example:10259", "127.0.0.1.evil.example", "localhost.evil.example.", "", "a.b@c")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:10259",
        "[::1]:10259",
        "10.1.2.3",
        "localhost",
        "LOCALHOST:1",
        "worker:10259",
        "wharfinger.scheduling.svc:10259",
        "wharfinger.scheduling.svc.cluster.local.",
        "node-7.dc.example.org",
        "metrics.example.com",
        None,
    ],
)
def test_addresses_private_names_and_those_that_were_given_are_let_in(host: str | None) -> None:
    assert AllowedHosts(["Metrics.example.com"], own="node-7.dc.example.org").allow(host)


@pytest.mark.parametrize("host", FOREIGN)
def test_names_of_other_sites_are_not(host: str) -> None:
    assert not AllowedHosts(["metrics.example.com"], own="node-7").allow(host)


async def test_a_page_under_its_own_name_reads_neither_health_nor_metrics() -> None:
    server = Server(of_process("127.0.0.1", 0, allowed_hosts=("named.example",)), Content(Metrics().registry))
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as client:
            for path in ("/livez", "/readyz", "/metrics"):
                for host, status in (("evil.example", 421), ("named.example", 200), ("127.0.0.1:1", 200)):
                    async with client.get(path, headers={"Host": host}) as answer:
                        assert answer.status == status, (path, host)
                        assert status == 200 or "--allowed-host" in await answer.text()
    finally:
        await server.stop()
