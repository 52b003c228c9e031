"""Documents that rk8s did not write: each is reported with its reason, is left alone, and holds up no other pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Served
from tests.rk8s.rk8s_documents import node, pod, toleration
from wharfinger.objects.model.pod import PodKey

pytestmark = pytest.mark.asyncio(loop_scope="module")

KUBERNETES_POD: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "odd", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]},
}
KUBERNETES_NODE: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "odd"},
    "spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    "status": {"capacity": {"cpu": "64"}, "allocatable": {"cpu": "64"}},
}
MEBIBYTE = 1 << 20


def kubernetes(**spec: Any) -> bytes:
    return json.dumps({**KUBERNETES_POD, "spec": {**KUBERNETES_POD["spec"], **spec}}).encode()


def odd(old: str = "", new: str = "", **fields: Any) -> bytes:
    """A pod as rk8s writes it, with one passage replaced."""
    return _changed(pod("odd", **fields), old, new)


def odd_node(old: str, new: str) -> bytes:
    """The same of a node."""
    return _changed(node("odd", "64"), old, new)


def _changed(document: Mapping[str, Any], old: str, new: str) -> bytes:
    text = docs.document(document).decode()
    assert old in text
    return text.replace(old, new, 1).encode()


PODS = {
    "tag_on_the_spec": (odd("spec:\n", "spec: !Spec\n"), "not a mapping"),
    "tag_on_the_node": (odd("node_name: null", "node_name: !Node node1"), "spec.node_name is tagged !Node, not a text"),
    "tag_of_python": (odd("node_name: null", "node_name: !!python/name:os.system ''"), "is no plain YAML: tag"),
    "tag_on_a_list": (odd("tolerations: []", "tolerations: !List []"), "spec.tolerations is tagged !List, not a list"),
    "json_of_kubernetes": (kubernetes(schedulerName="default-scheduler"), "spec.schedulerName is Kubernetes'"),
    "json_of_kubernetes_bound": (kubernetes(nodeName="node1"), "spec.nodeName is Kubernetes'"),
    "json_of_kubernetes_selecting": (kubernetes(nodeSelector={"a": "b"}), "spec.nodeSelector is Kubernetes'"),
    "json_of_kubernetes_minimal": (kubernetes(), "resources.requests is Kubernetes'"),
    "affinity_of_kubernetes": (odd("affinity: null", "affinity: {nodeAffinity: {}}"), "nodeAffinity is Kubernetes'"),
    "node_of_this_name": (docs.document(node("odd")), "kind is 'Node', not 'Pod'"),
    "binary": (bytes(range(256)), "is no UTF-8 text"),
    "zero_bytes": (b"\0" * 1000, "is no YAML"),
    "empty": (b"", "is no mapping"),
    "one_mebibyte_of_a": (b"a" * MEBIBYTE, "is no mapping"),
    "one_mebibyte_of_brackets": (b"[" * MEBIBYTE, "exceeded maximum nesting depth"),
    "one_mebibyte_of_a_list": (b"spec: [" + b"a," * (MEBIBYTE // 2) + b"]", "has more than 100000 keys and values"),
    "two_documents": (odd() + b"---\n" + odd(), "is more than one YAML document"),
    "anchors": (odd("node_name: null", "node_name: &a null"), "has an anchor or an alias"),
    "one_key_twice": (odd("node_name: null", "node_name: null\n  node_name: node1"), "stands twice"),
    "unknown_phase": (odd("phase: Pending", "phase: Paused"), "status.phase 'Paused' is none of"),
    "unknown_taint": (odd(tolerations=[toleration("node.kubernetes.io/not-ready")]), "is none of NodeNotReady"),
    "unknown_effect": (odd(tolerations=[toleration("NodeNotReady", effect="Never")]), "'Never' is none of"),
    "unknown_operator": (odd(tolerations=[toleration("NodeNotReady", operator="In")]), "'In' is none of"),
    "unknown_owner": (odd("kind: ReplicaSet", "kind: DaemonSet", owner="web"), "'DaemonSet' is none of"),
    "amount_that_is_none": (odd("cpu: 500m", "cpu: many"), "resources.limits.cpu 'many'"),
    "another_name": (docs.document(pod("other")), "metadata.name is 'other', in its key 'odd'"),
    "priority_that_is_none": (odd(annotations={"wharfinger.dev/priority": "high"}), "is no whole number"),
}

NODES = {
    "json_of_kubernetes": (json.dumps(KUBERNETES_NODE).encode(), "'node.kubernetes.io/not-ready' is none of"),
    "unschedulable": (odd_node("spec:\n", "spec:\n  unschedulable: true\n"), "spec.unschedulable is Kubernetes'"),
    "unknown_condition": (odd_node("type: Ready", "type: Happy"), "'Happy' is none of"),
    "unknown_status": (odd_node("status: 'True'", "status: Maybe"), "'Maybe' is none of"),
    "tag": (odd_node("allocatable:\n", "allocatable: !Amounts\n"), "status.allocatable is tagged !Amounts"),
    "binary": (bytes(range(256)), "is no UTF-8 text"),
    "one_mebibyte": (b"a" * MEBIBYTE, "is no mapping"),
    "another_name": (docs.document(node("other", "64")), "metadata.name is 'other', in its key 'odd'"),
}


@pytest.mark.parametrize("kind", PODS)
async def test_a_foreign_pod_is_reported_left_alone_and_disturbs_nothing(served: Served, kind: str) -> None:
    cluster, worker = served.cluster, served.worker
    value, reason = PODS[kind]
    await cluster.put_raw("/registry/pods/odd", value)
    await cluster.put(node("node1"), pod("p"))
    assert await cluster.bound("p") == {"p": "node1"}
    assert reason in worker.loops.scheduling.view.invalid.reasons["/registry/pods/default/odd"]
    assert PodKey("default", "odd") not in worker.queue
    assert await cluster.value("odd") == value
    await cluster.delete("odd")
    await cluster.until(lambda: not worker.loops.scheduling.view.invalid.reasons)


@pytest.mark.parametrize("kind", NODES)
async def test_a_foreign_node_is_reported_and_takes_no_pod(served: Served, kind: str) -> None:
    """It would be the larger one."""
    cluster, worker = served.cluster, served.worker
    value, reason = NODES[kind]
    await cluster.put_raw("/registry/nodes/odd", value)
    await cluster.put(node("node1"), pod("p"))
    assert await cluster.bound("p") == {"p": "node1"}
    assert reason in worker.loops.scheduling.view.invalid.reasons["/registry/nodes/odd"]
    await cluster.delete("odd", kind="nodes")
    await cluster.until(lambda: not worker.loops.scheduling.view.invalid.reasons)


async def test_a_foreign_pod_that_is_bound_holds_what_can_be_read(served: Served) -> None:
    await served.cluster.put(node("node1", "2"))
    await served.cluster.put_raw(
        "/registry/pods/odd", odd("phase: Pending", "phase: Paused", cpu="1", node_name="node1")
    )
    await served.cluster.put(pod("p", "2"))
    await served.cluster.refused("p", "NodeResourcesFit")


async def test_an_unreadable_waiting_pod_waits_no_more_until_it_is_mended(served: Served) -> None:
    cluster, worker = served.cluster, served.worker
    await cluster.put(pod("odd"))
    await cluster.refused("odd")
    await cluster.put_raw("/registry/pods/odd", odd("phase: Pending", "phase: Paused"))
    await cluster.put(node("node1"), pod("p"))
    await cluster.bound("p")
    assert PodKey("default", "odd") not in worker.queue
    assert await cluster.value("odd") == cluster.stored["/registry/pods/odd"]
    await cluster.put(pod("odd"))
    assert await cluster.bound("odd") == {"odd": "node1"}
