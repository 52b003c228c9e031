"""What can happen to a pod and its nodes, judged from etcd alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import ATTEMPTS, NODES, PODS, Gateway, audit, bound_pods, condition, node, pod, refusal

pytestmark = pytest.mark.timeout(120)


def refused(etcd: Gateway, *names: str) -> Callable[[], bool]:
    """No node was found for them; one whose attempt failed, as its worker stood still, is tried again by itself."""
    return lambda: all(refusal(etcd, name) for name in names)


def is_bound(etcd: Gateway, **where: str) -> Callable[[], bool]:
    return lambda: bound_pods(etcd).items() >= where.items()


def marker(tree: DevTree, name: str = "marker") -> None:
    """A pod put now is bound: what was put before it had its chance."""
    tree.etcd.put(f"{PODS}default/{name}", pod(name, cpu="1m", memory="1Mi"))
    wait_until(lambda: name in bound_pods(tree.etcd), 20, f"{name} bound")


def test_a_gated_pod_has_no_attempts_until_its_gates_are_removed(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}n0", node("n0"))
    etcd.put(f"{PODS}default/gated", pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
    marker(cluster)

    assert set(bound_pods(etcd)) == {"marker"}
    assert not etcd.get(f"{ATTEMPTS}default/gated")
    assert "no attempt" in cluster.cli("explain", "pod", "default/gated").stdout.lower()

    etcd.put(f"{PODS}default/gated", pod("gated"))
    wait_until(is_bound(etcd, gated="n0"), 15, "bound once the gate is gone")


def test_deleted_pod_and_another_schedulers_pod_are_left_alone(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}n0", node("n0"))
    leaving = pod("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    other = pod("other", schedulerName="somebody-else")
    etcd.put(f"{PODS}default/leaving", leaving)
    etcd.put(f"{PODS}default/other", other)
    marker(cluster)

    assert etcd.get(f"{PODS}default/leaving") == leaving
    assert etcd.get(f"{PODS}default/other") == other

    etcd.put(f"{PODS}default/other", pod("other", schedulerName="default-scheduler"))
    wait_until(is_bound(etcd, other="n0"), 15, "bound when it becomes ours")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_frees_its_room(cluster: DevTree, phase: str) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}n0", node("n0", cpu="1"))
    etcd.put(f"{PODS}default/first", pod("first", cpu="1"))
    wait_until(is_bound(etcd, first="n0"), 15, "the first bound")
    etcd.put(f"{PODS}default/second", pod("second", cpu="1"))
    wait_until(refused(etcd, "second"), 15, "the second refused")

    first = etcd.get(f"{PODS}default/first")
    first["status"]["phase"] = phase
    etcd.put(f"{PODS}default/first", first)
    wait_until(is_bound(etcd, second="n0"), 15, "the second bound")


def test_pods_bound_by_others_count_on_their_nodes(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}n0", node("n0", cpu="2"))
    etcd.put(f"{PODS}default/foreign", pod("foreign", cpu="1500m", nodeName="n0", schedulerName="somebody-else"))
    etcd.put(f"{PODS}default/large", pod("large", cpu="1"))
    etcd.put(f"{PODS}default/small", pod("small", cpu="500m"))

    wait_until(is_bound(etcd, small="n0"), 15, "what is left is filled")
    wait_until(refused(etcd, "large"), 15, "the large one refused")
    etcd.delete(f"{PODS}default/foreign")
    wait_until(is_bound(etcd, large="n0"), 15, "bound when the foreign pod is gone")


def test_misspelt_pods_are_never_placed_and_bound_ones_keep_their_room(cluster: DevTree) -> None:
    """A misspelt field that scheduling reads would place the pod anywhere."""
    etcd = cluster.etcd
    etcd.put(f"{NODES}n0", node("n0", cpu="2"))
    etcd.put(f"{NODES}n1", node("n1", cpu="2") | {"Spec": {"unschedulable": True}})
    etcd.put(f"{PODS}default/bound", pod("bound", cpu="1500m", nodeName="n0", node_selector={"disk": "ssd"}))
    etcd.put(f"{PODS}default/snake", pod("snake", cpu="100m", node_name="n0"))
    etcd.put(f"{PODS}default/lower", pod("lower", cpu="100m", nodeselector={"disk": "ssd"}))
    singular = pod("singular", cpu="100m")
    singular["spec"]["containers"][0]["resources"] = {"request": {"cpu": "100m"}}
    etcd.put(f"{PODS}default/singular", singular)
    etcd.put(f"{PODS}default/large", pod("large", cpu="1"))
    etcd.put(f"{PODS}default/newer", pod("newer", cpu="100m", fieldOfTheNextRelease=True))

    wait_until(is_bound(etcd, newer="n0"), 15, "other unknown fields are ignored")
    wait_until(refused(etcd, "large"), 15, "no room beside the misspelt pod that is bound")
    marker(cluster)
    assert set(bound_pods(etcd)) == {"bound", "newer", "marker"}
    listed = cluster.cli("get", "pods", "--invalid").stdout
    for field, meant in (
        ("node_selector", "nodeSelector"),
        ("node_name", "nodeName"),
        ("nodeselector", "nodeSelector"),
        ("containers[0].resources.request", "requests"),
    ):
        assert f"spec.{field}: unknown field; did you mean {meant}?" in listed
    assert "Spec: unknown field; did you mean spec?" in cluster.cli("get", "nodes", "--invalid").stdout

    etcd.put(f"{PODS}default/lower", pod("lower", cpu="100m"))
    wait_until(is_bound(etcd, lower="n0"), 15, "bound when its fields are spelt rightly")


def test_a_waiting_pod_that_is_made_smaller_is_bound(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}n0", node("n0", cpu="1"))
    etcd.put(f"{PODS}default/shrinks", pod("shrinks", cpu="2"))
    wait_until(refused(etcd, "shrinks"), 15, "refused")

    etcd.put(f"{PODS}default/shrinks", pod("shrinks", cpu="1"))
    wait_until(is_bound(etcd, shrinks="n0"), 15, "bound")


def test_unsupported_pod_is_refused_with_a_reason_and_never_placed(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}n0", node("n0"))
    etcd.put(f"{PODS}default/claims", pod("claims", resourceClaims=[{"name": "gpu"}]))

    wait_until(refused(etcd, "claims"), 15, "refused")
    message = condition(etcd.get(f"{PODS}default/claims"))["message"]
    assert "devices are not decided here (resource claims)" in message
    etcd.put(f"{NODES}n1", node("n1"))
    marker(cluster)
    assert set(bound_pods(etcd)) == {"marker"}

    etcd.put(f"{PODS}default/claims", pod("claims"))
    wait_until(lambda: "claims" in bound_pods(etcd), 15, "bound when it no longer asks for that")


def test_pods_with_equal_uids_or_without_one_are_each_bound_once(cluster: DevTree) -> None:
    etcd = cluster.etcd
    first = etcd.revision() + 1
    etcd.put(f"{NODES}n0", node("n0"))
    names = []
    for number in range(4):
        names += [f"twin{number}", f"bare{number}"]
        twin, bare = pod(f"twin{number}"), pod(f"bare{number}")
        twin["metadata"]["uid"] = "the-same"
        del bare["metadata"]["uid"]
        etcd.put(f"{PODS}default/twin{number}", twin)
        etcd.put(f"{PODS}default/bare{number}", bare)

    wait_until(lambda: set(bound_pods(etcd)) == set(names), 20, "all bound")
    assert audit(etcd, first).doubled == []
    bare = etcd.get(f"{PODS}default/bare0")
    assert "uid" not in bare["metadata"]
    assert "/rev-" in bare["metadata"]["annotations"]["wharfinger.dev/attempt"]


def test_the_urgent_pods_get_the_room_that_comes(servers: DevTree, start_worker: StartWorker) -> None:
    start_worker()  # one: every worker has an order of its own
    etcd = servers.etcd
    urgent = {number for number in range(20) if number % 3 == 0}
    for number in range(20):
        etcd.put(f"{PODS}default/p{number:02}", pod(f"p{number:02}", cpu="1", priority=1000 * (number in urgent)))
    wait_until(refused(etcd, *(f"p{number:02}" for number in range(20))), 20, "all wait: there is no node")

    etcd.put(f"{NODES}n0", node("n0", cpu=str(len(urgent))))
    wait_until(lambda: len(bound_pods(etcd)) == len(urgent), 20, "the node is full")
    assert set(bound_pods(etcd)) == {f"p{number:02}" for number in urgent}


def test_selectors_taints_cordons_ports_and_names_of_nodes_are_respected(cluster: DevTree) -> None:
    etcd = cluster.etcd
    tainted = node("tainted", taints=[{"key": "only", "value": "gpu", "effect": "NoSchedule"}])
    fast, cordoned = node("fast"), node("cordoned", unschedulable=True)
    fast["metadata"]["labels"]["disk"] = cordoned["metadata"]["labels"]["disk"] = "ssd"
    for value in (tainted, fast, cordoned, node("plain")):
        etcd.put(f"{NODES}{value['metadata']['name']}", value)
    port = [{"name": "main", "image": "example/app:1", "ports": [{"containerPort": 80, "hostPort": 8080}]}]
    wanted = {
        "ssd": pod("ssd", nodeSelector={"disk": "ssd"}),
        "tolerant": pod(
            "tolerant",
            nodeSelector={"kubernetes.io/hostname": "tainted"},
            tolerations=[{"key": "only", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}],
        ),
        "intolerant": pod("intolerant", nodeSelector={"kubernetes.io/hostname": "tainted"}),
        "port-a": pod("port-a", nodeSelector={"kubernetes.io/hostname": "plain"}, containers=port),
        "port-b": pod("port-b", nodeSelector={"kubernetes.io/hostname": "plain"}, containers=port),
    }
    for name, value in wanted.items():
        etcd.put(f"{PODS}default/{name}", value)

    wait_until(is_bound(etcd, ssd="fast", tolerant="tainted"), 20, "those that fit bound")
    wait_until(lambda: len({"port-a", "port-b"} & set(bound_pods(etcd))) == 1, 20, "one has the port")
    loser = ({"port-a", "port-b"} - set(bound_pods(etcd))).pop()
    wait_until(refused(etcd, "intolerant", loser), 20, "those that do not fit refused")
    assert "1 node(s) had untolerated taint(s)" in condition(etcd.get(f"{PODS}default/intolerant"))["message"]
    assert "1 node(s) didn't have free ports" in condition(etcd.get(f"{PODS}default/{loser}"))["message"]

    etcd.put(f"{NODES}tainted", node("tainted"))
    wait_until(is_bound(etcd, intolerant="tainted"), 20, "bound when the taint is gone")


def test_a_node_made_anew_under_its_name_is_filled_by_what_is_there_now(cluster: DevTree) -> None:
    etcd = cluster.etcd
    first = etcd.revision() + 1
    etcd.put(f"{NODES}n0", node("n0", cpu="1"))
    for number in range(20):
        etcd.put(f"{PODS}default/p{number:02}", pod(f"p{number:02}", cpu="100m"))
        if number in (5, 12):
            etcd.delete(f"{NODES}n0")
            etcd.put(f"{NODES}n0", node("n0", cpu="1"))

    wait_until(lambda: len(bound_pods(etcd)) == 10, 30, "the node is full")
    verdict = audit(etcd, first)
    assert verdict.overcommitted == []
    assert verdict.doubled == []
