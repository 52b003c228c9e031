"""A folder of `wharfinger dev` through a clean stop and the death of everything at once: waiting pods go on waiting."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import ATTEMPTS, NODES, PODS, bound_pods, node, pod, refusals
from tests.integration.worker_process import total
from wharfinger.process.children.lives import ProcessLife, life

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]


def lives(tree: DevTree) -> list[ProcessLife]:
    """Every process of the tree but the supervisor."""
    pids = tree.ready["pids"]
    found = [life(pid) for pid in (pids["etcd"], pids["temporal"], *pids["workers"])]
    return [life for life in found if life is not None]


def waiting(tree: DevTree) -> float:
    """Pods that wait at the workers, as these say."""
    return total(tree.ready["health"], "scheduler_pending_pods", 'queue="unschedulable"')


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[DevTree]:
    """Of which nothing is left in the end."""
    tree = DevTree(tmp_path, workers=2)
    yield tree
    tree.end()


def test_waiting_pods_and_their_history_outlive_a_stop_and_a_crash_of_all(tree: DevTree) -> None:
    tree.start()
    tree.etcd.put(f"{NODES}small", node("small", cpu="1"))
    for number in range(20):
        tree.etcd.put(f"{PODS}default/w{number:02}", pod(f"w{number:02}", cpu="2"))
    wait_until(lambda: len(refusals(tree.etcd)) == 20, 60, "all refused")
    wait_until(lambda: waiting(tree) == 20, 60, "all wait")
    records, objects = tree.etcd.values(ATTEMPTS), tree.etcd.values(PODS)
    known = lives(tree)
    assert tree.stop() == 0  # within 20 s of a machine of its own
    assert not any(life.alive for life in known)

    tree.start()
    wait_until(lambda: waiting(tree) == 20, 60, "the waiting pods are taken over")
    assert sum(group["count"] for group in json.loads(tree.cli("pending", "-o", "json").stdout)) == 20
    assert tree.etcd.values(PODS) == objects
    assert tree.etcd.values(ATTEMPTS) == records
    assert "Insufficient cpu" in tree.cli("explain", "pod", "default/w07").stdout

    known = lives(tree)
    assert tree.process is not None
    for pid in (tree.process.pid, *(one.pid for one in known)):
        with contextlib.suppress(ProcessLookupError):  # children die with their supervisor, maybe before us
            os.kill(pid, signal.SIGKILL)
    tree.process.wait()
    wait_until(lambda: not any(life.alive for life in known), 30, "all gone")

    tree.start()
    for number in range(5):
        tree.etcd.put(f"{NODES}large{number}", node(f"large{number}", cpu="8"))
    wait_until(lambda: len(bound_pods(tree.etcd)) == 20, 90, "all bound")
    told = tree.cli("explain", "pod", "default/w07").stdout
    assert "Insufficient cpu" in told  # the attempt of two lives ago
    assert bound_pods(tree.etcd)["w07"] in told
    assert tree.stop() == 0
