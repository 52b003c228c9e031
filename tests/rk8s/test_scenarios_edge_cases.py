"""The scenarios of libscheduler's `tests/edge_cases.rs`, on a real etcd: each test has the name of its scenario.

Where a pod stays without a node, its attempt record says why. The scenarios of pod affinity are in
`test_scenarios_pod_affinity.py`.
"""

from __future__ import annotations

import pytest

from tests.rk8s.conftest import Rk8sCluster, Served
from tests.rk8s.rk8s_documents import expression, node, node_affinity, pod, taint, toleration
from wharfinger.objects.model.pod import PodKey

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRODUCTION = expression("env", "In", "production")


async def test_zero_resource_pods(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", "10", "10000"))
    await cluster.put(pod("no-cpu", "0", "1000"), pod("no-memory", "1", "0"), pod("nothing", "0", "0"))
    assert set((await cluster.bound("no-cpu", "no-memory", "nothing")).values()) == {"node1"}


async def test_exact_resource_match(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", "100", "1000"), pod("p", "100", "1000"))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_multiple_taints_and_tolerations(cluster: Rk8sCluster) -> None:
    """The tainted node is the larger one, so the pod that tolerates both prefers it."""
    await cluster.put(node("tainted", "100", taints=[taint("NodeNotReady", "true"), taint("NodeDiskPressure", "true")]))
    await cluster.put(node("clean", "10"))
    one, other = toleration("NodeNotReady", "true"), toleration("NodeDiskPressure", "true")
    await cluster.put(pod("both", tolerations=[one, other]), pod("one", tolerations=[one]))
    assert await cluster.bound("both", "one") == {"both": "tainted", "one": "clean"}


async def test_node_selector_no_match(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels={"env": "development"}), pod("p", affinity=node_affinity([PRODUCTION])))
    message = await cluster.refused("p", "NodeAffinity")
    assert message == "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    await cluster.put(node("node2", labels={"env": "production"}))
    assert await cluster.bound("p") == {"p": "node2"}


async def test_complex_node_affinity(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels={"zone": "us-west-1", "type": "compute"}))
    await cluster.put(node("node2", labels={"zone": "us-west-2", "type": "storage"}))
    await cluster.put(node("node3", labels={"zone": "us-east-1", "type": "compute"}))
    term = [expression("zone", "In", "us-west-1", "us-west-2"), expression("type", "In", "compute")]
    await cluster.put(pod("p", affinity=node_affinity(term)))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_node_affinity_gt_lt_operators(cluster: Rk8sCluster) -> None:
    cores = {"node1": "8", "node2": "16", "node3": "4"}
    await cluster.put(*(node(name, labels={"cpu-cores": number}) for name, number in cores.items()))
    await cluster.put(pod("many", affinity=node_affinity([expression("cpu-cores", "Gt", "6")])))
    await cluster.put(pod("few", affinity=node_affinity([expression("cpu-cores", "Lt", "6")])))
    found = await cluster.bound("many", "few")
    assert found["many"] in ("node1", "node2")
    assert found["few"] == "node3"


async def test_toleration_exists_operator(cluster: Rk8sCluster) -> None:
    await cluster.put(node("tainted", taints=[taint("NodeDiskPressure", "true")]))
    await cluster.put(pod("p", tolerations=[toleration("NodeDiskPressure", operator="Exists")]))
    assert await cluster.bound("p") == {"p": "tainted"}


async def test_high_priority_preemption_order(served: Served) -> None:
    """The node has room for ten pods: the ten most important ones get it, and no pod is evicted."""
    cluster = served.cluster
    pods = [pod(f"pod-{number}", "1", "100", priority=number) for number in range(1, 101)]
    await cluster.put_at_once(node("node1", "10", "10000"), *pods)
    best = [f"pod-{number}" for number in range(100, 90, -1)]
    assert await cluster.bound_in_order(*best) == best
    await cluster.put(pod("most-important", "1", "100", priority=1000))
    record = await cluster.record_of("most-important")
    assert (record["nominated_node"], list(record["victims"])) == ("", [])
    assert sum(bool(one.node_name) for one in served.worker.cache.pods.values()) == 10


async def test_node_removal_pod_rescheduling(cluster: Rk8sCluster) -> None:
    """Pinned by labels. A pod whose stored `node_name` is gone is made anew: see `test_lost_nodes.py`."""
    await cluster.put(node("node1", labels={"host": "node1"}), node("node2", labels={"host": "node2"}))
    pinned = {name: node_affinity([expression("host", "In", name)]) for name in ("node1", "node2")}
    await cluster.put(pod("p1", affinity=pinned["node1"]), pod("p2", affinity=pinned["node1"]))
    assert await cluster.bound("p1", "p2") == {"p1": "node1", "p2": "node1"}
    await cluster.delete("node1", kind="nodes")
    await cluster.put(pod("p3", affinity=pinned["node2"]), pod("p4", affinity=pinned["node1"]))
    assert await cluster.bound("p3") == {"p3": "node2"}
    await cluster.refused("p4", "NodeAffinity")
    assert await cluster.nodes_of(["p1", "p2"]) == {"p1": "node1", "p2": "node1"}


async def test_empty_cluster(cluster: Rk8sCluster) -> None:
    await cluster.put(pod("p"))
    assert await cluster.refused("p") == "no nodes available to schedule pods"


async def test_mixed_scheduling_constraints(cluster: Rk8sCluster) -> None:
    labels = {"env": "production", "zone": "us-west"}
    await cluster.put(node("constrained", labels=labels, taints=[taint("NodeOutOfService", "true")]))
    await cluster.put(node("regular", labels={"env": "development"}))
    selected = node_affinity([PRODUCTION, expression("zone", "In", "us-west")])
    await cluster.put(pod("mixed", tolerations=[toleration("NodeOutOfService", "true")], affinity=selected))
    await cluster.put(pod("plain"))
    assert await cluster.bound("mixed", "plain") == {"mixed": "constrained", "plain": "regular"}


async def test_concurrent_modifications(cluster: Rk8sCluster) -> None:
    """The first node has room for three of the five pods; the second one is put midway."""
    await cluster.put(node("node1", "3", "10000"))
    await cluster.put(*(pod(f"p{number}", "1", "1000") for number in range(3)))
    await cluster.put(node("node2", "10", "10000"))
    await cluster.put(*(pod(f"p{number}", "1", "1000") for number in range(3, 5)))
    assert set((await cluster.bound(*(f"p{number}" for number in range(5)))).values()) == {"node1", "node2"}


async def test_invalid_node_name(served: Served) -> None:
    """No attempt is made for a pod that names a node, there or not. Later it counts as lost: `test_lost_nodes.py`."""
    cluster = served.cluster
    await cluster.put(node("node1"), pod("p", node_name="nowhere"), pod("next"))
    assert await cluster.bound("next") == {"next": "node1"}
    assert served.worker.cache.pods[PodKey("default", "p")].node_name == "nowhere"
    assert await cluster.value("p") == cluster.stored["/registry/pods/p"]
    assert {name: len(info.pods) for name, info in served.worker.cache.absent_nodes.items()} == {"nowhere": 1}
