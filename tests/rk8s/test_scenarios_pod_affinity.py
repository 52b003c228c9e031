"""The scenarios of pod affinity of libscheduler's `tests/edge_cases.rs`, on a real etcd."""

from __future__ import annotations

import pytest

from tests.rk8s.conftest import Rk8sCluster
from tests.rk8s.rk8s_documents import expression, node, node_affinity, pod, pod_affinity, pod_term

pytestmark = pytest.mark.asyncio(loop_scope="module")

NEAR_WEB = pod_term("zone", app="web")


async def test_pod_affinity_edge_cases(cluster: Rk8sCluster) -> None:
    zones = {"node1": "zone-a", "node2": "zone-b", "node3": "zone-a"}
    await cluster.put(*(node(name, labels={"zone": zone}) for name, zone in zones.items()))
    await cluster.put(pod("web", labels={"app": "web"}, node_name="node1"))
    await cluster.put(pod("near", affinity=pod_affinity(NEAR_WEB)))
    await cluster.put(pod("away", affinity=pod_affinity(anti=[NEAR_WEB])))
    await cluster.put(pod("preferred", affinity=pod_affinity(preferred={100: NEAR_WEB})))
    found = await cluster.bound("near", "away", "preferred")
    assert zones[found["near"]] == "zone-a"
    assert found["away"] == "node2"
    assert found["preferred"] in zones


async def test_pod_affinity_with_node_selector(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels={"zone": "zone-a", "env": "prod"}))
    await cluster.put(node("node2", labels={"zone": "zone-a", "env": "dev"}))
    await cluster.put(pod("web", labels={"app": "web"}, node_name="node1"))
    selected = node_affinity([expression("env", "In", "prod")])
    affinity = {**pod_affinity(NEAR_WEB), "node_affinity": selected["node_affinity"]}
    await cluster.put(pod("p", affinity=affinity))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_pod_affinity_complex_match_expressions(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels={"zone": "zone-a"}), node("node2", labels={"zone": "zone-b"}))
    await cluster.put(pod("prod-web", labels={"app": "web", "env": "prod"}, node_name="node1"))
    await cluster.put(pod("dev-web", labels={"app": "web", "env": "dev"}, node_name="node2"))
    term = pod_term("zone", expression("app", "In", "web"), expression("env", "In", "prod"))
    await cluster.put(pod("p", affinity=pod_affinity(term)))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_pod_affinity_multiple_topology_keys(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels={"zone": "zone-a", "rack": "rack-1"}))
    await cluster.put(node("node2", labels={"zone": "zone-a", "rack": "rack-2"}))
    await cluster.put(node("node3", labels={"zone": "zone-b", "rack": "rack-1"}))
    await cluster.put(pod("web", labels={"app": "web"}, node_name="node1"))
    await cluster.put(pod("p", affinity=pod_affinity(NEAR_WEB, pod_term("rack", app="web"))))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_pod_affinity_and_anti_affinity_combined(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels={"zone": "zone-a", "rack": "rack-1"}))
    await cluster.put(node("node2", labels={"zone": "zone-a", "rack": "rack-2"}))
    await cluster.put(node("node3", labels={"zone": "zone-b", "rack": "rack-3"}))
    await cluster.put(pod("web", labels={"app": "web"}, node_name="node1"))
    await cluster.put(pod("api", labels={"app": "api"}, node_name="node2"))
    affinity = pod_affinity(NEAR_WEB, anti=[pod_term("rack", app="api")])
    await cluster.put(pod("p", affinity=affinity))
    assert await cluster.bound("p") == {"p": "node1"}
