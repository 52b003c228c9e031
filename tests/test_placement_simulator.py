"""Placements in memory: what happens to members and placements, deciding, committing."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.placement.kubefleet.placement_simulator import PlacementSimulator

P = "cluster/web"


def cluster(name: str, **labels: str) -> dict[str, Any]:
    agent = {
        "type": "MemberAgent",
        "lastReceivedHeartbeat": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("Joined", "Healthy")
        ],
    }
    return {
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
        "status": {"agentStatus": [agent]},
    }


def web(number: int | None = None, **metadata: Any) -> dict[str, Any]:
    policy = {} if number is None else {"policy": {"placementType": "PickN", "numberOfClusters": number}}
    return {"kind": "ClusterResourcePlacement", "metadata": {"name": "web", **metadata}, "spec": policy}


@pytest.fixture
def simulator() -> PlacementSimulator:
    simulator = PlacementSimulator()
    for name in ("a", "b"):
        simulator.add(cluster(name))
    return simulator


def commit(simulator: PlacementSimulator) -> list[str]:
    """Decide and commit; the chosen."""
    decision = simulator.decide(P)
    simulator.commit(decision)
    return [one["cluster"] for one in decision.bindings if one["state"] != "Unscheduled"]


def test_a_decision_has_the_shapes_of_the_recordings(simulator: PlacementSimulator) -> None:
    simulator.add(web(1))
    decision = simulator.decide(P)
    assert decision.snapshot == {"name": "web-0", "numberOfClusters": 1, "generation": 1}
    (binding,) = decision.bindings
    assert binding == {
        "id": "b#0", "cluster": "b", "state": "Scheduled", "policy": "web-0", "affinity": 0, "spread": 0,
    }  # fmt: skip
    assert decision.cycles == [{"changed": [binding], "wrote": True}]
    assert decision.status is not None
    assert decision.status["scheduled"]["reason"] == "SchedulingPolicyFulfilled"
    assert [one["cluster"] for one in decision.status["decisions"]] == ["b", "a"]
    assert decision.deviations == frozenset()


def test_deciding_changes_nothing_until_it_is_committed(simulator: PlacementSimulator) -> None:
    simulator.add(web(1))
    assert simulator.decide(P).cycles == simulator.decide(P).cycles
    assert commit(simulator) == ["b"]
    assert simulator.decide(P).cycles == [{}]


def test_a_stale_decision_is_not_committed(simulator: PlacementSimulator) -> None:
    simulator.add(web(1))
    stale = simulator.decide(P)
    commit(simulator)
    with pytest.raises(UsageError, match="decide again"):
        simulator.commit(stale)
    edited = simulator.decide(P)
    simulator.add(web(2))
    with pytest.raises(UsageError, match="decide again"):
        simulator.commit(edited)


def test_the_generation_grows_with_the_spec_unless_it_is_given(simulator: PlacementSimulator) -> None:
    generations = []
    for obj in (web(1), web(1), web(2), web(2, generation=9), web(1)):
        simulator.add(obj)
        generations.append(simulator.decide(P).snapshot["generation"])
    assert generations == [1, 1, 2, 9, 10]


def test_another_number_keeps_the_policy_and_another_type_makes_a_new_one(simulator: PlacementSimulator) -> None:
    names = []
    for number in (1, 2, None):
        simulator.add(web(number))
        names.append(simulator.decide(P).snapshot["name"])
    assert names == ["web-0", "web-0", "web-1"]


def test_a_leaving_member_stays_so_and_a_gone_one_returns_as_another(simulator: PlacementSimulator) -> None:
    simulator.add(web())
    assert commit(simulator) == ["a", "b"]
    simulator.bind(P, "a#0")
    left = cluster("a")
    left["metadata"]["deletionTimestamp"] = simulator.now
    simulator.add(left)
    simulator.add(cluster("a"))
    assert commit(simulator) == ["b"]
    simulator.delete("MemberCluster", "a")
    simulator.add(cluster("a"))
    decision = simulator.decide(P)
    assert decision.deviations == {"D11"}
    assert [(one["id"], one["state"]) for one in decision.bindings][:2] == [
        ("a#0", "Unscheduled"),
        ("a#1", "Scheduled"),
    ]


def test_an_evicted_member_returns_once_its_works_are_gone(simulator: PlacementSimulator) -> None:
    simulator.add(web())
    commit(simulator)
    simulator.delete_binding(P, "a#0", lingers=True)
    decision = simulator.decide(P)
    assert [one["cluster"] for one in decision.bindings if "deleting" not in one] == ["b"]
    assert "D12" in decision.deviations
    simulator.commit(decision)
    simulator.finish(P, "a#0")
    assert commit(simulator) == ["a", "b"]


def test_upstream_cycles_until_all_are_picked() -> None:
    simulator = PlacementSimulator(upstream=True)
    for name in ("a", "b", "c"):
        simulator.add(cluster(name, region=name))
    spread = {"topologySpreadConstraints": [{"topologyKey": "region"}]}
    simulator.add({**web(), "spec": {"policy": {"placementType": "PickN", "numberOfClusters": 3, **spread}}})
    decision = simulator.decide(P)
    assert [cycle.get("requeue", False) for cycle in decision.cycles] == [True, True, False]
    simulator.commit(decision)
    assert simulator.decide(P).cycles == [{}]


def test_what_is_used_wrongly_is_told(simulator: PlacementSimulator) -> None:
    simulator.add(web(1))
    commit(simulator)
    for wrong in (
        lambda: simulator.add({"kind": "Pod"}),
        lambda: simulator.delete("MemberCluster", "z"),
        lambda: simulator.delete("Pod", "web"),
        lambda: simulator.decide("cluster/other"),
        lambda: simulator.bind(P, "z#0"),
        lambda: simulator.finish(P, "b#0"),
        lambda: simulator.delete("ResourcePlacement", "web"),
    ):
        with pytest.raises(UsageError):
            wrong()
    simulator.bind(P, "b#0")
    with pytest.raises(UsageError, match="is Bound, not Scheduled"):
        simulator.bind(P, "b#0")
    with pytest.raises(InvalidObject):
        simulator.add(web(1, name=None))


def test_what_was_decided_may_be_restored_before_the_placement_is_added(simulator: PlacementSimulator) -> None:
    bound = {"id": "a#3", "cluster": "a", "state": "Bound", "policy": "web-4", "affinity": 0, "spread": 0}
    simulator.restore(P, {"name": "web-4", "numberOfClusters": 1, "generation": 7}, [bound])
    with pytest.raises(UsageError, match="there is no placement"):
        simulator.decide(P)
    simulator.add(web(1))
    decision = simulator.decide(P)
    assert decision.snapshot == {"name": "web-4", "numberOfClusters": 1, "generation": 7}
    assert decision.bindings == [bound]
    simulator.add(web(2))
    assert [one["id"] for one in simulator.decide(P).bindings] == ["a#3", "b#0"]


def test_placements_of_a_namespace_are_deleted_there(simulator: PlacementSimulator) -> None:
    simulator.add({**web(1), "kind": "ResourcePlacement"})
    assert simulator.decide("ns/default/web").snapshot["name"] == "web-0"
    simulator.delete("ResourcePlacement", "web", "default")
    with pytest.raises(UsageError):
        simulator.decide("ns/default/web")


def test_a_deleted_placement_is_forgotten(simulator: PlacementSimulator) -> None:
    simulator.add(web(1))
    commit(simulator)
    simulator.delete("ClusterResourcePlacement", "web")
    simulator.add(web(2))
    assert commit(simulator) == ["a", "b"]


def test_a_plan_tells_who_would_get_other_members_and_changes_nothing(simulator: PlacementSimulator) -> None:
    simulator.add(web(1))
    simulator.commit(simulator.decide(P))
    assert simulator.plan() == []
    assert simulator.plan(web(1), leave=["a"]) == []
    (planned,) = simulator.plan(leave=["b"])
    assert planned.reference == P
    assert [one["cluster"] for one in planned.bindings if one["state"] == "Scheduled"] == ["a"]
    (planned,) = simulator.plan(web(2), cluster("c"))
    assert sorted(one["cluster"] for one in planned.bindings) == ["b", "c"]
    with pytest.raises(UsageError):
        simulator.plan(leave=["x"])
    assert simulator.plan() == []


@pytest.mark.parametrize(("upstream", "kept"), [(False, ["b", "d"]), (True, ["a", "b"])])
def test_a_scale_down_keeps_hard_spread_but_not_as_kubefleet_does_it(upstream: bool, kept: list[str]) -> None:
    simulator = PlacementSimulator(upstream=upstream)
    for name, zone in zip("abcd", "AABB", strict=True):
        simulator.add(cluster(name, zone=zone))
    spread = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    for number in (4, 2):
        wanted = web(number)
        wanted["spec"]["policy"]["topologySpreadConstraints"] = spread
        simulator.add(wanted)
        decision = simulator.decide(P)
        simulator.commit(decision)
        for one in decision.bindings:
            if one["state"] == "Scheduled":
                simulator.bind(P, one["id"])
    assert sorted(one["cluster"] for one in decision.bindings if one["state"] != "Unscheduled") == kept
    assert ("D14" in decision.deviations) is not upstream
