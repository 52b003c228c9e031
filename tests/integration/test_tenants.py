"""A tenant's pods belong to the tenant's workers while the tenant exists, and change hands with it."""

from __future__ import annotations

import pytest

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import ATTEMPTS, NODES, PODS, TENANTS, Gateway, audit, bound_pods, node, pod
from tests.integration.worker_process import WorkerProcess

pytestmark = pytest.mark.timeout(400)

BLUE = {"wharfinger.dev/tenant": "blue"}
SCHEDULED = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}'
WAITING = 'scheduler_pending_pods{queue="unschedulable"}'


def chains(etcd: Gateway, namespace: str) -> set[str]:
    """Run ids of the records that pods of a namespace wait with."""
    return {value["run_id"] for value in etcd.objects(f"{ATTEMPTS}{namespace}/").values()}


def counted(worker: WorkerProcess, metric: str, number: int) -> None:
    """Wait until a worker counts so many, which it does a moment after etcd shows them; and not more."""
    wait_until(lambda: worker.metrics().get(metric, 0) >= number, 60, f"{metric} is {number}")
    assert worker.metrics()[metric] == number


def test_waiting_pods_change_hands_with_their_tenant_and_are_bound_by_its_workers(
    servers: DevTree, start_worker: StartWorker
) -> None:
    etcd = servers.etcd
    first = etcd.revision() + 1
    common = start_worker()
    for number in range(10):
        etcd.put(f"{PODS}blue/early{number}", pod(f"early{number}", namespace="blue", labels=BLUE))
        etcd.put(f"{PODS}blue/plain{number}", pod(f"plain{number}", namespace="blue"))
    # There is no such tenant yet: the label is a label.
    wait_until(lambda: len(chains(etcd, "blue")) == 20, 60, "all wait, for there is no node")
    before = chains(etcd, "blue")

    blue = start_worker("--tenant", "blue")
    etcd.put(f"{TENANTS}blue", "{}")
    for number in range(10):
        etcd.put(f"{PODS}blue/late{number}", pod(f"late{number}", namespace="blue", labels=BLUE))
    wait_until(lambda: blue.metrics().get(WAITING) == 20, 60, "the tenant's pods wait at the tenant's worker")
    wait_until(lambda: common.metrics().get(WAITING) == 10, 60, "the others stay")

    def moved() -> bool:
        now = chains(etcd, "blue")
        return len(now) == 30 and len(now & before) == 10

    wait_until(moved, 60, "chains on the other task queue started anew")

    for number in range(2):
        etcd.put(f"{NODES}n{number}", node(f"n{number}"))
    wait_until(lambda: len(bound_pods(etcd, "blue")) == 30, 90, "all bound")
    counted(common, SCHEDULED, 10)
    counted(blue, SCHEDULED, 20)
    assert audit(etcd, first).doubled == []


def test_a_tenant_that_ends_leaves_its_pods_to_the_common_pool_even_when_its_workers_are_gone(
    servers: DevTree, start_worker: StartWorker
) -> None:
    etcd = servers.etcd
    etcd.put(f"{TENANTS}blue", "{}")
    common, blue = start_worker(), start_worker("--tenant", "blue")
    for number in range(10):
        etcd.put(f"{PODS}ends/p{number}", pod(f"p{number}", namespace="ends", labels=BLUE))
    wait_until(lambda: len(chains(etcd, "ends")) == 10, 60, "all wait")
    assert blue.stop() == 0
    etcd.put(f"{NODES}n0", node("n0"))
    etcd.put(f"{PODS}ends/plain", pod("plain", namespace="ends"))
    wait_until(lambda: bound_pods(etcd, "ends") == {"plain": "n0"}, 60, "only the common pool's pod bound")

    etcd.delete(f"{TENANTS}blue")
    wait_until(lambda: len(bound_pods(etcd, "ends")) == 11, 90, "the common pool takes over")
    counted(common, SCHEDULED, 11)


@pytest.mark.parametrize("name", ["control", "host", "default", "Blue", "a/b"])
def test_a_name_that_no_tenant_can_have_is_refused_in_one_line(servers: DevTree, name: str) -> None:
    done = servers.cli("worker", "--tenant", name, check=False)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
