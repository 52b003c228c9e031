"""Every recorded decision of a real kube-scheduler is ours too; `data/README.md` says how they are compared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.scenarios import (
    REQUEUE,
    as_object,
    changes_before,
    families,
    key_of,
    make_change,
    parts,
    scenarios,
    set_up,
)
from wharfinger.whatif.simulator.simulator import SimulatedDecision, Simulator


def without_zeros(scores: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {node: {name: value for name, value in plugins.items() if value} for node, plugins in scores.items()}


def check_refused(decision: SimulatedDecision, expected: dict[str, Any]) -> None:
    assert decision.node is None
    assert decision.feasible == []
    assert parts(decision.message) == parts(expected["message"])
    assert (decision.nominated_node, decision.victims) == (None, [])


def check_placed(decision: SimulatedDecision, expected: dict[str, Any]) -> None:
    if "scores" not in expected:
        assert decision.feasible == [expected["node"]]
        assert decision.scores == {}
        assert decision.node == expected["node"]
        return
    assert decision.feasible == sorted(expected["scores"])
    assert without_zeros(decision.scores) == without_zeros(expected["scores"])
    highest = max(decision.totals.values())
    assert decision.totals[expected["node"]] == highest
    assert decision.node is not None
    assert decision.totals[decision.node] == highest


def preempt(simulator: Simulator, key: tuple[str, str], expected: dict[str, Any]) -> None:
    """The victims leave, and the pod is decided again with its nomination."""
    decision = simulator.decide(key)
    assert decision.node is None
    assert decision.nominated_node == expected["nominated"]
    assert sorted(name for _, name in decision.victims) == sorted(expected["victims"])
    simulator.nominate(key, decision.nominated_node)
    for victim in decision.victims:
        simulator.evict(victim)
    assert simulator.decide(key).node == expected["node"]


@pytest.mark.parametrize("scenario", list(scenarios(*(family for family in families() if family != REQUEUE))))
def test_decides_what_kube_scheduler_decided(scenario: dict[str, Any]) -> None:
    simulator = set_up(scenario)
    for pod, expected in zip(scenario["pods"], scenario["expect"], strict=True):
        key = key_of(pod)
        assert expected["pod"] == key[1]
        for change in changes_before(scenario, pod):
            make_change(simulator, change)
        simulator.add(as_object("Pod", pod))
        if "nominated" in expected:
            preempt(simulator, key, expected)
        elif "message" in expected:
            check_refused(simulator.decide(key), expected)
        else:
            check_placed(simulator.decide(key), expected)
        if "node" in expected:
            simulator.bind(key, expected["node"])
        else:
            simulator.delete("Pod", key[1], key[0])
