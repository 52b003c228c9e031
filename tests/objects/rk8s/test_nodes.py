"""Nodes of rk8s are read as the nodes of Kubernetes that they stand for."""

from __future__ import annotations

import pytest

from tests.objects.rk8s.samples import NODE, changed
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import node_from_mapping
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.selectors import Taint
from wharfinger.objects.rk8s.documents import parse_node
from wharfinger.objects.rk8s.nodes import ANY_NUMBER


def read(value: bytes) -> Node:
    """The model's node, as the rest of `objects.documents` reads it."""
    return node_from_mapping(parse_node(value))


def offered(text: str) -> bytes:
    """The node with this `allocatable`."""
    start, end = NODE.index("  allocatable:"), NODE.index("  addresses:")
    return f"{NODE[:start]}  allocatable: {text}\n{NODE[end:]}".encode()


def test_all_that_scheduling_reads_of_a_node_is_read() -> None:
    node = read(NODE.encode())

    assert (node.name, node.labels, node.unschedulable) == ("worker1", {"zone": "a"}, False)
    assert node.allocatable == {"cpu": 7000, "memory": 30 * 2**30, "pods": 110}
    assert node.taints == (Taint("NodeNotReady", "", "NoExecute"),)
    assert node.conditions == {"Ready": "False"}


def test_a_node_without_a_number_of_pods_takes_any_number() -> None:
    assert read(offered("{cpu: 2}")).allocatable == {"cpu": 2000, "memory": 0, "pods": ANY_NUMBER}


@pytest.mark.parametrize(("cards", "count"), [("'8'", 8), ("8", 8), ("none", None), ("0", None)])
def test_cards_come_from_the_label(cards: str, count: int | None) -> None:
    labelled = changed(NODE, "    zone: a\n", f"    zone: a\n    nvidia.com/gpu.count: {cards}\n")

    assert read(labelled).allocatable.get("nvidia.com/gpu") == count


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("  podCIDR: 10.244.1.0/24\n", "", "spec.podCIDR is missing"),
        ("key: NodeNotReady", "key: dedicated", r"spec.taints\[0\].key 'dedicated' is none of"),
        ("    effect: NoExecute\n", "", r"spec.taints\[0\].effect is missing"),
        ("- type: Ready", "- type: Happy", r"status.conditions\[0\].type 'Happy' is none of"),
        ("status: 'False'", "status: Perhaps", r"status.conditions\[0\].status 'Perhaps' is none of"),
        ("memory: 30Gi", "memory: plenty", "status.allocatable.memory 'plenty'"),
        ("cpu: '7'\n    memory: 30Gi\n    pods: '110'", "pods: a few", "status.allocatable.pods 'a few' is no number"),
        ("podCIDR: 10", "unschedulable: true\n  podCIDR: 10", "spec.unschedulable is Kubernetes'"),
    ],
)
def test_what_is_no_node_is_refused_with_its_place(old: str, new: str, why: str) -> None:
    with pytest.raises(InvalidObject, match=why):
        read(changed(NODE, old, new))
