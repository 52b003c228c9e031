"""What a web page of another origin gets from the etcd that `dev` runs."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.conftest import EtcdServer as RunningEtcd
from tests.patience import patient
from wharfinger.dev.etcd import EtcdServer

RANGE = b'{"key": "AA==", "range_end": "AA==", "limit": 1}'
"""Any key of all."""


def asked(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """The answer to a simple POST, as a browser sends it without asking before."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=patient(5))
    try:
        connection.request("POST", "/v3/kv/range", RANGE, {"Content-Type": "text/plain", **headers})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


@pytest.mark.servers
def test_no_page_reads_answers_or_finds_it_under_another_name(etcd_server: RunningEtcd) -> None:
    status, headers, _ = asked(etcd_server.url, Origin="https://elsewhere.example")
    assert status == 200
    assert "access-control-allow-origin" not in headers

    for host in ("elsewhere.example:2379", "127.0.0.1.elsewhere.example"):
        assert asked(etcd_server.url, Host=host)[0] == 421
    assert asked(etcd_server.url, Host="localhost:1")[0] == 200


@pytest.mark.parametrize(
    ("host", "hosts"),
    [
        ("127.0.0.1", ("127.0.0.1", "localhost")),
        ("10.1.2.3", ("127.0.0.1", "localhost", "10.1.2.3")),
        ("0.0.0.0", ("*",)),
    ],
)
def test_hosts_follow_the_address(host: str, hosts: tuple[str, ...]) -> None:
    server = EtcdServer(Path("etcd"), Path("data"), 2379, host=host)

    assert server.hosts == hosts
    assert f"--host-whitelist={','.join(hosts)}" in server.command()
