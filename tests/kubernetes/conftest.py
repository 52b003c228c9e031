"""A Kubernetes API that the tests of a process share, and an installation of wharfinger for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.apiserver import api_server_process
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.site import Installation, KubernetesSite

StartInstallation = Callable[[], Installation]


@pytest.fixture(scope="package")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesSite]:
    """One for all; tests may kill its servers, and start them again on what they have kept."""
    if reason := api_server_process.missing():
        pytest.skip(reason)
    site = KubernetesSite(tmp_path_factory.mktemp("site"))
    try:
        yield site.start()
    finally:
        site.close()


@pytest.fixture
def site(shared_site: KubernetesSite) -> KubernetesSite:
    """The shared one, without nodes and pods; up again, should a test that failed have left it otherwise."""
    if shared_site.api.process is None:
        shared_site.api.start()
    shared_site.clear()
    return shared_site


@pytest.fixture
def room(site: KubernetesSite) -> dict[str, int]:
    """Twelve nodes, each with room for fifteen pods: thousandths of a CPU, by node."""
    return site.create_nodes()


@pytest.fixture
def installation(site: KubernetesSite, tmp_path: Path) -> Iterator[Installation]:
    """Without workers."""
    with closing(Installation(site, tmp_path)) as found:
        yield found


@pytest.fixture
def history(site: KubernetesSite, room: dict[str, int]) -> Iterator[PodHistory]:
    """What the API shows of pods from now on."""
    with closing(PodHistory(site.api)) as found:
        yield found
