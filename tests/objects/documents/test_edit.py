"""Stored objects are changed in place; what is not ours stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.objects.documents.manifests import pod_manifest, raw
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import decode_pod
from wharfinger.objects.documents.edit import bind_pod, refuse_pod

NOW = "2026-01-02T03:04:05Z"


def bound(manifest: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(bind_pod(raw(manifest), node_name="n1", attempt="w@r", now=NOW))
    return result


def refused(manifest: dict[str, Any], **more: Any) -> dict[str, Any] | None:
    value = refuse_pod(raw(manifest), reason="Unschedulable", message="0/1 nodes", now=NOW, **more)
    return None if value is None else json.loads(value)


def test_binding_sets_node_condition_and_annotation_and_keeps_the_rest() -> None:
    manifest = pod_manifest(
        metadata={"annotations": {"mine": "1"}, "future": {"field": [1.5, None]}},
        status={"phase": "Pending", "nominatedNodeName": "n9", "future": 1},
        hostUsers=False,
    )

    after = bound(manifest)

    assert after["spec"] == {**manifest["spec"], "nodeName": "n1"}
    assert after["metadata"] == {
        **manifest["metadata"],
        "annotations": {"mine": "1", "wharfinger.dev/attempt": "w@r"},
    }
    assert after["status"] == {
        "phase": "Pending",
        "future": 1,
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": NOW},
        ],
    }


def test_binding_turns_the_refusal_over_and_keeps_other_conditions() -> None:
    other = {"type": "Ready", "status": "False", "reason": "R"}
    before = {"type": "PodScheduled", "status": "False", "reason": "X", "message": "m", "lastTransitionTime": "old"}

    conditions = bound(pod_manifest(status={"conditions": [before, other]}))["status"]["conditions"]

    assert conditions == [
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": NOW},
        other,
    ]


def test_refusing_writes_the_reason_and_changes_nothing_else() -> None:
    manifest = pod_manifest(status={"phase": "Pending"})

    after = refused(manifest)

    assert after is not None
    condition = after["status"].pop("conditions")
    assert after == manifest
    assert condition == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes",
            "lastProbeTime": None,
            "lastTransitionTime": NOW,
        }
    ]


def test_the_same_refusal_again_changes_nothing() -> None:
    assert refused(refused(pod_manifest()) or {}) is None


def test_another_message_keeps_the_time_of_the_transition() -> None:
    before = {"type": "PodScheduled", "status": "False", "reason": "X", "message": "m", "lastTransitionTime": "old"}

    after = refused(pod_manifest(status={"conditions": [before]}))

    assert after is not None
    assert after["status"]["conditions"][0]["lastTransitionTime"] == "old"
    assert after["status"]["conditions"][0]["message"] == "0/1 nodes"


def test_a_nomination_is_set_cleared_or_left() -> None:
    manifest = refused(pod_manifest()) or {}

    nominated = refused(manifest, nominated_node_name="n2") or {}

    assert nominated["status"]["nominatedNodeName"] == "n2"
    assert refused(nominated) is None
    assert "nominatedNodeName" not in (refused(nominated, nominated_node_name="") or {})["status"]


def test_yaml_is_written_back_as_json_even_where_aliases_shared_a_part() -> None:
    text = b"metadata: {name: web, labels: &same {a: b}, annotations: *same}\nspec: {}\n"

    after = json.loads(bind_pod(text, node_name="n1", attempt="w@r", now=NOW))

    assert after["metadata"]["labels"] == {"a": "b"}
    assert after["metadata"]["annotations"] == {"a": "b", "wharfinger.dev/attempt": "w@r"}


def test_text_beyond_ascii_does_not_grow() -> None:
    manifest = pod_manifest(metadata={"annotations": {"motto": "港" * 1000}})

    value = bind_pod(json.dumps(manifest, ensure_ascii=False).encode(), node_name="n1", attempt="w@r", now=NOW)

    assert len(value) < 4000
    assert decode_pod(value).node_name == "n1"


def test_half_a_surrogate_pair_in_a_field_we_do_not_read_survives() -> None:
    manifest = pod_manifest(metadata={"annotations": {"odd": "\ud800"}})

    assert bound(manifest)["metadata"]["annotations"]["odd"] == "\ud800"


@pytest.mark.parametrize("value", [b"", b"[]", b"\xff", b'{"status": []}', b'{"status": {"conditions": 3}}'])
def test_what_is_no_object_cannot_be_changed(value: bytes) -> None:
    with pytest.raises(InvalidObject):
        refuse_pod(value, reason="Unschedulable", message="m", now=NOW)
