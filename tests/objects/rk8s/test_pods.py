"""Pods of rk8s are read as the pods of Kubernetes that they stand for, and what is none is refused with a reason."""

from __future__ import annotations

import json

import pytest

from tests.objects.rk8s.samples import POD, RUNNING, SMALLEST, changed
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import pod_from_mapping
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import Taint
from wharfinger.objects.rk8s.documents import parse_pod


def read(value: bytes) -> Pod:
    """The model's pod, as the rest of `objects.documents` reads it."""
    return pod_from_mapping(parse_pod(value), create_revision=7)


def limits(cpu: str, memory: str) -> bytes:
    return changed(POD, "        cpu: 500m\n        memory: 512Mi\n", f"        cpu: {cpu}\n        memory: {memory}\n")


def test_all_that_scheduling_reads_of_a_pod_is_read() -> None:
    pod = read(POD.encode())

    assert (pod.namespace, pod.name, pod.uid, pod.node_name) == ("default", "web-1", "rev-7", "")
    assert pod.labels == {"app": "web"}
    assert pod.requests == {"cpu": 500, "memory": 512 * 2**20}
    assert pod.tolerations[0].tolerates(Taint("NodeMemoryPressure", "", "NoSchedule"))
    assert pod.required_node_terms is not None
    assert [each.weight for each in pod.preferred_node_terms] == [10]
    assert pod.required_anti_affinity[0].topology_key == "host"
    assert pod.phase == "Pending"


def test_the_smallest_pod_is_read() -> None:
    assert read(SMALLEST.encode()).requests == {}


def test_json_is_read_too() -> None:
    given = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"node_name": "worker1"}}

    assert read(json.dumps(given).encode()).node_name == "worker1"


def test_a_running_pod_is_read_with_its_tags() -> None:
    bound = changed(POD, "node_name: null", "node_name: worker1").decode()

    pod = read(bound[: bound.index("status:")].encode() + RUNNING.encode())

    assert (pod.node_name, pod.phase) == ("worker1", "Running")


@pytest.mark.parametrize("nothing", ["null", "~", "''", '""', ""])
def test_a_pod_that_names_no_node_waits(nothing: str) -> None:
    assert not read(changed(POD, "node_name: null", f"node_name: {nothing}")).bound


def test_pods_of_one_name_are_one_pod_whatever_namespace_they_say() -> None:
    assert read(changed(POD, "namespace: default", "namespace: Über uns")).namespace == "default"


@pytest.mark.parametrize(
    ("cpu", "memory", "requests"),
    [
        ("1", "1Gi", {"cpu": 1000, "memory": 2**30}),
        ("'0.5'", "1G", {"cpu": 500, "memory": 10**9}),
        ("0.5", "100m", {"cpu": 500, "memory": 100 * 10**6}),  # of memory, m is a million
        ("250m", "64mI", {"cpu": 250, "memory": 64 * 2**20}),
        ("1.5m", "1Ti", {"cpu": 2, "memory": 2**40}),  # rk8s takes these for nothing
        ("1e1", "1.5Gi", {"cpu": 10_000, "memory": 3 * 2**29}),
    ],
)
def test_amounts_mean_what_they_say(cpu: str, memory: str, requests: dict[str, int]) -> None:
    assert read(limits(cpu, memory)).requests == requests


@pytest.mark.parametrize(("cpu", "memory"), [("-1", "1Gi"), ("many", "1Gi"), ("1", "1 GB"), ("1", "-5Mi"), ("{}", "1")])
def test_an_amount_that_is_none_is_refused_not_taken_for_nothing(cpu: str, memory: str) -> None:
    with pytest.raises(InvalidObject, match=r"spec\.containers\[0\]\.resources\.limits\.(cpu|memory) "):
        read(limits(cpu, memory))


def test_init_containers_and_containers_are_weighed_as_kubernetes_does() -> None:
    first = "init_containers:\n  - name: first\n    image: busybox\n    resources: {limits: {cpu: 2, memory: 1Mi}}"

    assert read(changed(POD, "init_containers: []", first)).requests == {"cpu": 2000, "memory": 512 * 2**20}


def test_cards_are_an_extended_resource() -> None:
    with_cards = changed(POD, "        memory: 512Mi\n", "        memory: 512Mi\n        gpu: 2\n")

    assert read(with_cards).requests["nvidia.com/gpu"] == 2


def test_a_toleration_without_key_covers_taints_by_their_value() -> None:
    toleration = "  tolerations:\n  - {value: red, effect: NoSchedule}\n"
    start, end = POD.index("  tolerations:"), POD.index("  affinity:")

    pod = read((POD[:start] + toleration + POD[end:]).encode())

    def covered(taint: Taint) -> bool:
        return any(each.tolerates(taint) for each in pod.tolerations)

    assert covered(Taint("NodeDiskPressure", "red", "NoSchedule"))
    assert not covered(Taint("NodeDiskPressure", "blue", "NoSchedule"))
    assert not covered(Taint("NodeDiskPressure", "red", "NoExecute"))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("kind: Pod", "kind: Node", "kind is 'Node', not 'Pod'"),
        ("key: NodeMemoryPressure", "key: dedicated", r"tolerations\[0\].key 'dedicated' is none of NodeNotReady"),
        ("effect: NoSchedule", "effect: Never", r"tolerations\[0\].effect 'Never' is none of"),
        ("operator: In", "operator: Like", "operator 'Like' is none of In"),
        ("weight: 10", "weight: heavy", "weight is 'heavy', not a whole number"),
        ("weight: 10", "weight: '10'", "weight is '10' in quotes, not a whole number"),
        ("phase: Pending", "phase: Waiting", "status.phase 'Waiting' is none of"),
        ("phase: Pending", "phase: !Pending {}", "status.phase is tagged !Pending, not a text"),
        ("image: busybox:latest", "image: [busybox]", r"containers\[0\].image is a list, not a text"),
        ("    image: busybox:latest\n", "", r"containers\[0\].image is missing"),
        ("containers:\n  -", "containers:\n  - main\n  -", r"spec.containers\[0\] is 'main', not a mapping"),
        ("spec:\n  node_name", "spec: !Spec\n  node_name", "spec is tagged !Spec, not a mapping"),
        ("annotations: {}", "annotations: &a {}", "has an anchor or an alias at line 9"),
        ("annotations: {}", "labels: {}", "key 'labels' stands twice"),
        ("name: web-1", "name: [", "is no YAML"),
    ],
)
def test_what_is_no_pod_is_refused_with_its_place(old: str, new: str, why: str) -> None:
    with pytest.raises(InvalidObject, match=why):
        read(changed(POD, old, new))


@pytest.mark.parametrize(
    ("old", "new", "own"),
    [
        ("node_name: null", "nodeName: worker1", "node_name"),
        ("init_containers", "initContainers", "init_containers"),
        ("    node_affinity", "    nodeAffinity", "node_affinity"),
        ("volumes: []", "nodeSelector: {disk: ssd}", "no such field"),
        ("volumes: []", "priority: 7", "no such field"),
        (
            "      limits:\n",
            "      requests:\n        cpu: '2'\n        nvidia.com/gpu: '1'\n      limits:\n",
            "limits",
        ),
    ],
)
def test_a_field_of_kubernetes_is_refused_where_it_would_be_lost(old: str, new: str, own: str) -> None:
    with pytest.raises(InvalidObject, match=f"is Kubernetes', and this cluster's objects are rk8s': it has {own}"):
        read(changed(POD, old, new))


def test_requests_are_ignored_where_limits_name_the_same_resources() -> None:
    requests = "      requests:\n        cpu: '4'\n      limits:\n"
    assert read(changed(POD, "      limits:\n", requests)).requests == read(POD.encode()).requests


@pytest.mark.parametrize(
    "value", [b"", b"\x00\x01", b"\xff\xfe", b"[]", b"null", b"a: b", b"apiVersion: v1\nkind: Pod\n", b"[" * 5000]
)
def test_what_is_no_document_at_all_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidObject):
        parse_pod(value)


def test_a_document_of_too_many_values_is_refused_quickly() -> None:
    with pytest.raises(InvalidObject, match="has more than 100000 keys and values"):
        parse_pod(b"spec: [" + b"a," * (1 << 19) + b"]")


def test_another_name_than_the_keys_is_refused() -> None:
    with pytest.raises(InvalidObject, match=r"metadata\.name is 'web-1', in its key 'web-2'"):
        parse_pod(POD.encode(), "web-2")
