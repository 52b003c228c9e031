"""What an invalid pod still holds on its node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.objects.documents.manifests import pod_manifest, raw
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import decode_occupant, decode_pod
from wharfinger.objects.model.pod import HostPort, Pod

KEY: dict[str, Any] = {"namespace": "default", "name": "web"}


def occupant(manifest: dict[str, Any]) -> Pod | None:
    value = raw(manifest)
    with pytest.raises(InvalidObject):
        decode_pod(value, **KEY)
    return decode_occupant(value, **KEY, create_revision=7, mod_revision=9)


def test_what_it_asks_for_counts_whatever_else_is_wrong() -> None:
    found = occupant(pod_manifest(nodeName="n1", affinity=3, metadata={"labels": []}, status={"phase": "Running"}))

    assert found is not None
    assert (found.node_name, found.requests, found.identity) == (
        "n1",
        {"cpu": 100, "memory": 2**20},
        (*KEY.values(), 7),
    )
    assert found.mod_revision == 9


def test_amounts_and_ports_that_can_be_read_count() -> None:
    broken = {"resources": {"requests": {"cpu": "lots", "memory": "1Ki", "pods": "1"}, "limits": []}}
    ports = {"ports": [{"hostPort": 80}], "resources": {"limits": {"cpu": "2"}}}

    found = occupant(pod_manifest(nodeName="n1", containers=[broken, None, ports, {"ports": 3}], overhead={"cpu": -1}))

    assert found is not None
    assert found.requests == {"cpu": 2000, "memory": 1024}
    assert found.host_ports == (HostPort("TCP", "0.0.0.0", 80),)


def test_a_resize_in_place_counts() -> None:
    reported = {"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "2", "memory": "lots"}}}
    status = {"containerStatuses": [{"name": "main", **reported}, {"name": 3}, 7], "conditions": [None]}

    found = occupant(pod_manifest(nodeName="n1", tolerations=3, status=status))

    assert found is not None
    assert found.requests == {"cpu": 3000, "memory": 2**20}
    infeasible = {**status, "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
    found = occupant(pod_manifest(nodeName="n1", tolerations=3, status=infeasible))
    assert found is not None
    assert found.requests == {"cpu": 3000}


def test_a_finished_pod_holds_nothing() -> None:
    found = occupant(pod_manifest(nodeName="n1", tolerations=3, status={"phase": "Failed"}))

    assert found is not None
    assert found.finished


@pytest.mark.parametrize(
    "manifest",
    [
        pod_manifest(tolerations=3),
        pod_manifest(tolerations=3, nodeName=""),
        pod_manifest(nodeName=["n1"]),
        pod_manifest(nodeName="n1", metadata={"name": "other"}),
        {"metadata": {"name": "web"}, "spec": []},
    ],
    ids=["pending", "empty", "no text", "another pod", "no spec"],
)
def test_pod_without_a_node_holds_no_room(manifest: dict[str, Any]) -> None:
    assert occupant(manifest) is None


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff"], ids=repr)
def test_bytes_that_are_no_object_hold_nothing(value: bytes) -> None:
    assert decode_occupant(value, **KEY) is None
