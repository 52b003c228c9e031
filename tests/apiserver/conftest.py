"""Real Kubernetes API servers. Tests that use them are skipped where none was built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.apiserver import api_server_process
from tests.apiserver.api_server_process import ApiServerProcess
from wharfinger.dev.kube_apiserver import ApiserverUser

StartKubeApiserver = Callable[..., ApiServerProcess]
_SHARED = pytest.StashKey[ApiServerProcess]()


def _skip_where_missing() -> None:
    reason = api_server_process.missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def kube_apiserver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ApiServerProcess:
    """One that tests share: they keep to namespaces, nodes and users of their own, and leave it running.

    Each folder that imports this fixture has one of its own; all of them give the same server. Nodes and pods for
    `default-scheduler` are not left there: workers of other folders schedule them.
    """
    _skip_where_missing()
    config = request.config
    if _SHARED not in config.stash:
        process = ApiServerProcess(tmp_path_factory.mktemp("kube-apiserver"))
        request.session.addfinalizer(process.kill_all)
        config.stash[_SHARED] = process.start()
    return config.stash[_SHARED]


@pytest.fixture
def mortal_kube_apiserver(kube_apiserver: ApiServerProcess) -> Iterator[ApiServerProcess]:
    """The shared one, for a test that kills and starts it: it keeps its objects, and is up again afterwards.

    It ends with the thread that starts it, so that must be the main one.
    """
    yield kube_apiserver
    if kube_apiserver.process is None or kube_apiserver.process.poll() is not None:
        kube_apiserver.start()


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
