from __future__ import annotations

from collections import Counter
from functools import cache

from wharfinger.dev.demo import openb
from wharfinger.objects.documents.decode import node_from_mapping, pod_from_mapping
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod

CREATED = "2026-01-01T00:00:00Z"


@cache
def read() -> tuple[list[Node], list[Pod]]:
    """The whole trace, which takes a second."""
    nodes = [node_from_mapping(node) for node in openb.nodes(created=CREATED)]
    return nodes, [pod_from_mapping(pod) for pod in openb.pods(created=CREATED)]


def test_all_nodes_and_pods_of_the_trace_can_be_read_as_kubernetes_objects() -> None:
    nodes, pods = read()

    assert (len(nodes), len(pods)) == (1523, openb.TOTAL)
    assert len({node.uid for node in nodes} | {pod.uid for pod in pods}) == 1523 + openb.TOTAL


def test_the_figures_are_those_of_the_trace() -> None:
    nodes, pods = read()

    assert sum(node.allocatable["cpu"] for node in nodes) == 125_514_000
    assert sum(node.allocatable.get(openb.GPU, 0) for node in nodes) == 6_212_000
    assert sum(pod.requests["cpu"] for pod in pods) == 85_436_012
    assert sum(pod.requests.get(openb.GPU, 0) for pod in pods) == 6_086_800
    assert Counter(pod.priority for pod in pods) == {2000: 4654, 1000: 100, 0: 3398}
    assert sum(pod.required_node_terms is not None for pod in pods) == 2388


def test_the_first_pods_are_taken_in_the_order_of_the_trace() -> None:
    names = [pod["metadata"]["name"] for pod in openb.pods(3, created=CREATED)]

    assert names == ["openb-pod-0000", "openb-pod-0001", "openb-pod-0002"]
