"""Every recorded decision of a real kube-scheduler is ours too; `data/README.md` says how they are compared."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wharfinger.simulator import SimulatedDecision, Simulator

DATA = Path(__file__).parent / "data"
FAMILIES = ("fit", "strategy", "taints", "nodeaffinity")


def scenarios() -> Iterator[Any]:
    for family in FAMILIES:
        with gzip.open(DATA / f"{family}.jsonl.gz", "rt") as lines:
            for line in lines:
                scenario = json.loads(line)
                yield pytest.param(scenario, id=f"{family}-{scenario['seed']}")


def as_object(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, **fields}


def without_zeros(scores: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {node: {name: value for name, value in plugins.items() if value} for node, plugins in scores.items()}


def check(decision: SimulatedDecision, expected: dict[str, Any]) -> None:
    if "message" in expected:
        assert decision.node is None
        assert decision.feasible == []
        assert decision.message.rstrip(".") == expected["message"].split(". ")[0].rstrip(".")
        return
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


@pytest.mark.parametrize("scenario", list(scenarios()))
def test_decides_what_kube_scheduler_decided(scenario: dict[str, Any]) -> None:
    simulator = Simulator({"profiles": [scenario["profile"]]})
    for node in scenario["nodes"]:
        simulator.add(as_object("Node", node))
    for pod, expected in zip(scenario["pods"], scenario["expect"], strict=True):
        namespace, name = pod["metadata"].get("namespace", "default"), pod["metadata"]["name"]
        assert expected["pod"] == name
        simulator.add(as_object("Pod", pod))
        check(simulator.decide((namespace, name)), expected)
        if "node" in expected:
            simulator.bind((namespace, name), expected["node"])
        else:
            simulator.delete("Pod", name, namespace)
