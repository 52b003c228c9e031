"""The scenarios with gangs and graphics cards of libscheduler's `tests/xline_test.rs` (May 2026), on a real etcd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Rk8sCluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOMAIN = "topology.rk8s.io/nvlink-domain"


def gpu_node(name: str, cards: int, **labels: str) -> dict[str, Any]:
    known = {"nvidia.com/gpu.count": str(cards), "nvidia.com/gpu.memory-gib": "80"}
    return docs.node(name, "64", "256Gi", labels={**known, **labels})


def gang(size: int, **spec: Any) -> Mapping[str, dict[str, Any]]:
    """Its members, each with two cards of 20 GiB."""
    limits = {"gpu": 2, "gpu_memory": "20Gi"}
    names = [f"member-{number}" for number in range(size)]
    return {name: docs.pod(name, limits=limits, gang={"id": "train", "size": size}, **spec) for name in names}


async def test_gpu_gang_same_domain(cluster: Rk8sCluster) -> None:
    members = gang(4, topology_constraints=[{"topology_key": DOMAIN, "same_value": True}])
    await cluster.put(gpu_node("node-a", 8, **{DOMAIN: "domain0"}), gpu_node("node-b", 4, **{DOMAIN: "domain1"}))
    await cluster.put(*members.values())
    assert set((await cluster.bound(*members)).values()) == {"node-a"}
    stored = [(await cluster.store.get(f"/registry/pods/{name}")).kv for name in members]
    assert len({kv.mod_revision for kv in stored if kv is not None}) == 1  # together


async def test_gang_without_topology(cluster: Rk8sCluster) -> None:
    members = gang(3)
    await cluster.put(gpu_node("node-a", 8), *members.values())
    assert set((await cluster.bound(*members)).values()) == {"node-a"}


async def test_partial_gang(cluster: Rk8sCluster) -> None:
    members = gang(4)
    await cluster.put(gpu_node("node-a", 4), *members.values())
    for name in members:
        assert "gang needs 4 members placed together, 2 fit." in await cluster.refused(name)
