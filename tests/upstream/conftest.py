"""Real Kubernetes API servers. Tests that use them are skipped where none was built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.upstream import api_server_process
from tests.upstream.api_server_process import ApiServerProcess
from wharfinger.dev.kube_apiserver_files import ApiserverUser

StartKubeApiserver = Callable[..., ApiServerProcess]


def _skip_where_missing() -> None:
    reason = api_server_process.missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def kube_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    """One that tests share: they keep to namespaces, nodes and users of their own, and leave it running."""
    _skip_where_missing()
    process = ApiServerProcess(tmp_path_factory.mktemp("kube-apiserver"))
    try:
        yield process.start()
    finally:
        process.kill_all()


@pytest.fixture
def start_kube_apiserver(tmp_path: Path) -> Iterator[StartKubeApiserver]:
    """Starts API servers with an etcd each, which the test may kill and stop; all are killed at the end."""
    _skip_where_missing()
    started: list[ApiServerProcess] = []

    def start(*, users: Sequence[ApiserverUser] = (), options: Sequence[str] = ()) -> ApiServerProcess:
        process = ApiServerProcess(tmp_path / f"kubernetes{len(started)}", users=users, options=options)
        started.append(process)
        return process.start()

    try:
        yield start
    finally:
        for process in started:
            process.kill_all()
