"""The scenarios of libscheduler's `tests/xline_test.rs`, on a real etcd: each test has the name of its scenario."""

from __future__ import annotations

from tests.rk8s.conftest import Rk8sCluster
from tests.rk8s.rk8s_documents import expression, node, pod, pod_affinity, pod_term
from wharfinger.objects.model.pod import PodKey
from wharfinger.settings import DispatchSettings


async def test_basic_scheduling(rk8s: Rk8sCluster) -> None:
    await rk8s.put(node("node1", "4", "4Gi"), pod("p", "1", "1Gi"))
    await rk8s.worker()
    assert await rk8s.bound("p") == {"p": "node1"}


async def test_node_watch(rk8s: Rk8sCluster) -> None:
    await rk8s.put(pod("p", "2", "2Gi"))
    await rk8s.worker()
    assert await rk8s.refused("p") == "no nodes available to schedule pods"
    await rk8s.put(node("node1", "4", "4Gi"))
    assert await rk8s.bound("p") == {"p": "node1"}


async def test_pod_watch(rk8s: Rk8sCluster) -> None:
    await rk8s.put(node("node1", "4", "4Gi"))
    await rk8s.worker()
    await rk8s.put(pod("p", "1", "1Gi"))
    assert await rk8s.bound("p") == {"p": "node1"}


async def test_multiple_pods_and_nodes(rk8s: Rk8sCluster) -> None:
    """The large pod goes first: by itself, the small one prefers the large node as well."""
    await rk8s.put(node("node-1", "4", "4Gi"), node("node-2", "8", "8Gi"))
    await rk8s.put(pod("pod-1", "1", "1Gi"), pod("pod-2", "6", "6Gi", priority=1))
    await rk8s.worker(dispatching=DispatchSettings(hold=0.1, in_flight=1, cohorts=False))
    assert await rk8s.bound("pod-1", "pod-2") == {"pod-1": "node-1", "pod-2": "node-2"}


async def test_node_deletion(rk8s: Rk8sCluster) -> None:
    await rk8s.put(node("node1"), node("node2"))
    await rk8s.worker()
    await rk8s.delete("node1", kind="nodes")
    await rk8s.put(pod("p"))
    assert await rk8s.bound("p") == {"p": "node2"}


async def test_pod_deletion(rk8s: Rk8sCluster) -> None:
    await rk8s.put(node("node1", "2", "4Gi"), pod("pod-1", "1"), pod("pod-2", "1"))
    await rk8s.worker()
    await rk8s.bound("pod-1", "pod-2")
    await rk8s.put(pod("pod-3", "1"))
    await rk8s.refused("pod-3", "NodeResourcesFit")
    await rk8s.delete("pod-1")
    assert await rk8s.bound("pod-3") == {"pod-3": "node1"}


async def test_existing_assignment(rk8s: Rk8sCluster) -> None:
    await rk8s.put(node("node1"), pod("bound", node_name="node1"))
    before = (await rk8s.store.get("/registry/pods/bound")).kv
    await rk8s.put(pod("waiting"))
    worker = await rk8s.worker()
    assert await rk8s.bound("waiting") == {"waiting": "node1"}
    await rk8s.until(lambda: len(worker.queue) == 0)  # nothing else is to be placed
    assert (await rk8s.store.get("/registry/pods/bound")).kv == before


async def test_pod_reassume(rk8s: Rk8sCluster) -> None:
    """There is no channel for names. What is left of it: a pod whose document names no node any more is placed anew."""
    await rk8s.put(node("node1", "1"), pod("p", "1"))
    worker = await rk8s.worker()
    await rk8s.bound("p")
    await rk8s.put(pod("p", "1"))
    assert await rk8s.bound("p") == {"p": "node1"}
    await rk8s.until(lambda: worker.cache.pods[PodKey("default", "p")].node_name == "node1")
    await rk8s.put(pod("next", "1"))
    await rk8s.refused("next", "NodeResourcesFit")


async def test_affinity_conversion(rk8s: Rk8sCluster) -> None:
    near = pod_term("zone", expression("tier", "In", "front", "back"), app="web")
    away = pod_term("rack", expression("env", "NotIn", "dev"), app="api")
    affinity = pod_affinity(near, anti=[away], preferred={70: pod_term("host", expression("app", "Exists"))})
    await rk8s.put(pod("p", labels={"app": "p"}, affinity=affinity))
    worker = await rk8s.worker()
    found = worker.cache.pods[PodKey("default", "p")]
    [required], [anti], [preferred] = found.required_affinity, found.required_anti_affinity, found.preferred_affinity
    assert (required.topology_key, anti.topology_key, preferred.term.topology_key) == ("zone", "rack", "host")
    assert preferred.weight == 70
    for term, labels, matches in (
        (required, {"app": "web", "tier": "front"}, True),
        (required, {"app": "web"}, False),
        (anti, {"app": "api", "env": "prod"}, True),
        (anti, {"app": "api", "env": "dev"}, False),
        (preferred.term, {"app": "any"}, True),
    ):
        assert term.selector is not None
        assert term.selector.matches(labels) is matches


async def test_pod_affinity_scheduling(rk8s: Rk8sCluster) -> None:
    await rk8s.put(node("node-zone-a", labels={"zone": "a"}), node("node-zone-b", labels={"zone": "b"}))
    await rk8s.put(pod("web", labels={"app": "web"}, node_name="node-zone-a"))
    await rk8s.worker()
    await rk8s.put(pod("p", affinity=pod_affinity(pod_term("zone", app="web"))))
    assert await rk8s.bound("p") == {"p": "node-zone-a"}
