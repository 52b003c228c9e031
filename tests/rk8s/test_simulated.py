"""The simulator, `simulate` and `capacity` on documents of rk8s; no server is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell, outside
from tests.rk8s import rk8s_documents as docs
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.whatif.simulator.simulator import Simulator

__all__ = ["outside"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "rk8s" / "quickstart"


def test_the_simulator_decides_on_documents_of_rk8s() -> None:
    sim = Simulator(format="rk8s")
    sim.add(docs.node("small", cpu="1"))
    sim.add(docs.document(docs.node("tainted", cpu="8", taints=[docs.taint("NodeOutOfService")])))
    sim.add(docs.document(docs.pod("big", cpu="4", running=True)))
    refused = sim.decide(("default", "big"))
    assert (refused.node, refused.rejectors) == (None, ["NodeResourcesFit", "TaintToleration"])
    assert sim.park(("default", "big"), refused) == []
    assert sim.add(docs.node("tainted", cpu="8")) == [("default", "big")]
    assert sim.decide(("default", "big")).node == "tainted"
    assert sim.decide(docs.pod("other", cpu="2")).node == "tainted"
    sim.bind(("default", "big"), "tainted")
    assert sim.decide(docs.document(docs.pod("other", cpu="8"))).node is None


def test_other_kinds_and_formats_are_refused() -> None:
    sim = Simulator(format="rk8s")
    with pytest.raises(UsageError, match="kind Service is not simulated; known are Pod, Node"):
        sim.add({"kind": "Service"})
    with pytest.raises(InvalidObject, match=r"spec\.nodeName is Kubernetes'"):
        sim.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "b"}})
    with pytest.raises(UsageError, match="format 'k3s' is none of kubernetes, rk8s"):
        Simulator(format="k3s")
    with pytest.raises(UsageError, match="kind bytes is not simulated"):
        Simulator().add(b"kind: Pod")


def test_the_example_is_simulated_from_files(outside: Shell) -> None:
    answer = outside("simulate", "--format", "rk8s", "-f", str(EXAMPLE), "-o", "json")
    assert answer.code == 1
    assert {pod["pod"]: pod["node"] for pod in answer.json["pods"]} == {
        "default/web-1": "oak-2",
        "default/db-1": "elm-1",
        "default/big-1": None,
    }
    (refused,) = (pod for pod in answer.json["pods"] if pod["node"] is None)
    assert refused["message"] == "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu."


def test_capacity_counts_a_pod_of_rk8s(outside: Shell) -> None:
    pod = outside.file(docs.document(docs.pod("web", cpu="2")).decode(), "pod.yaml")
    nodes = outside.file(docs.document(docs.node("a", cpu="5")).decode(), "nodes.yaml")
    answer = outside("capacity", "--format", "rk8s", "-f", pod, "-f", nodes, "-o", "json")
    assert (answer.code, answer.json["fits"], answer.json["nodes"]) == (0, 2, {"a": 2})


def test_a_wrong_document_is_refused_with_its_file(outside: Shell) -> None:
    pod = docs.pod("web", tolerations=[docs.toleration("dedicated")])
    answer = outside("simulate", "--format", "rk8s", "-f", outside.file(docs.document(pod).decode()))
    assert answer.code == 2
    assert "manifest.yaml: spec.tolerations[0].key 'dedicated' is none of NodeNotReady" in answer.err


def test_what_libscheduler_did_is_compared_with_what_would_be_done(outside: Shell) -> None:
    """libscheduler had put two large pods on one node, and one on a node of a lower score."""
    objects = [
        docs.node("small", cpu="2"),
        docs.node("large", cpu="8"),
        docs.pod("first", cpu="1", node_name="small"),
        docs.pod("second", cpu="2", node_name="small"),
        docs.pod("waiting", cpu="1"),
    ]
    files = outside.file("---\n".join(docs.document(one).decode() for one in objects), "cluster.yaml")
    answer = outside("simulate", "--compare", "--format", "rk8s", "-f", str(files), "-o", "json")
    assert answer.code == 0
    summary = answer.json["summary"]
    assert summary == {"pods": 2, "same": 0, "tied": 0, "lower": 1, "refused": 1, "nowhere": 0, "undecided": 0}
    assert {pod["pod"]: (pod["result"], pod["node"], pod["chosen"]) for pod in answer.json["pods"]} == {
        "default/first": ("lower", "small", "large"),
        "default/second": ("refused", "small", "large"),
    }
    table = outside("simulate", "--compare", "--format", "rk8s", "-f", str(files))
    assert "0 of 2 bound pods are where they would be placed" in table.out
    assert "NodeResourcesFit: Insufficient cpu" in table.out


def test_a_comparison_takes_the_state_as_it_is(outside: Shell) -> None:
    answer = outside("simulate", "--compare", "--live", "--pending")
    assert answer.code == 2
    assert "--compare takes the state as it is: leave out --pending" in answer.err
