"""What a web page of another origin gets from the etcd that `dev` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import EtcdServer as RunningEtcd
from tests.dev.web_page import asked
from wharfinger.dev.etcd import EtcdServer

RANGE = b'{"key": "AA==", "range_end": "AA==", "limit": 1}'
"""Any key of all."""


@pytest.mark.servers
def test_no_page_reads_answers_or_finds_it_under_another_name(etcd_server: RunningEtcd) -> None:
    status, headers, _ = asked(etcd_server.url, "kv/range", RANGE, Origin="https://elsewhere.example")
    assert status == 200
    assert "access-control-allow-origin" not in headers

    for host in ("elsewhere.example:2379", "127.0.0.1.elsewhere.example"):
        assert asked(etcd_server.url, "kv/range", RANGE, Host=host)[0] == 421
    assert asked(etcd_server.url, "kv/range", RANGE, Host="localhost:1")[0] == 200


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
