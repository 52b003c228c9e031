"""The scenarios of libscheduler's `tests/test_scheduler.rs`, on a real etcd: each test has the name of its scenario.

A selector of a node is a required node affinity here, a node that takes no pods has a taint, and priority and gates are
annotations, because rk8s' documents have no other place for them. Where a pod stays without a node, its attempt record
says why. `basic_assign` and `scoring_strategies` need other strategies too: see `test_strategies.py`.
"""

from __future__ import annotations

import pytest

from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Rk8sCluster, Served
from tests.rk8s.rk8s_documents import expression, node, node_affinity, pod, pod_affinity, pod_term, taint, toleration
from wharfinger.scheduling.state.queue.entry import Part

pytestmark = pytest.mark.asyncio(loop_scope="module")

ZONE_A, ZONE_B = {"zone": "zone-a"}, {"zone": "zone-b"}
NEAR_WEB = pod_term("zone", app="web")


async def test_backoff_and_recover(cluster: Rk8sCluster) -> None:
    await cluster.put(pod("p", "100", "100"))
    assert await cluster.refused("p") == "no nodes available to schedule pods"
    await cluster.put(node("node1", "200", "200"))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_priority_scheduling(cluster: Rk8sCluster) -> None:
    wanted = {"low": 1, "high": 100, "med": 50}
    await cluster.put_at_once(
        node("node1", "10", "10000"), *(pod(name, "1", "1000", priority=one) for name, one in wanted.items())
    )
    assert await cluster.bound_in_order(*wanted) == ["high", "med", "low"]


async def test_resource_constraints(cluster: Rk8sCluster) -> None:
    await cluster.put_at_once(
        node("small", "2", "1024"),
        node("large", "10", "10240"),
        pod("small-pod", "1", "512", priority=1),
        pod("large-pod", "8", "8192", priority=10),
    )
    assert await cluster.bound("small-pod", "large-pod") == {"small-pod": "small", "large-pod": "large"}


async def test_node_affinity_required(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels={"zone": "us-west"}), node("node2", labels={"zone": "us-east"}))
    await cluster.put(pod("p", affinity=node_affinity([expression("zone", "In", "us-west")])))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_node_affinity_preferred(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1"), node("node2", labels={"preferred": "true"}))
    await cluster.put(pod("p", affinity=node_affinity(preferred={100: [expression("preferred", "Exists")]})))
    assert await cluster.bound("p") == {"p": "node2"}


async def test_taint_toleration(cluster: Rk8sCluster) -> None:
    await cluster.put(node("tainted", "100", "100000", taints=[taint("NodeNotReady", "true")]))
    await cluster.put(node("clean", "10", "10000"))
    await cluster.put(pod("tolerant", "1", "1000", tolerations=[toleration("NodeNotReady", "true")]))
    await cluster.put(pod("plain", "1", "1000"))
    assert await cluster.bound("tolerant", "plain") == {"tolerant": "tainted", "plain": "clean"}


async def test_node_name_selector(served: Served) -> None:
    """In the store, a pod that names a node is on it: it holds its room there, and no attempt is made."""
    cluster = served.cluster
    await cluster.put(node("other-node"), node("target-node", "4"), pod("p", "3", node_name="target-node"))
    await cluster.put(pod("next", "2"))
    assert await cluster.bound("next") == {"next": "other-node"}
    assert await cluster.value("p") == cluster.stored["/registry/pods/p"]


async def test_unschedulable_node(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", "100", taints=[taint("NodeUnschedulable")]), node("node2"), pod("p"))
    assert await cluster.bound("p") == {"p": "node2"}


async def test_scheduling_gates(served: Served) -> None:
    cluster = served.cluster
    await cluster.put(node("node1"), pod("gated", gates=("first", "second")), pod("plain"))
    assert await cluster.bound("plain") == {"plain": "node1"}
    entry = next(served.worker.queue.get(key) for key in served.worker.queue if key.name == "gated")
    assert entry is not None
    assert (entry.part, entry.gate) == (Part.GATED, "SchedulingGates")
    assert await cluster.node_of("gated") == ""


async def test_scoring_strategies(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", "10", "10000"), node("node2", "10", "10000"))
    await cluster.put(pod("large", "8", "8000", node_name="node1"), pod("small", "2", "2000", node_name="node2"))
    await cluster.put(pod("p", "1", "1000"))
    assert await cluster.bound("p") == {"p": "node2"}


async def test_node_selector(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels={"env": "development"}), node("node2", labels={"env": "production"}))
    await cluster.put(pod("p", affinity=node_affinity([expression("env", "In", "production")])))
    assert await cluster.bound("p") == {"p": "node2"}


async def test_multiple_nodes_balanced_allocation(cluster: Rk8sCluster) -> None:
    await cluster.put(*(node(name, "100", "100000") for name in ("node1", "node2", "node3")))
    await cluster.put(pod("on-1", "50", "10000", node_name="node1"), pod("on-2", "10", "50000", node_name="node2"))
    await cluster.put(pod("p", "10", "10000"))
    assert await cluster.bound("p") == {"p": "node3"}


async def test_insufficient_resources(cluster: Rk8sCluster) -> None:
    await cluster.put(node("small", "1", "1000"), pod("p", "100", "100000"))
    message = await cluster.refused("p", "NodeResourcesFit")
    assert message == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    await cluster.put(node("large", "200", "200000"))
    assert await cluster.bound("p") == {"p": "large"}


async def test_cache_operations(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1"), pod("p"))
    assert await cluster.bound("p") == {"p": "node1"}
    await cluster.delete("p")
    await cluster.delete("node1", kind="nodes")
    await cluster.put(node("node2"), pod("pod2"))
    assert await cluster.bound("pod2") == {"pod2": "node2"}


async def test_complex_scenario(cluster: Rk8sCluster) -> None:
    labels = {"env": "prod", "zone": "us-west"}
    await cluster.put(node("prod-node", "16", labels=labels, taints=[taint("NodeNotReady", "true")]))
    await cluster.put(node("dev-node", labels={"env": "dev", "zone": "us-east"}))
    selected = node_affinity([expression("env", "In", "prod"), expression("zone", "In", "us-west")])
    tolerated = [toleration("NodeNotReady", operator="Exists")]
    await cluster.put(pod("constrained", tolerations=tolerated, affinity=selected), pod("plain"))
    assert await cluster.bound("constrained", "plain") == {"constrained": "prod-node", "plain": "dev-node"}


async def test_pod_affinity_basic(cluster: Rk8sCluster) -> None:
    await _web_in_zone_a(cluster)
    await cluster.put(pod("p", affinity=pod_affinity(NEAR_WEB)))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_pod_anti_affinity_basic(cluster: Rk8sCluster) -> None:
    await _web_in_zone_a(cluster)
    await cluster.put(pod("p", affinity=pod_affinity(anti=[NEAR_WEB])))
    assert await cluster.bound("p") == {"p": "node2"}


async def test_pod_affinity_no_matching_pods(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels=ZONE_A), pod("p", affinity=pod_affinity(NEAR_WEB)))
    message = await cluster.refused("p", "InterPodAffinity")
    assert message == "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."


async def test_pod_affinity_weighted_preferred(cluster: Rk8sCluster) -> None:
    await _web_in_zone_a(cluster)
    await cluster.put(pod("p", affinity=pod_affinity(preferred={50: NEAR_WEB})))
    assert await cluster.bound("p") == {"p": "node1"}


async def _web_in_zone_a(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels=ZONE_A), node("node2", labels=ZONE_B))
    await cluster.put(docs.pod("web", labels={"app": "web"}, node_name="node1"))
