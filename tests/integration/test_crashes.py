"""SIGKILL in the middle of 150 pods: everything is bound within 60 s after the process is back.

Judged from etcd's own revision history, through a client that is none of ours.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.dev_tree import LEASE_TTL, DevTree, wait_until
from tests.integration.gateway import NODES, PODS, audit, node, pod

pytestmark = pytest.mark.timeout(240)

MANY = 150
"""Pods; the nodes have room for all of them."""


def _bound(tree: DevTree) -> int:
    try:
        values = tree.etcd.objects(PODS)
    except OSError:
        return -1
    return sum(1 for value in values.values() if (value.get("spec") or {}).get("nodeName"))


def test_workers_hold_their_leases_as_long_as_configured(cluster: DevTree) -> None:
    """Of those that hold: one of a worker that a test before killed may end while they are looked at."""
    etcd = cluster.etcd
    granted: list[str] = []

    def some() -> list[str]:
        leases = etcd.call("/lease/leases", {}).get("leases", ())
        found = [etcd.call("/lease/timetolive", {"ID": lease["ID"]}) for lease in leases]
        granted[:] = [one["grantedTTL"] for one in found if int(one["TTL"]) >= 0]
        return granted

    wait_until(some, 20, "a worker holds a lease")
    assert set(granted) == {str(LEASE_TTL)}


@pytest.mark.parametrize(
    "strike",
    [
        pytest.param(lambda tree: tree.kill("workers", 0), id="one of two workers"),
        pytest.param(lambda tree: (tree.kill("workers", 0), tree.kill("workers", 1)), id="all workers"),
        pytest.param(lambda tree: tree.kill("temporal"), id="Temporal"),
        pytest.param(lambda tree: tree.kill("etcd"), id="etcd"),
    ],
)
def test_nothing_is_lost_doubled_or_overcommitted(cluster: DevTree, strike: Callable[[DevTree], object]) -> None:
    etcd = cluster.etcd
    first = etcd.revision() + 1
    for number in range(30):
        etcd.put(f"{NODES}n{number:02}", node(f"n{number:02}", cpu="8"))
    for number in range(MANY):
        etcd.put(f"{PODS}default/p{number:03}", pod(f"p{number:03}", cpu="200m"))
    wait_until(lambda: _bound(cluster) > 50, 60, "some pods bound")

    strike(cluster)

    wait_until(lambda: _bound(cluster) == MANY, 60, "all pods bound")
    verdict = audit(cluster.etcd, first)
    assert verdict.doubled == []
    assert verdict.overcommitted == []
    assert verdict.pending == set()
    assert len(verdict.bound) == MANY
