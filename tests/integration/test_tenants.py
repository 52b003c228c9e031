"""A tenant's pods belong to the tenant's workers while the tenant exists, and change hands with it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from temporalio.client import Client

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import ATTEMPTS, NODES, PODS, TENANTS, Gateway, audit, bound_pods, node, pod, refusals

pytestmark = pytest.mark.timeout(400)

BLUE = {"wharfinger.dev/tenant": "blue"}
WAITING = 'scheduler_pending_pods{queue="unschedulable"}'


def chains(etcd: Gateway, namespace: str) -> set[str]:
    """Run ids of the records that pods of a namespace wait with."""
    return {record["run_id"] for record in refusals(etcd, f"{ATTEMPTS}{namespace}/")}


async def bound_on(tree: DevTree, namespace: str) -> Counter[str]:
    """How many pods of a namespace were bound by attempts on each task queue, which one pool of workers polls.

    Told by the pods and their attempts: what a worker counts itself lacks a bind whose answer came too late.
    """
    client = await Client.connect(tree.ready["temporal"])
    queues: Counter[str] = Counter()
    for value in tree.etcd.objects(f"{PODS}{namespace}/").values():
        workflow, _, run = value["metadata"]["annotations"]["wharfinger.dev/attempt"].rpartition("@")
        queues[(await client.get_workflow_handle(workflow, run_id=run).describe()).task_queue] += 1
    return queues


def test_waiting_pods_change_workers_with_their_tenant_and_are_bound(
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
    assert asyncio.run(bound_on(servers, "blue")) == {"wharfinger/common": 10, "wharfinger/blue": 20}
    assert audit(etcd, first).doubled == []


def test_pods_of_a_deleted_tenant_go_to_common_even_without_its_workers(
    servers: DevTree, start_worker: StartWorker
) -> None:
    etcd = servers.etcd
    etcd.put(f"{TENANTS}blue", "{}")
    start_worker()
    blue = start_worker("--tenant", "blue")
    for number in range(10):
        etcd.put(f"{PODS}ends/p{number}", pod(f"p{number}", namespace="ends", labels=BLUE))
    wait_until(lambda: len(chains(etcd, "ends")) == 10, 60, "all wait")
    assert blue.stop() == 0
    etcd.put(f"{NODES}n0", node("n0"))
    etcd.put(f"{PODS}ends/plain", pod("plain", namespace="ends"))
    wait_until(lambda: bound_pods(etcd, "ends") == {"plain": "n0"}, 60, "only the common pool's pod bound")

    etcd.delete(f"{TENANTS}blue")
    wait_until(lambda: len(bound_pods(etcd, "ends")) == 11, 90, "the common pool takes over")
    assert asyncio.run(bound_on(servers, "ends")) == {"wharfinger/common": 11}


@pytest.mark.parametrize("name", ["control", "host", "default", "Blue", "a/b"])
def test_a_name_that_no_tenant_can_have_is_refused_in_one_line(servers: DevTree, name: str) -> None:
    done = servers.cli("worker", "--tenant", name, check=False)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
