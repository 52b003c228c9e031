"""After every recorded change of the cluster, the waiting pods that kube-scheduler tried again are ours too."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import pytest

from tests.conformance.scenarios import REQUEUE, as_object, families, key_of, scenarios, set_up
from wharfinger.whatif.simulator.simulator import Simulator

NAMESPACE = "default"
KINDS = {"nodes": "Node", "pods": "Pod"}


def feed(simulator: Simulator, scenario: dict[str, Any]) -> None:
    """The pods come one by one; those that woke meanwhile were tried in vain, and wait again."""
    for pod in scenario["pods"]:
        key = key_of(pod)
        woken = simulator.add(as_object("Pod", pod))
        first = scenario["first"].get(key[1])
        if first is None:
            assert key in simulator.waiting()  # gated
        elif "node" in first:
            woken += simulator.bind(key, first["node"])
        else:
            simulator.park(key, simulator.decide(key))
        for other in woken:
            simulator.park(other, simulator.decide(other))


def change(simulator: Simulator, event: dict[str, Any]) -> Iterable[tuple[str, str]]:
    kind = KINDS[event["kind"]]
    if event["op"] == "put":
        return simulator.update(as_object(kind, event["object"]))
    return simulator.delete(kind, event["object"]["metadata"]["name"])


def attempted(simulator: Simulator, event: dict[str, Any]) -> tuple[set[str], dict[str, str]]:
    """Who is tried again because of an event, and where the recorded placements put them.

    A placement is a change for the others, who may be tried again because of it.
    """
    tried: set[str] = set()
    bound: dict[str, str] = {}
    queue = deque(change(simulator, event))
    while queue:
        key = queue.popleft()
        tried.add(key[1])
        decision = simulator.decide(key)
        node = event["bound"].get(key[1])
        if node in decision.feasible:
            assert node is not None
            bound[key[1]] = node
            queue.extend(simulator.bind(key, node))
        else:
            simulator.park(key, decision)
    return tried, bound


@pytest.mark.parametrize("scenario", list(scenarios(*(family for family in families() if family == REQUEUE))))
def test_tries_again_whom_kube_scheduler_tried_again(scenario: dict[str, Any]) -> None:
    simulator = set_up(scenario)
    feed(simulator, scenario)
    for number, event in enumerate(scenario["events"]):
        expected = set(event["attempted"]), event["bound"]
        assert attempted(simulator, event) == expected, f"event {number}: {event['what']}"
