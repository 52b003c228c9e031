"""A pod as large as etcd takes it delays no other pod for long. What these generous limits prevent took minutes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.shares import in_quarters
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.node_fields import conflict
from wharfinger.framework.plugins.pod_counting import label_test
from wharfinger.framework.plugins.taint_toleration import tolerated, unpreferred
from wharfinger.framework.plugins.unsupported_features import MOST_TERMS
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.pod import HostPort
from wharfinger.objects.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    PreferredTerm,
    Requirement,
    Taint,
    Toleration,
    WeightedPodAffinityTerm,
)
from wharfinger.testing.builders import node, pod

MANY = 4096
"""Entries that a list or mapping of an object may have."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """`seconds` of CPU: other processes on the machine must not make a test fail."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def cluster(nodes: int, pods: int) -> Snapshot:
    bound = [
        pod(f"b{number}", labels={"app": f"app-{number % 200}", "tier": "x"}, create_revision=number + 1)
        for number in range(pods)
    ]
    return Snapshot.of(
        NodeInfo.of(node(f"n{row}", labels={"host": f"n{row}", "age": str(row)}), bound[row::nodes])
        for row in range(nodes)
    )


def test_thousands_of_ports_against_thousands() -> None:
    wanted = [HostPort("TCP", "10.0.0.1", port) for port in range(1, MANY)]
    taken = [HostPort("TCP", "10.0.0.2", port) for port in range(1, MANY)]
    with within(0.5):
        assert not conflict(wanted, taken)
        assert conflict(wanted, [*taken, HostPort("TCP", "0.0.0.0", 7)])
        assert not conflict(wanted, [HostPort("UDP", "0.0.0.0", 7)])


def test_thousands_of_comparisons_with_labels_of_many_values() -> None:
    snapshot = cluster(3000, 0)
    older = tuple(Requirement("age", Operator.GT, (str(number),)) for number in range(MANY - 3000, 2000))
    preferred = tuple(PreferredTerm(1, NodeSelectorTerm((each,))) for each in older)
    subject = pod(required_node_terms=(NodeSelectorTerm(older),), preferred_node_terms=preferred)
    with within(2):
        evaluation = load_profiles()["default-scheduler"].evaluate(subject, snapshot)
    assert evaluation.feasible_count == 1000


def test_as_many_terms_as_a_pod_may_have_and_not_one_more() -> None:
    snapshot = cluster(1000, 10000)
    terms = tuple(
        PodAffinityTerm("host", LabelSelector((Requirement("app", Operator.NOT_IN, (str(number),)),)), frozenset({"x"}))
        for number in range(MOST_TERMS // 2)
    )
    everywhere = tuple(
        WeightedPodAffinityTerm(1, PodAffinityTerm("host", each.selector, frozenset({"default"}))) for each in terms
    )
    profile = load_profiles()["default-scheduler"]
    with within(3):
        assert profile.evaluate(pod(required_anti_affinity=terms, preferred_affinity=everywhere), snapshot).node
    refused = profile.evaluate(pod(required_anti_affinity=(*terms, terms[0]), preferred_affinity=everywhere), snapshot)
    assert refused.rejectors == ("UnsupportedFeatures",)
    assert "more than 128 terms about other pods" in refused.message


def test_a_term_with_thousands_of_requirements() -> None:
    snapshot = cluster(1000, 10000)
    absent = tuple(Requirement(f"k{number}", Operator.DOES_NOT_EXIST) for number in range(MANY))
    term = PodAffinityTerm("host", LabelSelector(absent), frozenset({"default"}))
    with within(2):
        assert load_profiles()["default-scheduler"].evaluate(pod(required_affinity=(term,)), snapshot).node


def test_thousands_of_tolerations_against_thousands_of_taints() -> None:
    taints = tuple(Taint("dedicated", str(number), "NoSchedule") for number in range(MANY))
    tolerations = tuple(Toleration("dedicated", "Equal", taint.value, taint.effect) for taint in taints)
    with within(0.5):
        assert tolerated(tolerations, taints)
        assert not tolerated(tolerations[1:], taints)


def test_thousands_of_resources_of_each_of_many_nodes() -> None:
    offers = [{"cpu": 1000, "pods": 10} | {f"r{row}/{number}": 1 for number in range(200)} for row in range(100)]
    snapshot = Snapshot.of(NodeInfo.of(node(f"n{row}", allocatable=offer)) for row, offer in enumerate(offers))
    subject = pod(requests={resource: 1 for offer in offers[:20] for resource in offer if "/" in resource})
    with within(2):
        assert load_profiles()["default-scheduler"].evaluate(subject, snapshot).node is None


@in_quarters(100)
@given(
    few=st.lists(
        st.builds(
            Toleration,
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["", "Equal", "Exists", "Bogus"]),
            st.sampled_from(["", "x", "y"]),
            st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
        ),
        max_size=5,
    ),
    taint=st.builds(
        Taint,
        st.sampled_from(["a", "b"]),
        st.sampled_from(["", "x", "y"]),
        st.sampled_from(["NoSchedule", "PreferNoSchedule"]),
    ),
)
def test_taints_are_looked_up_as_they_are_compared(quarter: int, few: list[Toleration], taint: Taint) -> None:
    many = (*few, *(Toleration(f"other{number}", "Exists") for number in range(300)))
    assert tolerated(many, (taint,)) is tolerated(tuple(few), (taint,))
    assert unpreferred(many, (taint,)) == unpreferred(tuple(few), (taint,))


requirements = st.builds(
    Requirement,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]),
    st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=3).map(tuple),
)


@given(
    st.lists(requirements, max_size=14).map(tuple),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["x", "y", "z"])),
)
def test_the_quick_test_of_labels_is_the_selector(wanted: tuple[Requirement, ...], labels: dict[str, str]) -> None:
    selector = LabelSelector(wanted)
    assert label_test(selector)(labels) is selector.matches(labels)


@pytest.mark.parametrize("text", ["7", "+7", "-0", "", "x", "9223372036854775807", "9223372036854775808"])
@pytest.mark.parametrize("operator", [Operator.GT, Operator.LT])
def test_comparisons_by_column_read_integers_as_one_by_one(text: str, operator: Operator) -> None:
    snapshot = cluster(9, 0).resized((), [NodeInfo.of(node("odd", labels={"age": text})), NodeInfo.of(node("none"))])
    for bound in ("6", "-1", text):
        term = NodeSelectorTerm((Requirement("age", operator, (bound,)),))
        subject = pod(required_node_terms=(term,))
        expected = {info.node.name for info in snapshot.rows if term.matches(info.node.name, info.node.labels)}
        assert set(load_profiles()["default-scheduler"].evaluate(subject, snapshot).feasible) == expected
