"""Other schedulers of the same Kubernetes API: kube-scheduler, and a second installation of wharfinger.

Rows 4 and 12 of the table of interleavings: both bind the same pods; one Lease for two.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.dev_tree import wait_until
from tests.kubernetes.judge import PodHistory, turns
from tests.kubernetes.kube_scheduler_process import KubeSchedulerProcess, missing_scheduler
from tests.kubernetes.objects import names
from tests.kubernetes.settled import all_bound, until_settled
from tests.kubernetes.site import ALL, Installation, KubernetesSite, resume, stop

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

EQUAL = 40.0
"""Binds a second of each of two rivals."""


@pytest.fixture
def schedulers(tmp_path: Path) -> Iterator[list[KubeSchedulerProcess]]:
    """What a test starts is put here, and killed at its end."""
    if reason := missing_scheduler():
        pytest.skip(reason)
    started: list[KubeSchedulerProcess] = []
    try:
        yield started
    finally:
        for each in started:
            each.kill()


def test_each_pod_is_bound_once_beside_a_rival(
    site: KubernetesSite,
    room: dict[str, int],
    installation: Installation,
    history: PodHistory,
    schedulers: list[KubeSchedulerProcess],
    tmp_path: Path,
) -> None:
    """kube-scheduler and wharfinger bind the same pods, both without election; promises that lost are given up."""
    site.create_pods(names("web", ALL - 60))
    workers = installation.start_workers(2, "--no-leader-elect", qps=EQUAL / 3)
    rival = KubeSchedulerProcess(site.api, tmp_path / "rival", elect=False, qps=EQUAL)
    schedulers.append(rival)
    wait_until(lambda: len(installation.promised_and_unbound()) > 20, 60, "many are promised", every=0.05)
    for worker in workers:  # so that kube-scheduler binds one of these, however slowly it starts
        stop(worker)
    promised = set(installation.promised_and_unbound())
    rival.start_and_wait()

    def bound_by_the_rival() -> list[str]:
        return [pod.name for pod in history.now.values() if pod.node and pod.name in promised and not pod.attempt]

    wait_until(bound_by_the_rival, 60, "kube-scheduler has bound one of them", every=0.05)
    for worker in workers:
        resume(worker)
    site.create_pods(names("later", 60))

    def over() -> bool:
        unbound = history.unbound
        promised.update(name for name in installation.promises() if name in unbound)
        return all_bound(site, history)

    wait_until(over, 60, "all are bound by one of them", every=0.05)
    until_settled(site, [installation], history, room, alone=False)
    lost = [name for name in promised if not history.now[name].attempt]
    assert lost
    assert len(lost) < len(promised)
    wait_until(lambda: installation.open_workflows() == [], 30, "the attempts that lost have ended")


def test_one_lease_lets_one_of_two_installations_bind(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory, tmp_path: Path
) -> None:
    """The second one goes on when all workers of the first are killed, and not before its Lease has expired."""
    second = Installation(site, tmp_path)
    try:
        installation.start_worker(qps=EQUAL)
        wait_until(installation.may_bind, 30, "the first holds the Lease")
        second.start_worker()
        site.create_pods(names("early", 120))
        wait_until(lambda: history.bound >= 40, 60, "the first binds", every=0.05)
        assert not second.may_bind()

        installation.kill_workers()
        wait_until(second.may_bind, 60, "the second holds the Lease", every=0.05)
        wait_until(lambda: all_bound(site, history), 60, "all are bound")
        installation.start_worker()
        site.create_pods(names("late", 60))
        until_settled(site, [second, installation], history, room)

        assert turns(history.events, [installation.cluster, second.cluster]) == [installation.cluster, second.cluster]
        assert second.may_bind()
        assert not installation.may_bind()
    finally:
        second.close()


def test_standby_takes_over_from_stopped_workers_and_gives_back(
    site: KubernetesSite,
    room: dict[str, int],
    installation: Installation,
    history: PodHistory,
    schedulers: list[KubeSchedulerProcess],
    tmp_path: Path,
) -> None:
    """kube-scheduler and wharfinger take turns by the Lease that both know; never do both bind."""
    workers = installation.start_workers(2, qps=EQUAL / 2)
    wait_until(installation.may_bind, 30, "wharfinger holds the Lease")
    standby = KubeSchedulerProcess(site.api, tmp_path / "standby", elect=True)
    schedulers.append(standby)
    standby.start_and_wait()
    site.create_pods(names("first", 60))
    wait_until(lambda: history.bound >= 20, 60, "wharfinger binds", every=0.05)

    for worker in workers:
        stop(worker)
    site.create_pods(names("second", 40))
    wait_until(lambda: not site.lease_holder().startswith(installation.cluster), 60, "the Lease has passed", every=0.5)
    wait_until(lambda: all_bound(site, history), 60, "kube-scheduler binds all")
    for worker in workers:
        resume(worker)
    site.create_pods(names("third", 40))
    wait_until(lambda: all_bound(site, history), 60, "kube-scheduler still binds")
    assert not installation.may_bind()

    standby.signal(signal.SIGTERM)
    standby.end(20)
    if not installation.running:  # they lost their leases while they stood still
        installation.start_worker()
    wait_until(installation.may_bind, 60, "wharfinger holds the Lease again", every=0.05)
    site.create_pods(names("fourth", 40))
    until_settled(site, [installation], history, room, alone=False)

    assert turns(history.events) == ["wharfinger", "another", "wharfinger"]
