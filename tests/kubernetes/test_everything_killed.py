"""All processes of a cluster are killed at once: API server, both etcds, Temporal, workers. All return."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.apiserver import api_server_process
from tests.integration.dev_tree import wait_until
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.objects import names
from tests.kubernetes.settled import until_settled
from tests.kubernetes.site import ALL, Installation, KubernetesSite

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

SLOW = 8.0
"""Binds a second of one worker: many of a flood's promises wait for ten seconds, however late this test looks."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[KubernetesSite]:
    """One of the test's own, whose Temporal keeps what it has."""
    if reason := api_server_process.missing():
        pytest.skip(reason)
    with closing(KubernetesSite(tmp_path / "own", durable=True)) as found:
        yield found.start()


def test_all_are_bound_after_everything_was_killed_in_a_flood(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    """Workers start first: they wait for the servers, which come one after the other."""
    site.create_pods(names("web", ALL))
    installation.start_workers(2, qps=SLOW)
    wait_until(lambda: history.bound >= 20 and len(installation.promises()) > 30, 60, "a part is bound", every=0.05)

    site.api.kill_all()
    installation.etcd.kill()
    site.temporal.kill()
    installation.kill_workers()

    for _ in range(2):
        installation.start_worker(wait=False)
    site.temporal.start()
    installation.etcd.start()
    site.temporal.wait_up(40)
    site.api.start()
    until_settled(site, [installation], history, room)
    for worker in installation.running:
        worker.wait_ready()
    assert len(installation.running) == 2
