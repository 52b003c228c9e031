"""Two nodes of twenty vanish while worker processes are killed: every pod is there again, and bound to a node.

Judged from etcd's own revision history, through a client that is none of ours.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, Gateway, audit, node, pod
from tests.integration.worker_process import WorkerProcess

pytestmark = pytest.mark.timeout(240)

REQUEUE = ("--lost-pods=requeue", "--lost-after=2s")
REQUEUED = "/registry/wharfinger.dev/requeued/"
PODS_PUT = 120


def lost(etcd: Gateway) -> int:
    """Pods on nodes that do not exist."""
    nodes = {key.removeprefix(NODES) for key in etcd.objects(NODES)}
    bound = (value["spec"].get("nodeName") for value in etcd.objects(PODS).values())
    return sum(bool(name) and name not in nodes for name in bound)


def bound(etcd: Gateway) -> int:
    return sum(bool(value["spec"].get("nodeName")) for value in etcd.objects(PODS).values())


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(lambda etcd, before: lost(etcd) < before or etcd.values(REQUEUED), id="while pods are deleted"),
        pytest.param(lambda etcd, before: True, id="while the node is waited for"),
    ],
)
def test_killed_workers_lose_no_pod_of_a_lost_node(
    servers: DevTree, start_worker: StartWorker, begun: Callable[[Gateway, int], object]
) -> None:
    etcd = servers.etcd
    first = etcd.revision() + 1
    for number in range(20):
        etcd.put(f"{NODES}n{number:02}", node(f"n{number:02}", cpu="8"))
    workers: list[WorkerProcess] = [start_worker(*REQUEUE) for _ in range(2)]
    for number in range(PODS_PUT):
        etcd.put(f"{PODS}default/p{number:03}", pod(f"p{number:03}", cpu="200m"))
    wait_until(lambda: bound(etcd) == PODS_PUT, 60, "every pod bound")

    for name in ("n00", "n01"):
        etcd.delete(f"{NODES}{name}")
    before = lost(etcd)
    assert before > 0
    wait_until(lambda: begun(etcd, before), 60, "the moment to strike", every=0.005)
    for worker in workers:
        worker.process.kill()
        worker.process.wait()
    start_worker(*REQUEUE)

    wait_until(lambda: lost(etcd) == 0 and bound(etcd) == PODS_PUT, 90, "every pod bound to a node that exists")
    verdict = audit(etcd, first)
    assert len(etcd.objects(PODS)) == PODS_PUT
    assert verdict.doubled == []
    assert verdict.overcommitted == []
    assert verdict.pending == set()
    assert etcd.values(REQUEUED) == {}
