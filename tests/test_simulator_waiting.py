"""The simulator's waiting pods: who waits, with what, and who is tried again because of what."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import UsageError
from wharfinger.testing import node_manifest as node
from wharfinger.testing import pod_manifest as pod
from wharfinger.whatif.simulator.simulator import Simulator

WEB, BIG = ("default", "web"), ("default", "big")


@pytest.fixture
def simulator() -> Simulator:
    """One node of 4 cores that a pod of 3 cores is on."""
    simulator = Simulator()
    simulator.add(node("n1"))
    simulator.add(pod("old", cpu="3", nodeName="n1"))
    return simulator


def refused(simulator: Simulator, obj: dict[str, Any]) -> tuple[str, str]:
    """The pod was added, decided, refused, and waits."""
    simulator.add(obj)
    key = ("default", obj["metadata"]["name"])
    decision = simulator.decide(key)
    assert decision.node is None
    simulator.park(key, decision)
    return key


def test_a_refused_pod_waits_from_when_it_is_parked(simulator: Simulator) -> None:
    simulator.add(pod("big", cpu="4"))
    assert simulator.waiting() == []
    simulator.park(BIG, simulator.decide(BIG))
    assert simulator.waiting() == [BIG]


def test_a_woken_pod_waits_no_more_until_it_is_parked_again(simulator: Simulator) -> None:
    refused(simulator, pod("big", cpu="4"))
    assert simulator.add(node("n2")) == [BIG]
    assert simulator.waiting() == []
    assert simulator.add(node("n3")) == []
    simulator.park(BIG, simulator.decide(BIG))
    assert simulator.waiting() == [BIG]


def test_only_what_may_help_wakes(simulator: Simulator) -> None:
    refused(simulator, pod("big", cpu="4"))
    assert simulator.add(node("small", cpu="2")) == []
    assert simulator.update(node("n1", labels={"a": "b"})) == []
    assert simulator.update(node("n1")) == []
    assert simulator.delete("Pod", "old") == [BIG]


def test_those_woken_are_sorted(simulator: Simulator) -> None:
    keys = [refused(simulator, pod(name, cpu="4")) for name in ("c", "a", "b")]
    assert simulator.delete("Pod", "old") == sorted(keys)


def test_a_pod_that_is_bound_or_deleted_waits_no_more(simulator: Simulator) -> None:
    refused(simulator, pod("big", cpu="4"))
    refused(simulator, pod("web", cpu="4"))
    assert simulator.bind(BIG, "n1") == []
    assert simulator.waiting() == [WEB]
    assert simulator.delete("Pod", "web") == []
    assert simulator.waiting() == []


def test_a_pod_of_the_same_name_is_another_one(simulator: Simulator) -> None:
    refused(simulator, pod("web", cpu="4", metadata={"uid": "first"}))
    simulator.add(pod("web", cpu="4", metadata={"uid": "second"}))
    assert simulator.waiting() == []


def test_a_bound_pod_cannot_be_bound_parked_or_nominated(simulator: Simulator) -> None:
    decision = simulator.decide(pod("web"))
    for act in (
        lambda: simulator.bind(("default", "old"), "n1"),
        lambda: simulator.park(("default", "old"), decision),
        lambda: simulator.nominate(("default", "old"), "n1"),
    ):
        with pytest.raises(UsageError, match="Pod default/old is bound to n1"):
            act()


def test_a_change_of_its_own_wakes_that_pod_alone(simulator: Simulator) -> None:
    refused(simulator, pod("big", cpu="4"))
    refused(simulator, pod("web", cpu="4"))
    assert simulator.update(pod("big", cpu="4", status={"phase": "Pending"})) == []
    assert simulator.update(pod("big", cpu="2")) == [BIG]
    assert simulator.waiting() == [WEB]


def test_a_decision_with_a_node_parks_too_and_anything_wakes_it(simulator: Simulator) -> None:
    simulator.add(pod("web"))
    decision = simulator.decide(WEB)
    assert decision.node == "n1"
    simulator.park(WEB, decision)
    assert simulator.waiting() == [WEB]
    assert simulator.add(node("tiny", cpu="0")) == [WEB]


def test_any_change_of_its_own_wakes_a_pod_without_rejectors(simulator: Simulator) -> None:
    simulator.add(pod("web"))
    simulator.park(WEB, simulator.decide(WEB))
    assert simulator.update(pod("web", status={"phase": "Pending"})) == [WEB]


class TestTermsAboutOtherPods:
    """As kube-scheduler has it, and no more than that."""

    @staticmethod
    def about(kind: str, **labels: str) -> dict[str, Any]:
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": labels}}
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    @pytest.fixture
    def simulator(self) -> Simulator:
        """One node in a zone, with a pod on it."""
        simulator = Simulator()
        simulator.add(node("n1", labels={"zone": "a"}))
        simulator.add(self.old(app="db"))
        return simulator

    @staticmethod
    def old(**labels: str) -> dict[str, Any]:
        return pod("old", nodeName="n1", metadata={"labels": labels})

    def test_whom_it_is_drawn_to_wakes_a_pod_when_it_is_bound(self, simulator: Simulator) -> None:
        web = refused(simulator, pod("web", affinity=self.about("podAffinity", app="cache")))
        assert simulator.add(pod("other", nodeName="n1")) == []
        simulator.add(pod("cache", metadata={"labels": {"app": "cache"}}))
        assert simulator.bind(("default", "cache"), "n1") == [web]

    def test_whom_it_is_kept_from_wakes_a_pod_when_it_ends(self, simulator: Simulator) -> None:
        web = refused(simulator, pod("web", affinity=self.about("podAntiAffinity", app="db")))
        assert simulator.add(pod("other", nodeName="n1")) == []
        assert simulator.delete("Pod", "old") == [web]

    def test_end_of_an_anti_affine_pod_wakes_a_pod_but_no_new_node_does(self, simulator: Simulator) -> None:
        simulator.add(pod("lonely", nodeName="n1", affinity=self.about("podAntiAffinity", app="web")))
        web = refused(simulator, pod("web", metadata={"labels": {"app": "web"}}))
        assert simulator.add(node("n2", labels={"zone": "b"})) == []
        assert simulator.delete("Pod", "lonely") == [web]

    def test_another_label_of_whom_it_is_kept_from_is_not_shown_to_it(self, simulator: Simulator) -> None:
        refused(simulator, pod("web", affinity=self.about("podAntiAffinity", app="db")))
        assert simulator.update(self.old(app="other")) == []

    def test_another_label_wakes_whom_spread_constraints_refused(self, simulator: Simulator) -> None:
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "db"}},
            "minDomains": 2,
        }
        labels = {"labels": {"app": "db"}}
        db = refused(simulator, pod("db", metadata=labels, topologySpreadConstraints=[constraint]))
        refused(simulator, pod("far", metadata={"namespace": "default"}, affinity=self.about("podAffinity", app="x")))
        assert simulator.update(self.old(app="other")) == [db]

    def test_end_of_a_series_does_not_wake_a_pod_that_would_begin_another(self, simulator: Simulator) -> None:
        affinity = self.about("podAffinity", app="db")
        simulator.update(node("n1", labels={"zone": "a"}, unschedulable=True))
        simulator.add(node("n2", labels={"zone": "b"}))
        refused(simulator, pod("db", metadata={"labels": {"app": "db"}}, affinity=affinity))
        assert simulator.delete("Pod", "old") == []
        assert simulator.decide(("default", "db")).node == "n2"


class TestGates:
    GATES = ({"name": "quota"}, {"name": "budget"})

    def test_a_gated_pod_waits_from_the_start(self, simulator: Simulator) -> None:
        simulator.add(pod("web", schedulingGates=self.GATES))
        assert simulator.waiting() == [WEB]

    def test_only_its_last_gate_wakes_it(self, simulator: Simulator) -> None:
        simulator.add(pod("web", schedulingGates=self.GATES))
        assert simulator.add(node("n2")) == []
        assert simulator.update(pod("web", schedulingGates=self.GATES[:1])) == []
        assert simulator.waiting() == [WEB]
        assert simulator.update(pod("web")) == [WEB]
        assert simulator.waiting() == []

    def test_a_gated_pod_that_is_parked_waits_for_its_gates(self, simulator: Simulator) -> None:
        simulator.add(pod("web", schedulingGates=self.GATES))
        decision = simulator.decide(WEB)
        simulator.park(WEB, decision)
        assert simulator.add(node("n2")) == []
        assert simulator.update(pod("web")) == [WEB]


class TestPreemption:
    def test_a_decision_names_node_and_victims(self, simulator: Simulator) -> None:
        decision = simulator.decide(pod("big", cpu="4", priority=5))
        assert (decision.node, decision.nominated_node, decision.victims) == (None, "n1", [("default", "old")])

    def test_room_that_is_promised_is_kept_from_lower_priorities(self, simulator: Simulator) -> None:
        refused(simulator, pod("big", cpu="4", priority=5))
        assert simulator.evict(("default", "old")) == [BIG]
        assert simulator.decide(pod("low", cpu="1")).node is None
        assert simulator.decide(pod("high", cpu="1", priority=6)).node == "n1"
        assert simulator.decide(BIG).node == "n1"

    def test_object_may_have_a_nominated_node(self, simulator: Simulator) -> None:
        simulator.add(node("n2"))
        simulator.add(pod("big", cpu="4", priority=5, status={"nominatedNodeName": "n2"}))
        assert simulator.decide(pod("low", cpu="2")).node is None
        assert simulator.decide(BIG).feasible == ["n2"]

    def test_a_nomination_taken_away_wakes_those_it_was_kept_from(self, simulator: Simulator) -> None:
        simulator.add(node("n2"))
        simulator.add(pod("big", cpu="4", priority=5))
        simulator.nominate(BIG, "n2")
        low = refused(simulator, pod("low", cpu="4"))
        high = refused(simulator, pod("high", cpu="5", priority=6))
        assert simulator.nominate(BIG, None) == [low]
        assert simulator.decide(low).node == "n2"
        assert simulator.waiting() == [high]

    def test_deleted_or_renominated_pod_wakes_those_its_room_was_kept_from(self, simulator: Simulator) -> None:
        for change in (
            lambda: simulator.delete("Pod", "big"),
            lambda: simulator.update(pod("big", cpu="4", priority=5, status={"nominatedNodeName": "n3"})),
        ):
            simulator.add(pod("big", cpu="4", priority=5, status={"nominatedNodeName": "n1"}))
            low = refused(simulator, pod("low", cpu="4"))
            assert change() == [low]

    def test_a_nomination_of_higher_priority_takes_the_place_of_lower_ones(self, simulator: Simulator) -> None:
        low = refused(simulator, pod("low", cpu="4", priority=1))
        simulator.add(pod("big", cpu="4", priority=5))
        decision = simulator.decide(BIG)
        assert decision.nominated_node == "n1"
        assert simulator.park(BIG, decision) == [low]
        assert simulator.waiting() == [BIG]

    def test_a_refusal_without_preemption_leaves_no_nomination(self, simulator: Simulator) -> None:
        simulator.add(node("n2"))
        simulator.add(pod("big", cpu="9", priority=5))
        simulator.nominate(BIG, "n2")
        simulator.park(BIG, simulator.decide(BIG))
        assert simulator.decide(pod("low", cpu="4")).node == "n2"

    def test_a_nomination_stays_while_its_victims_are_leaving(self, simulator: Simulator) -> None:
        leaving = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
        simulator.add(pod("big", cpu="4", priority=5, status={"nominatedNodeName": "n1"}))
        simulator.update(
            pod("old", cpu="3", nodeName="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, status=leaving)
        )
        decision = simulator.decide(BIG)
        assert "terminating pod on the nominated node" in decision.message
        simulator.park(BIG, decision)
        assert simulator.decide(pod("low", cpu="1")).node is None

    def test_the_later_a_pod_was_bound_the_sooner_it_is_evicted(self) -> None:
        for order in (("a", "b"), ("b", "a")):
            simulator = Simulator()
            simulator.add(node("n1"))
            for name in order:
                simulator.add(pod(name, cpu="2"))
                simulator.bind(("default", name), "n1")
            assert simulator.decide(pod("big", cpu="2", priority=5)).victims == [("default", order[1])]

    def test_a_start_time_that_is_given_counts(self) -> None:
        simulator = Simulator()
        simulator.add(node("n1"))
        simulator.add(pod("young", cpu="2", status={"startTime": "2027-01-01T00:00:00Z"}))
        simulator.bind(("default", "young"), "n1")
        simulator.add(pod("old", cpu="2"))
        simulator.bind(("default", "old"), "n1")
        assert simulator.decide(pod("big", cpu="2", priority=5)).victims == [("default", "young")]

    def test_a_budget_is_taken_as_written(self, simulator: Simulator) -> None:
        simulator.add(node("n2"))
        simulator.add(pod("other", cpu="3", nodeName="n2"))
        simulator.update(pod("old", cpu="3", nodeName="n1", metadata={"labels": {"app": "db"}}))
        budget = {
            "kind": "PodDisruptionBudget",
            "apiVersion": "policy/v1",
            "metadata": {"name": "db"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 0},
        }
        simulator.add(budget)
        assert simulator.decide(pod("big", cpu="4", priority=5)).victims == [("default", "other")]


def test_a_sampling_search_goes_on_where_the_last_one_ended() -> None:
    config = {"profiles": [{"schedulerName": "default-scheduler", "percentageOfNodesToScore": 1}]}
    simulator = Simulator(config)
    for number in range(300):
        simulator.add(node(f"n{number:03}"))
    sampled = [set(simulator.decide(pod("web")).feasible) for _ in range(4)]
    assert [len(names) for names in sampled] == [100] * 4
    assert sampled[0].isdisjoint(sampled[1])
    assert sampled[3] == sampled[0]


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **fields}


def test_a_pod_waits_for_its_priority_class(simulator: Simulator) -> None:
    assert simulator.add(pod("web", priorityClassName="high")) == []
    assert simulator.waiting() == [WEB]
    decision = simulator.decide(WEB)
    assert (decision.gated, decision.message) == (
        True,
        "SchedulingGated: no PriorityClass with name high was found, or it is invalid",
    )

    assert simulator.add(priority_class("high", 5)) == [WEB]
    assert simulator.decide(WEB).node == "n1"
    assert simulator.delete("PriorityClass", "high") == []
    assert simulator.waiting() == [WEB]


def test_a_refused_pod_is_tried_again_when_its_class_lets_it_preempt(simulator: Simulator) -> None:
    simulator.add(priority_class("high", 0))
    refused(simulator, pod("big", cpu="3", priorityClassName="high"))

    assert simulator.add(priority_class("high", 5)) == [BIG]
    assert simulator.decide(BIG).victims == [("default", "old")]
    assert simulator.decide(pod("new", cpu="3", priorityClassName="high")).victims == [("default", "old")]
    assert simulator.add(priority_class("high", 5, description="the same")) == []
