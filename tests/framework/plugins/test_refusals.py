"""Words and order of the refusals of the plugins that do not look at resources."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.status import Code
from wharfinger.objects.model.pod import HostPort
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, Requirement, Taint, Toleration
from wharfinger.testing.builders import node, pod, snapshot

DEFAULT = load_profiles(catalog=catalog())["default-scheduler"]
ZONE_A = NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),))


def named(*names: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((), (Requirement("metadata.name", Operator.IN, names),))


def test_gates_keep_a_pod_out_and_are_named() -> None:
    status = DEFAULT.gate(pod(scheduling_gates=("example.com/quota", "b")))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.plugin == "SchedulingGates"
    assert status.reasons == ("waiting for scheduling gates: [example.com/quota b]",)
    assert DEFAULT.gate(pod()).ok


def test_more_important_pods_come_first_then_older_ones() -> None:
    arrivals = [(pod("low", priority=0), 1.0), (pod("late", priority=9), 3.0), (pod("early", priority=9), 2.0)]
    ordered = sorted(arrivals, key=lambda pair: DEFAULT.queue_key(*pair))
    assert [each.name for each, _ in ordered] == ["early", "late", "low"]


@pytest.mark.parametrize(
    ("wanted", "there", "reason"),
    [
        (pod(), node(unschedulable=True), "node(s) were unschedulable"),
        (pod(node_name="other"), node(), "node(s) didn't match the requested node name"),
        (pod(), node(taints=(Taint("k", "", "NoExecute"),)), "node(s) had untolerated taint(s)"),
        (pod(node_selector={"a": "b"}), node(), "node(s) didn't match Pod's node affinity/selector"),
        (pod(required_node_terms=()), node(), "node(s) didn't match Pod's node affinity/selector"),
        (pod(required_node_terms=(NodeSelectorTerm(),)), node(), "node(s) didn't match Pod's node affinity/selector"),
        (
            pod(required_features=frozenset({"A", "B"})),
            node(declared_features=frozenset({"A", "C"})),
            "node(s) didn't match Pod's required features",
        ),
        (
            pod(unsupported=("resource claims",)),
            node(),
            "devices are not decided here (resource claims)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_in_kube_schedulers_words(wanted: Any, there: Any, reason: str) -> None:
    status = DEFAULT.verify(wanted, snapshot(there), "n1")
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


def test_a_cordon_can_be_tolerated() -> None:
    tolerant = pod(tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists", effect="NoSchedule"),))
    assert DEFAULT.verify(tolerant, snapshot(node(unschedulable=True)), "n1").ok


@pytest.mark.parametrize(
    ("taken", "wanted", "conflicts"),
    [
        (HostPort("TCP", "0.0.0.0", 80), HostPort("TCP", "10.0.0.1", 80), True),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "10.0.0.2", 80), False),
        (HostPort("TCP", "0.0.0.0", 80), HostPort("UDP", "0.0.0.0", 80), False),
        (HostPort("TCP", "0.0.0.0", 80), HostPort("TCP", "0.0.0.0", 81), False),
    ],
    ids=["wildcard", "other address", "other protocol", "other port"],
)
def test_a_host_port_is_given_once(taken: HostPort, wanted: HostPort, conflicts: bool) -> None:
    nodes = snapshot(node(), n1=[pod("holder", host_ports=(taken,))])
    status = DEFAULT.verify(pod(host_ports=(wanted,)), nodes, "n1")
    assert status.ok != conflicts
    if conflicts:
        assert status.reasons == ("node(s) didn't have free ports for the requested pod ports",)


class TestNodeNamesInAffinity:
    NODES = snapshot(node("a", labels={"zone": "a"}), node("b"), node("c"))

    def test_the_others_are_not_even_looked_at(self) -> None:
        evaluation = DEFAULT.evaluate(pod(cpu=9000, required_node_terms=(named("a"),)), self.NODES)
        assert evaluation.message.startswith(
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. preempt"
        )
        assert evaluation.rejectors == ("NodeAffinity", "NodeResourcesFit")

    def test_a_term_without_names_lets_any_node_match(self) -> None:
        evaluation = DEFAULT.evaluate(pod(required_node_terms=(named("b"), ZONE_A)), self.NODES)
        assert evaluation.feasible == ("a", "b")

    def test_names_that_contradict_each_other_refuse_the_pod(self) -> None:
        both = NodeSelectorTerm((), (*named("a").fields, *named("b").fields))
        evaluation = DEFAULT.evaluate(pod(required_node_terms=(both,)), self.NODES)
        assert evaluation.message.startswith("0/3 nodes are available: pod affinity terms conflict. preemption: ")


def test_affinity_that_the_profile_adds_is_named_before_the_pods_own() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    config = {"profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": added}}]}]}
    profile = load_profiles(config, catalog=catalog())["default-scheduler"]
    nodes = snapshot(node("a", labels={"zone": "a"}), node("b"))
    assert profile.evaluate(pod(), nodes).feasible == ("a",)
    status = profile.verify(pod(node_selector={"x": "y"}), nodes, "b")
    assert status.reasons == ("node(s) didn't match scheduler-enforced node affinity",)
