"""Workers of a real Kubernetes API are killed: what they promised is bound, and another one copies.

Rows 2 and 9 of the table of interleavings: a crash between the transaction and the POST; a dead importer.
"""

from __future__ import annotations

import time

import pytest

from tests.integration.dev_tree import wait_until
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.objects import names
from tests.kubernetes.settled import all_bound, until_settled
from tests.kubernetes.site import ALL, Installation, KubernetesSite
from tests.patience import patient

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

SLOW = 30.0
"""Binds a second: a flood's promises wait for seconds."""
TAKEN_OVER = 12.0
"""Seconds after which another worker is the importer: etcd's lease of 8 s, and as etcd looks for what has expired."""


def test_promises_of_killed_workers_are_kept(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    """All workers are killed with binds committed that were not sent; their successors sweep them."""
    site.create_pods(names("web", ALL))
    installation.start_workers(2, qps=SLOW)
    wait_until(lambda: len(installation.promised_and_unbound()) > 20, 60, "many are promised", every=0.05)

    installation.kill_workers()

    left = installation.promised_and_unbound()
    assert left
    installation.start_workers(2)
    until_settled(site, [installation], history, room)
    assert history.lists == 0
    promised_once = {name: history.now[name].attempt for name in left}
    assert all(promised_once.values())


def test_one_worker_after_the_other_is_killed_in_a_flood(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    installation.start_workers(2, qps=SLOW * 2)
    site.create_pods(names("web", ALL))

    for share in (0.15, 0.35, 0.55):
        wait_until(lambda least=share * ALL: history.bound >= least, 60, f"{share:.0%} are bound", every=0.05)
        installation.kill_workers(installation.running[0])
        installation.start_worker(qps=SLOW * 2, wait=False)

    until_settled(site, [installation], history, room)
    assert history.lists == 0


def test_another_worker_copies_when_the_importer_is_killed(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    installation.start_workers(2)
    site.create_pods(names("before", 20))
    wait_until(lambda: all_bound(site, history), 60, "they are bound")
    importer = installation.until_importer()

    killed = time.monotonic()
    installation.kill_workers(importer)
    site.create_pods(names("meanwhile", 20))
    site.delete_pods(names("before", 10))

    successor = installation.until_importer(but=importer)
    assert time.monotonic() - killed < patient(TAKEN_OVER)
    assert successor.process.poll() is None
    until_settled(site, [installation], history, room)
