"""What rk8s' own tests of GPUs, gangs and topology (May 2026) expect, from its documents to the decision.

First its scenarios in the store, then the units of its plugins, as far as a decision can show them.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from wharfinger.objects.model.node import GPU
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.rk8s.documents import parse_node, parse_pod
from wharfinger.whatif.simulator.simulator import SimulatedGang, Simulator

CONFIG = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "GpuMemory"}]}}}]}
DOMAIN = "topology.rk8s.io/nvlink-domain"
SAME_DOMAIN = f"topology_constraints: [{{topology_key: {DOMAIN}, same_value: true}}], "

NODE = """\
apiVersion: v1
kind: Node
metadata: {{name: {name}, namespace: default, labels: {{{labels}}}}}
spec: {{podCIDR: 10.244.1.0/24, taints: []}}
status:
  capacity: {{cpu: '64', memory: 256Gi}}
  allocatable: {{cpu: '64', memory: 256Gi}}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, labels: {{app: train}}, annotations: {{}}}}
spec: {{{more}node_name: null, containers: [{{name: main, image: train, resources: {{limits: {limits}}}}}]}}
status: {{phase: Pending}}
"""


def gpu_node(name: str, cards: int, memory: str = "80", domain: str = "") -> dict[str, Any]:
    labels = f"nvidia.com/gpu.count: '{cards}', nvidia.com/gpu.memory-gib: '{memory}', nvidia.com/gpu.product: H100"
    return parse_node(NODE.format(name=name, labels=labels + (f", {DOMAIN}: {domain}" if domain else "")).encode())


def gpu_pod(name: str, cards: int = 2, memory: str = "20Gi", *, gang: int = 0, more: str = "") -> dict[str, Any]:
    """A pod that asks for cards; `gang`: the size of its gang."""
    limits = f"{{cpu: '1', memory: 1Gi, gpu: {cards}{f', gpu_memory: {memory}' if memory else ''}}}"
    own = f"gang: {{id: train, size: {gang}}}, " if gang else ""
    return parse_pod(POD.format(name=name, limits=limits, more=own + more).encode(), name)


def cluster(*objects: dict[str, Any]) -> Simulator:
    simulator = Simulator(CONFIG)
    for each in objects:
        simulator.add(each)
    return simulator


def members(count: int, of: int | None = None, *, more: str = "", **fields: Any) -> list[dict[str, Any]]:
    return [gpu_pod(f"m{number}", gang=of or count, more=more, **fields) for number in range(count)]


def decided(simulator: Simulator, member: str = "m0") -> SimulatedGang:
    found = simulator.decide_gang(("default", member))
    assert found is not None
    return found


def on(found: SimulatedGang) -> dict[str, str]:
    return {key.name: node for key, node in found.nodes.items()}


# --- its scenarios in the store -------------------------------------------------------------------


def test_a_gang_of_four_goes_to_one_domain() -> None:
    nodes = gpu_node("first", 8, domain="domain0"), gpu_node("second", 4, domain="domain1")
    found = decided(cluster(*nodes, *members(4, more=SAME_DOMAIN)))

    assert on(found) == dict.fromkeys(["m0", "m1", "m2", "m3"], "first")
    assert found.domain == f"{DOMAIN}=domain0"


def test_a_gang_without_topology_is_placed() -> None:
    assert set(on(decided(cluster(gpu_node("only", 8), *members(3)))).values()) == {"only"}


@pytest.mark.parametrize("more", ["", SAME_DOMAIN], ids=["anywhere", "one domain"])
def test_no_member_of_a_gang_that_does_not_fit_is_placed(more: str) -> None:
    found = decided(cluster(gpu_node("only", 4, domain="domain0"), *members(4, more=more)))

    assert on(found) == {}
    assert "gang needs 4 members placed together" in found.message
    assert "2 fit" in found.message


# --- units ----------------------------------------------------------------------------------------


def test_two_of_a_gang_of_three_wait_for_the_third() -> None:
    simulator = cluster(gpu_node("only", 8), *members(2, of=3))
    assert decided(simulator).message == "SchedulingGated: PodGroup: 2 of 3 members exist"

    simulator.add(gpu_pod("m2", gang=3))
    assert on(decided(simulator)) == dict.fromkeys(["m0", "m1", "m2"], "only")


def test_a_gang_goes_to_the_domain_that_holds_all_of_it() -> None:
    """rk8s is greedy: its first member chooses the domain, and the gang times out there for ever."""
    nodes = [gpu_node("large", 6, domain="a"), gpu_node("half1", 4, domain="b"), gpu_node("half2", 4, domain="b")]
    found = decided(cluster(*nodes, *members(4, more=SAME_DOMAIN)))

    assert found.domain == f"{DOMAIN}=b"
    assert set(on(found).values()) == {"half1", "half2"}


def test_later_members_join_the_domain_of_those_that_are_bound() -> None:
    nodes = [gpu_node("first", 4, domain="a"), gpu_node("second", 8, domain="b")]
    simulator = cluster(*nodes, *members(3, of=1, more=SAME_DOMAIN))
    simulator.bind(("default", "m0"), "first")

    found = decided(simulator, "m1")
    assert set(on(found).values()) == {"first"}
    assert len(on(found)) == 1


def test_a_gang_with_a_constraint_needs_the_label() -> None:
    found = decided(cluster(gpu_node("only", 8), *members(2, more=SAME_DOMAIN)))

    assert on(found) == {}
    assert f"no node has the label {DOMAIN}" in found.message


def test_constraints_of_a_pod_without_a_gang_do_not_matter() -> None:
    simulator = cluster(gpu_node("only", 8), gpu_pod("alone", more=SAME_DOMAIN))

    assert simulator.decide_gang(("default", "alone")) is None
    assert simulator.decide(("default", "alone")).node == "only"


def test_every_one_of_several_constraints_holds() -> None:
    both = "topology_constraints: [{topology_key: rack, same_value: true}, {topology_key: zone, same_value: true}], "
    nodes = [
        parse_node(NODE.format(name=f"n{number}", labels=f"nvidia.com/gpu.count: 2, {labels}").encode())
        for number, labels in enumerate(
            ["rack: r1, zone: a", "rack: r1, zone: b", "rack: r2, zone: b", "rack: r1, zone: b"]
        )
    ]
    found = decided(cluster(*nodes, *members(2, more=both, memory="")))

    assert (set(on(found).values()), found.domain) == ({"n1", "n3"}, "rack=r1,zone=b")


@pytest.mark.parametrize(
    ("pod", "node", "fits"),
    [
        (gpu_pod("p", 4, "80Gi"), gpu_node("n", 8), True),
        (gpu_pod("p", 9, "80Gi"), gpu_node("n", 8), False),
        (gpu_pod("p", 1, "81Gi"), gpu_node("n", 8), False),
        (gpu_pod("p", 1, ""), gpu_node("n", 8, "unknown"), True),
        (gpu_pod("p", 1, "1Gi"), gpu_node("n", 8, "unknown"), False),
        (gpu_pod("p", 1, ""), parse_node(NODE.format(name="n", labels="").encode()), False),
        (gpu_pod("p", 0, "80Gi"), parse_node(NODE.format(name="n", labels="").encode()), True),
    ],
)
def test_cards_and_memory_a_card_decide(pod: dict[str, Any], node: dict[str, Any], fits: bool) -> None:
    assert bool(cluster(node).decide(pod).node) == fits


def test_the_node_that_keeps_more_cards_free_scores_higher() -> None:
    scores = cluster(gpu_node("few", 4), gpu_node("many", 8)).decide(gpu_pod("p", 2)).scores

    assert (scores["few"]["GpuMemory"], scores["many"]["GpuMemory"]) == (50, 75)


def test_bound_pods_keep_their_cards_and_ending_ones_give_them_back() -> None:
    """ApiClient, pods that were bound before a restart are not counted at all."""
    simulator = cluster(gpu_node("only", 4), gpu_pod("first", 3), gpu_pod("second", 2))
    simulator.bind(("default", "first"), "only")
    refused = simulator.decide(("default", "second"))
    simulator.park(("default", "second"), refused)

    assert refused.rejectors == ["NodeResourcesFit"]
    assert simulator.add(gpu_node("only", 4, "40")) == []
    assert simulator.delete("Pod", "first") == [PodKey("default", "second")]
    assert simulator.decide(("default", "second")).node == "only"


def test_no_half_gang_is_ever_bound() -> None:
    """Gangs of all sizes one after the other, on nodes that hold some of them: each is placed whole or not at all."""
    for sizes in itertools.permutations([1, 2, 3, 4], 3):
        simulator = cluster(gpu_node("a", 6), gpu_node("b", 4))
        for number, size in enumerate(sizes):
            own = [f"g{number}-{member}" for member in range(size)]
            for name in own:
                document = gpu_pod(name, gang=size)
                document["spec"]["schedulingGroup"]["podGroupName"] = f"g{number}"
                simulator.add(document)
            found = simulator.decide_gang(("default", own[0]))
            single = simulator.decide(("default", own[0])).node
            nodes = on(found) if found is not None else {own[0]: single} if single else {}
            assert len(nodes) in (0, size)
            for name, node in nodes.items():
                simulator.bind(("default", name), node)
        for info in simulator.snapshot().rows:
            assert info.requested.get(GPU, 0) <= info.node.allocatable[GPU]
