"""A bound pod whose document is invalid still holds its room, as far as that can be read."""

from __future__ import annotations

import pytest

from tests.objects.rk8s.samples import POD, changed
from wharfinger.objects.model.node import CPU, MEMORY
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.rk8s.format import RK8S

BOUND = changed(POD, "node_name: null", "node_name: worker1").decode()


def occupant(raw: bytes | str, name: str = "web-1") -> Pod | None:
    value = raw.encode() if isinstance(raw, str) else raw
    return RK8S.decode_occupant(value, namespace="default", name=name, create_revision=3, mod_revision=4)


def test_an_unknown_enum_leaves_what_the_pod_holds() -> None:
    found = occupant(changed(BOUND, "key: NodeMemoryPressure", "key: NoSuchTaint"))

    assert found is not None
    assert (found.node_name, found.create_revision, found.namespace) == ("worker1", 3, "default")
    assert found.requests[CPU] == 500
    assert found.requests[MEMORY] == 512 << 20


def test_an_amount_that_cannot_be_read_counts_as_nothing() -> None:
    found = occupant(changed(BOUND, "cpu: 500m", "cpu: much"))

    assert found is not None
    assert CPU not in found.requests
    assert found.requests[MEMORY] == 512 << 20


@pytest.mark.parametrize("raw", [POD, b"\xff", "[]", "kind: Node", "spec: {node_name: w}", "a: b: c"])
def test_what_is_not_bound_or_no_pod_holds_nothing(raw: bytes | str) -> None:
    assert occupant(raw) is None


def test_a_document_of_another_name_holds_nothing() -> None:
    assert occupant(BOUND, "web-2") is None
