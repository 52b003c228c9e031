"""Pods and volumes that name nodes which do not exist: they wait for these, and use others that they name."""

from __future__ import annotations

import pytest

from tests.volumes import PROFILE as WITH_VOLUMES
from tests.volumes import bound_claim, bound_volume, cluster, host, storage, term, user
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, Requirement
from wharfinger.testing.builders import node, pod, snapshot

DEFAULT = load_profiles()["default-scheduler"]


def named(*names: str) -> NodeSelectorTerm:
    """A term of node affinity with the names of nodes."""
    return NodeSelectorTerm((), (Requirement("metadata.name", Operator.IN, names),))


@pytest.mark.parametrize(
    ("terms", "feasible"),
    [
        ((named("gone"),), ()),
        ((named("gone"), named("b")), ("b",)),
    ],
)
def test_affinity_to_a_node_that_does_not_exist_waits(
    terms: tuple[NodeSelectorTerm, ...], feasible: tuple[str, ...]
) -> None:
    evaluation = DEFAULT.evaluate(pod(required_node_terms=terms), snapshot(node("a"), node("b")))

    assert evaluation.feasible == feasible
    if not feasible:
        assert evaluation.rejectors == ("NodeAffinity",)
        assert evaluation.message.startswith(
            "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
        )


def test_the_pod_is_placed_when_the_node_that_it_names_appears() -> None:
    wanted = pod(required_node_terms=(named("late"),))
    nodes: list[Node] = [node("a"), node("late")]

    assert DEFAULT.evaluate(wanted, snapshot(*nodes[:1])).node is None
    assert DEFAULT.evaluate(wanted, snapshot(*nodes)).node == "late"


def test_of_the_nodes_that_a_volume_names_the_one_that_exists_is_used() -> None:
    terms = (*term("kubernetes.io/hostname", "gone"), *term("kubernetes.io/hostname", "n2"))
    around = storage(bound_volume("v", node_terms=terms), bound_claim("data", "v"))

    assert WITH_VOLUMES.evaluate(user("p1", "data"), cluster(host("n1"), host("n2"), around=around)).node == "n2"
    assert WITH_VOLUMES.evaluate(user("p1", "data"), cluster(host("n1"), around=around)).node is None
