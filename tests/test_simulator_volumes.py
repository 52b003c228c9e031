"""Volumes in the simulator: objects as kubectl prints them, decisions, binds, and who is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.testing import node_manifest as node
from wharfinger.testing import pod_manifest as pod
from wharfinger.whatif.simulator.simulator import Simulator

LOCAL = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
MADE = {**LOCAL, "metadata": {"name": "made"}, "provisioner": "csi.example.com"}


def claim(name: str, group: str = "local") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "storageClassName": group,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def volume(name: str, host: str, size: str = "1Gi") -> dict[str, Any]:
    there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}},
        },
        "status": {"phase": "Available"},
    }


def stateful(name: str, *claims: str) -> dict[str, Any]:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    return pod(name, volumes=volumes)


@pytest.fixture
def simulator() -> Simulator:
    """Two nodes and two classes."""
    simulator = Simulator()
    for obj in (node("n1"), node("n2"), LOCAL, MADE):
        simulator.add(obj)
    return simulator


def place(simulator: Simulator, name: str, *claims: str) -> str:
    simulator.add(stateful(name, *claims))
    decision = simulator.decide(("default", name))
    assert decision.node is not None, decision.message
    simulator.bind(("default", name), decision.node)
    return decision.node


def refuse(simulator: Simulator, name: str, *claims: str) -> str:
    simulator.add(stateful(name, *claims))
    decision = simulator.decide(("default", name))
    assert decision.node is None
    simulator.park(("default", name), decision)
    return decision.message


def test_a_pod_goes_where_its_volume_is_and_the_volume_is_gone_then(simulator: Simulator) -> None:
    for obj in (claim("a"), claim("b"), volume("v", "n2")):
        simulator.add(obj)

    assert place(simulator, "first", "a") == "n2"
    assert "2 node(s) didn't find available persistent volumes to bind" in refuse(simulator, "second", "b")
    assert simulator.snapshot().surroundings.storage.volumes["v"].phase == "Bound"


def test_a_claim_that_was_bound_keeps_later_pods_on_its_node(simulator: Simulator) -> None:
    for obj in (claim("a"), volume("v", "n2")):
        simulator.add(obj)
    place(simulator, "first", "a")
    simulator.delete("Pod", "first")

    assert place(simulator, "second", "a") == "n2"


def test_a_volume_to_be_made_ties_the_claim_to_its_node(simulator: Simulator) -> None:
    simulator.add(claim("a", "made"))
    where = place(simulator, "first", "a")

    decision = simulator.decide(stateful("second", "a"))

    assert decision.feasible == [where]


def test_a_claim_that_comes_wakes_its_pod(simulator: Simulator) -> None:
    assert 'persistentvolumeclaim "a" not found' in refuse(simulator, "first", "a")

    assert simulator.add(claim("b")) == []
    assert simulator.add(claim("a")) == [("default", "first")]


def test_a_volume_that_comes_wakes_whom_it_may_help(simulator: Simulator) -> None:
    simulator.add(claim("a"))
    refuse(simulator, "first", "a")
    simulator.add(pod("large", cpu="99"))
    simulator.park(("default", "large"), simulator.decide(("default", "large")))

    assert simulator.add(volume("v", "n1")) == [("default", "first")]
    assert simulator.update(volume("v", "n1")) == []
    assert simulator.delete("PersistentVolume", "v") == []


def test_a_volume_without_a_phase_is_available(simulator: Simulator) -> None:
    simulator.add(claim("a"))
    simulator.add({key: value for key, value in volume("v", "n1").items() if key != "status"})

    assert place(simulator, "first", "a") == "n1"


def test_objects_that_are_there_can_be_deleted_once(simulator: Simulator) -> None:
    simulator.add(claim("a"))
    simulator.delete("PersistentVolumeClaim", "a")
    simulator.delete("StorageClass", "made")

    storage = simulator.snapshot().surroundings.storage
    assert not storage.claims
    assert list(storage.classes) == ["local"]
