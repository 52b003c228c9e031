"""Stored bytes to nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.objects.documents.manifests import node_manifest, raw
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import decode_node
from wharfinger.objects.model.selectors import Taint


def test_a_node_is_read_whole() -> None:
    node = decode_node(
        raw(
            node_manifest(
                metadata={"uid": "u", "labels": {"zone": "a"}},
                status={
                    "allocatable": {"cpu": "3500m", "memory": "1Gi", "pods": 10, "example.com/gpu": "2"},
                    "conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": "x"}],
                    "images": [{"names": ["a:1", "a@sha"], "sizeBytes": 5}],
                },
                taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}],
                unschedulable=True,
            )
        ),
        name="n1",
        mod_revision=4,
    )

    assert node.allocatable == {"cpu": 3500, "memory": 2**30, "pods": 10, "example.com/gpu": 2}
    assert (node.taints, node.unschedulable, node.ready) == ((Taint("k", "v", "NoSchedule"),), True, False)
    assert node.images == {"a:1": 5, "a@sha": 5}
    assert (node.labels, node.mod_revision) == ({"zone": "a"}, 4)


def test_a_heart_beat_changes_nothing_that_scheduling_compares() -> None:
    status = {"allocatable": {"pods": 1}, "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}]}
    later = {**status, "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2"}]}

    one = decode_node(raw(node_manifest(status=status)), mod_revision=1)

    assert one == decode_node(raw(node_manifest(status=later)), mod_revision=2)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (node_manifest(status={}), "status.allocatable is missing"),
        (node_manifest(status={"allocatable": None, "capacity": {"cpu": "x"}}), "'x' is no quantity"),
        (node_manifest(status={"allocatable": {"cpu": "-1"}}), "negative"),
        (node_manifest(status={"allocatable": {"cpu": "9223372036854775807"}}), "beyond the range"),
        (node_manifest(status={"allocatable": []}), "status.allocatable is no mapping"),
        (
            node_manifest(status={"allocatable": {f"r{number}": 1 for number in range(129)}}),
            "status.allocatable has more than 128 entries",
        ),
        (node_manifest(unschedulable="yes"), "neither true nor false"),
        (node_manifest(taints=[{"effect": "NoSchedule"}]), r"spec.taints\[0\].key is missing"),
        (node_manifest(metadata={"name": "n2"}), "in its key 'n1'"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(manifest: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject, match=reason):
        decode_node(raw(manifest), name="n1")
