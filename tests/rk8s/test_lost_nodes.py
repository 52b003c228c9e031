"""Pods whose node is not there: which of them are made anew. How is in `test_in_place.py`."""

from __future__ import annotations

import asyncio

from tests.patience import patient
from tests.rk8s.conftest import Rk8sCluster
from tests.rk8s.rk8s_documents import node, pod


async def test_a_pod_that_names_no_node_of_the_cluster_is_made_anew_and_placed(rk8s: Rk8sCluster) -> None:
    """libscheduler never places it: `invalid_node_name` of its `tests/edge_cases.rs`."""
    await rk8s.put(node("node1"), pod("p", node_name="nowhere"))
    first = (await rk8s.store.get("/registry/pods/p")).kv
    await rk8s.worker()
    await _placed(rk8s, "p", "node1")
    second = (await rk8s.store.get("/registry/pods/p")).kv
    assert first is not None
    assert second is not None
    assert second.create_revision > first.create_revision


async def test_pods_of_a_node_that_cannot_be_read_stay_where_they_are(rk8s: Rk8sCluster) -> None:
    """The pod of a node that is gone is made anew after the same time, so the other one would have been, too."""
    await rk8s.put(node("node1"), node("node2"), node("node3"))
    await rk8s.put(pod("stays", node_name="node1"), pod("lost", node_name="node2"))
    before = (await rk8s.store.get("/registry/pods/stays")).kv
    await rk8s.worker()
    await rk8s.put_raw("/registry/nodes/node1", b"kind: Node\n")
    await rk8s.delete("node2", kind="nodes")
    await _placed(rk8s, "lost", "node3")
    assert (await rk8s.store.get("/registry/pods/stays")).kv == before


async def _placed(rk8s: Rk8sCluster, name: str, on: str) -> None:
    async with asyncio.timeout(patient(30)):
        while await rk8s.node_of(name) != on:
            await asyncio.sleep(0.05)
