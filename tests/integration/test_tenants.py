"""A tenant's pods belong to the tenant's workers while the tenant exists, and change hands with it."""

from __future__ import annotations

import pytest

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import ATTEMPTS, NODES, PODS, TENANTS, Gateway, audit, bound_pods, node, pod

pytestmark = pytest.mark.timeout(180)

BLUE = {"wharfinger.dev/tenant": "blue"}


def chains(etcd: Gateway, namespace: str) -> set[str]:
    """Run ids of the records that pods of a namespace wait with."""
    return {value["run_id"] for value in etcd.objects(f"{ATTEMPTS}{namespace}/").values()}


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
    wait_until(lambda: len(chains(etcd, "blue")) == 20, 30, "all wait, for there is no node")
    before = chains(etcd, "blue")

    blue = start_worker("--tenant", "blue")
    etcd.put(f"{TENANTS}blue", "{}")
    for number in range(10):
        etcd.put(f"{PODS}blue/late{number}", pod(f"late{number}", namespace="blue", labels=BLUE))
    waiting = 'scheduler_pending_pods{queue="unschedulable"}'
    wait_until(lambda: blue.metrics()[waiting] == 20, 30, "the tenant's pods wait at the tenant's worker")
    wait_until(lambda: common.metrics()[waiting] == 10, 30, "the others stay")
    wait_until(lambda: len(chains(etcd, "blue") & before) == 10, 30, "chains on the other task queue started anew")
    assert len(chains(etcd, "blue")) == 30

    for number in range(2):
        etcd.put(f"{NODES}n{number}", node(f"n{number}"))
    wait_until(lambda: len(bound_pods(etcd, "blue")) == 30, 40, "all bound")
    assert common.metrics()['scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}'] == 10
    assert blue.metrics()['scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}'] == 20
    assert audit(etcd, first).doubled == []


def test_a_tenant_that_ends_leaves_its_pods_to_the_common_pool_even_when_its_workers_are_gone(
    servers: DevTree, start_worker: StartWorker
) -> None:
    etcd = servers.etcd
    etcd.put(f"{TENANTS}blue", "{}")
    common, blue = start_worker(), start_worker("--tenant", "blue")
    for number in range(10):
        etcd.put(f"{PODS}ends/p{number}", pod(f"p{number}", namespace="ends", labels=BLUE))
    wait_until(lambda: len(chains(etcd, "ends")) == 10, 30, "all wait")
    assert blue.stop() == 0
    etcd.put(f"{NODES}n0", node("n0"))
    etcd.put(f"{PODS}ends/plain", pod("plain", namespace="ends"))
    wait_until(lambda: bound_pods(etcd, "ends") == {"plain": "n0"}, 20, "only the common pool's pod bound")

    etcd.delete(f"{TENANTS}blue")
    wait_until(lambda: len(bound_pods(etcd, "ends")) == 11, 40, "the common pool takes over")
    assert common.metrics()['scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}'] == 11


@pytest.mark.parametrize("name", ["control", "host", "default", "Blue", "a/b"])
def test_a_name_that_no_tenant_can_have_is_refused_in_one_line(servers: DevTree, name: str) -> None:
    done = servers.cli("worker", "--tenant", name, check=False)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
