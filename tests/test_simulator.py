"""The simulator as a library: objects in, decisions out."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.testing import node_manifest as node
from wharfinger.testing import pod_manifest as pod
from wharfinger.whatif.simulator.simulator import Simulator


@pytest.fixture
def simulator() -> Simulator:
    simulator = Simulator()
    for name in ("n1", "n2"):
        simulator.add(node(name))
    return simulator


def test_a_pod_is_decided_and_bound(simulator: Simulator) -> None:
    simulator.add(pod("web"))
    decision = simulator.decide(("default", "web"))
    assert decision.feasible == ["n1", "n2"]
    assert decision.node in decision.feasible
    assert set(decision.totals) == {"n1", "n2"}
    assert decision.message == ""
    simulator.bind(("default", "web"), "n1")
    assert simulator.decide(pod("other", cpu="3500m")).feasible == ["n2"]


def test_deciding_changes_nothing(simulator: Simulator) -> None:
    answers = {simulator.decide(pod("web", cpu="3")).node for _ in range(5)}
    assert len(answers) == 1


def test_refusal_has_reasons_for_every_node_and_plugin(simulator: Simulator) -> None:
    simulator.add(node("n1", unschedulable=True))
    decision = simulator.decide(pod("huge", cpu="9"))
    assert decision.node is None
    assert decision.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert decision.rejectors == ["NodeResourcesFit", "NodeUnschedulable"]
    assert decision.refusals["n1"] == {
        "NodeUnschedulable": ["node(s) were unschedulable"],
        "NodeResourcesFit": ["Insufficient cpu"],
    }


def test_the_end_of_a_resize_in_place_wakes_who_waits_for_its_room(simulator: Simulator) -> None:
    def shrinking(allocated: str) -> dict[str, Any]:
        found = pod("web", cpu="1", nodeName="n1")
        report = {"name": "main", "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": "1"}}}
        return {**found, "status": {"phase": "Running", "containerStatuses": [report]}}

    simulator.delete("Node", "n2")
    simulator.update(shrinking("3"))
    simulator.add(pod("next", cpu="2"))
    refused = simulator.decide(("default", "next"))
    simulator.park(("default", "next"), refused)

    assert refused.refusals["n1"] == {"NodeResourcesFit": ["Insufficient cpu"]}
    assert simulator.update(shrinking("4")) == []
    assert simulator.update(shrinking("1")) == [("default", "next")]
    assert simulator.decide(("default", "next")).node == "n1"


def test_scoring_is_skipped_with_one_feasible_node(simulator: Simulator) -> None:
    simulator.delete("Node", "n2")
    decision = simulator.decide(pod("web"))
    assert (decision.node, decision.scores, decision.totals) == ("n1", {}, {})


def test_deleting_a_pod_gives_its_room_back(simulator: Simulator) -> None:
    simulator.add(pod("web", cpu="4", nodeName="n1"))
    assert simulator.decide(pod("next", cpu="2")).feasible == ["n2"]
    simulator.delete("Pod", "web")
    assert simulator.decide(pod("next", cpu="2")).feasible == ["n1", "n2"]


def test_an_unsupported_feature_is_refused_not_placed_wrongly(simulator: Simulator) -> None:
    decision = simulator.decide(pod("accelerated", resourceClaims=[{"name": "gpu"}]))
    assert decision.node is None
    assert "devices are not decided here (resource claims)" in decision.message
    assert decision.rejectors == ["UnsupportedFeatures"]


def test_the_configuration_chooses_the_profile() -> None:
    simulator = Simulator({"profiles": [{"schedulerName": "mine"}]})
    simulator.add(node("n1"))
    assert simulator.decide(pod("web", schedulerName="mine")).node == "n1"
    with pytest.raises(UsageError, match="no profile is called default-scheduler"):
        simulator.decide(pod("web"))


@pytest.mark.parametrize(
    "act",
    [
        lambda simulator: simulator.decide(("default", "nobody")),
        lambda simulator: simulator.decide("default/nobody"),
        lambda simulator: simulator.bind(("default", "nobody"), "n1"),
        lambda simulator: simulator.delete("Pod", "nobody"),
        lambda simulator: simulator.delete("Secret", "web"),
        lambda simulator: simulator.evict(("default", "nobody")),
        lambda simulator: simulator.nominate(("default", "nobody"), "n1"),
        lambda simulator: simulator.park(("default", "nobody"), simulator.decide(pod("web"))),
        lambda simulator: simulator.add({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}),
    ],
    ids=["decide", "no key", "bind", "delete", "delete another kind", "evict", "nominate", "park", "add"],
)
def test_asking_for_what_is_not_there_is_a_usage_error(simulator: Simulator, act: Any) -> None:
    with pytest.raises(UsageError):
        act(simulator)


@pytest.mark.parametrize(
    "act",
    [
        lambda simulator: simulator.decide((["default"], "web")),
        lambda simulator: simulator.decide(("default", None)),
        lambda simulator: simulator.delete("Pod", ["web"]),
        lambda simulator: simulator.bind(("default", "web"), ["n1"]),
        lambda simulator: simulator.nominate(("default", "web"), 3),
        lambda simulator: simulator.park(("default", "web"), None),
        lambda simulator: simulator.park(("default", "web"), "n1"),
        lambda _: Simulator(3),  # type: ignore[arg-type]
        lambda _: Simulator([]),  # type: ignore[arg-type]
    ],
    ids=["key", "name", "delete", "bind", "nominate", "park none", "park a node", "number", "list"],
)
def test_using_another_type_is_a_usage_error(simulator: Simulator, act: Any) -> None:
    simulator.add(pod("web"))
    with pytest.raises(UsageError):
        act(simulator)


def test_invalid_object_is_reported(simulator: Simulator) -> None:
    with pytest.raises(InvalidObject):
        simulator.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": 3})


def test_a_gated_pod_is_not_placed(simulator: Simulator) -> None:
    decision = simulator.decide(pod("web", schedulingGates=[{"name": "quota"}, {"name": "budget"}]))
    assert (decision.node, decision.feasible, decision.scores, decision.totals) == (None, [], {}, {})
    assert decision.message == "SchedulingGated: waiting for scheduling gates: [quota budget]"
    assert decision.rejectors == ["SchedulingGates"]
    assert decision.refusals == {}


@pytest.mark.parametrize(
    "kind",
    ["Namespace", "Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PodDisruptionBudget", "PodGroup"],
)
def test_what_surrounds_pods_is_added_and_deleted_once(simulator: Simulator, kind: str) -> None:
    assert simulator.add({"kind": kind, "metadata": {"name": "web"}}) == []
    assert simulator.update({"kind": kind, "metadata": {"name": "web"}}) == []
    assert simulator.delete(kind, "web") == []
    with pytest.raises(UsageError, match=f"there is no {kind} "):
        simulator.delete(kind, "web")


def test_a_pod_added_again_is_the_same_pod(simulator: Simulator) -> None:
    nameless = pod("web")
    del nameless["metadata"]["uid"]
    for name in ("n3", "n4", "n5", "n6"):
        simulator.add(node(name))
    simulator.add(nameless)
    first = simulator.decide(("default", "web")).node
    for _ in range(5):
        simulator.add(nameless)
    assert simulator.decide(("default", "web")).node == first


def test_simulator_returns_the_queues_order_and_the_cluster(simulator: Simulator) -> None:
    for name, priority in (("first", 0), ("urgent", 5), ("second", 0)):
        simulator.add(pod(name, priority=priority))
    arrivals = {"first": 1.0, "urgent": 2.0, "second": 3.0}

    assert sorted(arrivals, key=lambda name: simulator.queue_key(("default", name), arrivals[name])) == [
        "urgent",
        "first",
        "second",
    ]
    simulator.bind(("default", "first"), "n1")
    assert simulator.snapshot().info("n1").requested["cpu"] == 1000


def test_preemption_can_be_left_out_and_first_refusals_are_counted(simulator: Simulator) -> None:
    for name in ("n1", "n2"):
        simulator.add(pod(f"on-{name}", cpu="4", nodeName=name))
    simulator.add(pod("urgent", cpu="4", priority=5))

    assert simulator.decide(("default", "urgent")).nominated_node in ("n1", "n2")
    decision = simulator.decide(("default", "urgent"), preempt=False)
    assert (decision.nominated_node, decision.victims) == (None, [])
    assert decision.first_refusals == {"NodeResourcesFit": {"Insufficient cpu": 2}}
    gated = simulator.decide(pod("gated", schedulingGates=[{"name": "later"}]))
    assert (gated.gated, list(gated.first_refusals)) == (True, ["SchedulingGates"])
