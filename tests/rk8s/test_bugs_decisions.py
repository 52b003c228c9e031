"""libscheduler's bugs in decisions and in the queue, each with a test that fails on its behaviour.

The numbers are those of `docs/rk8s-decisions.md`; the bugs of its store and its watches are in `test_bugs_store.py`.
"""

from __future__ import annotations

import pytest

from tests.rk8s.conftest import Rk8sCluster, Served
from tests.rk8s.rk8s_documents import expression, node, node_affinity, pod, pod_affinity, pod_term, taint, toleration
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import PodKey

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEB = {"app": "web"}


def key(name: str) -> PodKey:
    return PodKey("default", name)


async def test_b08_a_node_that_shrinks_below_its_use_takes_no_pod_until_it_grows(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", "8"), pod("large", "6", node_name="node1"))
    await cluster.put(node("node1", "5"), pod("huge", "1000"), pod("small", "1"))
    assert await cluster.refused("huge", "NodeResourcesFit") == "0/1 nodes are available: 1 Insufficient cpu."
    assert await cluster.refused("small", "NodeResourcesFit") == "0/1 nodes are available: 1 Insufficient cpu."
    await cluster.put(node("node1", "7"))
    assert await cluster.bound("small") == {"small": "node1"}


async def test_b11_a_pod_whose_priority_is_raised_while_it_waits_goes_first(cluster: Rk8sCluster) -> None:
    await cluster.put(pod("raised", "1", priority=1), pod("other", "1", priority=5))
    await cluster.refused("raised")
    await cluster.refused("other")
    await cluster.put(pod("raised", "1", priority=9))
    await cluster.put(node("node1", "1"))
    assert await cluster.bound("raised") == {"raised": "node1"}
    assert await cluster.node_of("other") == ""
    await cluster.delete("raised")
    assert await cluster.bound("other") == {"other": "node1"}


async def test_b12_a_pod_whose_gates_are_removed_is_placed(served: Served) -> None:
    cluster = served.cluster
    await cluster.put(node("node1"), pod("p", gates=("one", "other")))
    await cluster.until(lambda: key("p") in served.worker.queue.gated)
    await cluster.put(pod("p", gates=("other",)))
    await cluster.put(pod("p"))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_b13_a_taint_that_only_discourages_repels_pods(cluster: Rk8sCluster) -> None:
    """The tainted node has more room. So the pod that tolerates the taint goes there, and the other does not."""
    discouraging = taint("NodeMemoryPressure", "true", "PreferNoSchedule")
    await cluster.put(node("tainted", "8", taints=[discouraging]), node("clean", "4"))
    await cluster.put(pod("plain"))
    assert await cluster.bound("plain") == {"plain": "clean"}


async def test_b13_a_taint_that_a_pod_tolerates_does_not_attract_it(cluster: Rk8sCluster) -> None:
    discouraging = taint("NodeMemoryPressure", "true", "PreferNoSchedule")
    await cluster.put(node("tainted", "4", taints=[discouraging]), node("clean", "8"))
    tolerated = [toleration("NodeMemoryPressure", "true", "PreferNoSchedule")]
    await cluster.put(pod("tolerant", tolerations=tolerated))
    assert await cluster.bound("tolerant") == {"tolerant": "clean"}


async def test_b14_the_first_pod_of_a_group_that_is_affine_to_itself_is_placed(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", labels={"zone": "a"}), node("node2", labels={"zone": "b"}))
    near = pod_affinity(pod_term("zone", app="web"))
    await cluster.put(pod("first", labels=WEB, affinity=near))
    first = (await cluster.bound("first"))["first"]
    await cluster.put(pod("second", labels=WEB, affinity=near))
    assert await cluster.bound("second") == {"second": first}


async def test_b14_anti_affinity_of_a_running_pod_keeps_others_away(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", "8", labels={"zone": "a"}), node("node2", labels={"zone": "b"}))
    alone = pod_affinity(anti=[pod_term("zone", app="web")])
    await cluster.put(pod("alone", node_name="node1", affinity=alone))
    await cluster.put(pod("web", labels=WEB))
    assert await cluster.bound("web") == {"web": "node2"}


async def test_b15_a_name_used_again_while_it_waits_is_placed_and_booked_once(cluster: Rk8sCluster) -> None:
    await cluster.put(pod("p", "1"))
    await cluster.refused("p")
    await cluster.delete("p")
    await cluster.put(pod("p", "1"), node("node1", "2"))
    assert await cluster.bound("p") == {"p": "node1"}
    await cluster.put(pod("q", "1"))
    assert await cluster.bound("q") == {"q": "node1"}


async def test_b16_changed_labels_and_taints_of_a_node_wake_waiting_pods(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1"), node("node2", taints=[taint("NodeNotReady", "true")]))
    await cluster.put(pod("labelled", affinity=node_affinity([expression("disk", "In", "ssd")])))
    await cluster.put(pod("large", "3"), pod("larger", "4"))
    await cluster.refused("labelled", "NodeAffinity")
    await cluster.bound("large")
    await cluster.refused("larger", "TaintToleration")
    await cluster.put(node("node1", labels={"disk": "ssd"}))
    assert await cluster.bound("labelled") == {"labelled": "node1"}
    await cluster.put(node("node2"))
    assert await cluster.bound("larger") == {"larger": "node2"}


async def test_b16_heartbeats_of_a_full_node_wake_no_pod(served: Served) -> None:
    """The pod fits the empty node, not the rest of it. A later pod that is bound shows that the events were seen."""
    cluster = served.cluster
    await cluster.put(node("full", "2"), pod("on-it", "2", node_name="full"), pod("p", "2"))
    await cluster.refused("p", "NodeResourcesFit")
    before = (await cluster.store.get(keys.attempt("default", "p"))).kv
    for beat in range(5):
        document = node("full", "2")
        document["status"]["conditions"][0]["lastHeartbeatTime"] = f"2026-04-28T12:00:1{beat}+00:00"
        await cluster.put(document)
    await cluster.put(node("other", "1"), pod("small", "1"))
    assert await cluster.bound("small") == {"small": "other"}
    assert (await cluster.store.get(keys.attempt("default", "p"))).kv == before


async def test_b18_not_in_holds_for_a_node_without_the_label(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", "8", labels={"disk": "hdd"}), node("node2"))
    await cluster.put(pod("p", affinity=node_affinity([expression("disk", "NotIn", "hdd")])))
    assert await cluster.bound("p") == {"p": "node2"}


async def test_b18_a_term_without_expressions_matches_no_node(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1"), pod("p", affinity=node_affinity([])))
    await cluster.refused("p", "NodeAffinity")


async def test_b18_every_expression_of_a_preference_counts(cluster: Rk8sCluster) -> None:
    """The first expression holds on the larger node too, the second does not."""
    await cluster.put(node("half", "8", labels={"disk": "ssd"}), node("whole", labels={"disk": "ssd", "net": "fast"}))
    preferred = {50: [expression("disk", "Exists"), expression("net", "Exists")]}
    await cluster.put(pod("p", affinity=node_affinity(preferred=preferred)))
    assert await cluster.bound("p") == {"p": "whole"}


async def test_b19_pods_of_one_priority_go_in_the_order_of_their_arrival(cluster: Rk8sCluster) -> None:
    names = ["b", "d", "a", "c"]
    await cluster.put(node("node1"))
    await cluster.put_at_once(*(pod(name) for name in names))
    assert await cluster.bound_in_order(*names) == names


async def test_b20_a_node_without_capacity_does_not_win(cluster: Rk8sCluster) -> None:
    await cluster.put(node("empty", "0", "0"), node("used"), pod("on-it", "2", node_name="used"))
    await cluster.put(pod("p", "0", "0"))
    assert await cluster.bound("p") == {"p": "used"}


async def test_b22_a_finished_pod_holds_nothing(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", "1"), pod("job", "1", node_name="node1", running=True), pod("p", "1"))
    await cluster.refused("p", "NodeResourcesFit")
    await cluster.put(pod("job", "1", node_name="node1", phase="Succeeded"))
    assert await cluster.bound("p") == {"p": "node1"}


async def test_b22_a_pod_that_is_being_deleted_is_not_placed(served: Served) -> None:
    cluster = served.cluster
    leaving = pod("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-04-28T12:00:00.123456789Z"
    leaving["metadata"]["finalizers"] = ["DeletingDependents"]
    await cluster.put_at_once(node("node1"), leaving, pod("p"))
    assert await cluster.bound("p") == {"p": "node1"}
    assert key("leaving") in served.worker.cache.pods
    assert key("leaving") not in served.worker.queue
    assert await cluster.node_of("leaving") == ""


@pytest.mark.parametrize(
    ("memory", "fits"), [("1.5Gi", "large"), ("1Ti", "huge"), ("1e9", "small"), ("2e9", "large"), ("1G", "small")]
)
async def test_b23_amounts_in_all_units_count(cluster: Rk8sCluster, memory: str, fits: str) -> None:
    """The pod may go to the node that it fits exactly, and to the smaller ones. libscheduler reads most as 0."""
    sizes = {"small": "1Gi", "large": "2Gi", "huge": "2Ti"}
    allowed = list(sizes)[: list(sizes).index(fits) + 1]
    await cluster.put(*(node(name, memory=sizes[name]) for name in allowed))
    await cluster.put(pod("p", memory=memory))
    assert await cluster.bound("p") == {"p": fits}


async def test_b26_a_node_takes_no_more_pods_than_it_names(cluster: Rk8sCluster) -> None:
    await cluster.put(node("node1", pods="1"), pod("first"))
    await cluster.bound("first")
    await cluster.put(pod("second"))
    assert await cluster.refused("second") == "0/1 nodes are available: 1 Too many pods."
    await cluster.put(node("node1", pods="2"))
    assert await cluster.bound("second") == {"second": "node1"}
