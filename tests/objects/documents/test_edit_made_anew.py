"""What evictions read of manifests, and the manifest of a pod that is made anew."""

from __future__ import annotations

import json

import pytest

from tests.objects.documents.manifests import node_manifest, pod_manifest, raw
from wharfinger.objects.documents.decode import decode_node, decode_pod
from wharfinger.objects.documents.edit import made_anew, scheduled_since
from wharfinger.objects.model.gang import gang_key
from wharfinger.objects.model.pod import Pod

NOW = "2026-03-01T12:00:00Z"
GANG = {
    "pod-group.scheduling.sigs.k8s.io/name": "team",
    "pod-group.scheduling.sigs.k8s.io/min-available": "2",
}


def decoded(value: bytes) -> Pod:
    return decode_pod(value, namespace="default", name="web", create_revision=2, mod_revision=2)


def test_gang_member_made_anew_is_a_pending_member_of_its_gang() -> None:
    metadata = {"labels": GANG, "annotations": {"wharfinger.dev/attempt": "w@r", "team": "red"}}
    status = {"phase": "Running", "nominatedNodeName": "n2", "conditions": [{"type": "Ready", "status": "True"}]}
    written = made_anew(raw(pod_manifest(metadata=metadata, status=status, nodeName="n1")), uid="new", now=NOW)
    assert written is not None

    pod = decoded(written)

    assert pod.pending
    assert (pod.uid, pod.creation_timestamp, pod.nominated_node_name) == ("new", NOW, "")
    assert gang_key(pod) == gang_key(decoded(raw(pod_manifest(metadata=metadata))))
    assert json.loads(written)["metadata"]["annotations"] == {"team": "red"}


def test_owner_that_is_no_controller_makes_no_pod_anew() -> None:
    owner = {"kind": "Application", "name": "shop", "controller": False}

    assert made_anew(raw(pod_manifest(metadata={"ownerReferences": [owner]})), uid="new", now=NOW) is not None


@pytest.mark.parametrize(
    ("written", "seconds"), [(300, 300), (-1, -1), (0, 0), (None, None), ("300", None), (True, None), (1.5, None)]
)
def test_toleration_seconds_that_are_no_integer_leave_the_pod_readable(written: object, seconds: int | None) -> None:
    toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": written}

    [found] = decoded(raw(pod_manifest(tolerations=[toleration]))).tolerations

    assert found.seconds == seconds


def test_pods_with_other_toleration_seconds_differ_but_decide_alike() -> None:
    pods = [
        decoded(raw(pod_manifest(tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": seconds}])))
        for seconds in (60, 300)
    ]

    assert [pod.tolerations[0].seconds for pod in pods] == [60, 300]
    assert pods[0].tolerations == pods[1].tolerations


def test_time_a_taint_was_added_changes_no_decision() -> None:
    taint = {"key": "k", "effect": "NoExecute"}
    nodes = [
        decode_node(raw(node_manifest(taints=[taint | more])), name="n1", create_revision=1, mod_revision=1)
        for more in ({}, {"timeAdded": NOW}, {"timeAdded": 5})
    ]

    assert [node.taints[0].time_added for node in nodes] == ["", NOW, ""]
    assert nodes[0] == nodes[1] == nodes[2]


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        ([{"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}], NOW),
        ([{"type": "PodScheduled", "status": "False", "lastTransitionTime": NOW}], ""),
        ([{"type": "PodScheduled", "status": "True"}], ""),
        ([], ""),
    ],
)
def test_binding_time_is_read_from_the_condition(conditions: list[object], since: str) -> None:
    assert scheduled_since(raw(pod_manifest(status={"conditions": conditions}))) == since
