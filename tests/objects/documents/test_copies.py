"""Copies of the Kubernetes API's objects: what is kept of them, and that decisions are the same on them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.copies import (
    COPIED,
    StateOfCopy,
    copy_of,
    copy_of_promised,
    means_the_same,
    same_but_revision,
    state_of,
)
from wharfinger.objects.documents.decode import decode_node, decode_pod, decode_surrounding

DATA = Path(__file__).parents[2] / "conformance" / "data"
KINDS = {"nodes": "Node", "pods": "Pod", "bound": "Pod", "namespaces": "Namespace", "services": "Service"}
NOW = "2026-03-01T12:00:00Z"


def recorded(family: str) -> list[dict]:
    with gzip.open(DATA / f"{family}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def pod(**metadata: object) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "u1",
            "resourceVersion": "7",
            "labels": {"app": "a"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 500, "password": "secret"},
            "managedFields": [{"manager": "kubectl"}],
            **metadata,
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "nginx",
                    "command": ["run", "--password", "secret"],
                    "env": [{"name": "PASSWORD", "value": "secret"}],
                    "resources": {"requests": {"cpu": "100m"}},
                }
            ],
            "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": "secret"}}}],
        },
        "status": {
            "phase": "Pending",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "False"}],
        },
    }


@pytest.mark.parametrize(
    "family", ["declared", "mixed", "podaffinity", "spread", "taints", "ports_images", "preemption", "resize"]
)
def test_copies_of_recorded_objects_decode_alike(family: str) -> None:
    for scenario in recorded(family)[:40]:
        for plural, kind in KINDS.items():
            for obj in scenario.get(plural, ()):
                whole = {"apiVersion": "v1", "kind": kind, **obj}
                original, copied = json.dumps(whole).encode(), copy_of(obj, {"bound": "pods"}.get(plural, plural))
                if kind == "Pod":
                    assert decode_pod(copied) == decode_pod(original)
                elif plural == "nodes":
                    assert decode_node(copied) == decode_node(original)
                else:
                    assert decode_surrounding(copied, kind) == decode_surrounding(original, kind)


def running(**reported: object) -> dict:
    """A pod that runs on a node, and what the kubelet reports of its container."""
    bound = pod()
    bound["spec"]["nodeName"] = "n1"
    status = {"name": "main", "restartCount": 0, "state": {"running": {}}, **reported}
    bound["status"] |= {"phase": "Running", "containerStatuses": [status]}
    return bound


def test_a_copy_has_of_a_status_what_counts_during_a_resize_in_place() -> None:
    asked, less = {"cpu": "100m"}, {"cpu": "50m"}
    silent = running()
    at_rest = running(allocatedResources=asked, resources={"requests": asked, "limits": {"cpu": "9"}}, restartCount=5)
    resizing = running(allocatedResources=less, resources={"requests": less, "limits": {"cpu": "9"}})

    assert copy_of(silent, "pods") == copy_of(at_rest, "pods")
    assert json.loads(copy_of(resizing, "pods"))["status"]["containerStatuses"] == [
        {"name": "main", "allocatedResources": less, "resources": {"requests": less}}
    ]
    assert "containerStatuses" not in copy_of({**resizing, "spec": pod()["spec"]}, "pods").decode()


def test_status_that_cannot_be_read_is_copied_and_the_copy_is_invalid() -> None:
    copied = copy_of(running(resources=[]), "pods")
    with pytest.raises(InvalidObject, match=r"status\.containerStatuses\[0\]\.resources is no mapping"):
        decode_pod(copied)


def test_a_copy_has_nothing_secret_and_no_room_for_it() -> None:
    copied = copy_of(pod(), "pods")
    assert b"secret" not in copied
    assert b"managedFields" not in copied
    assert b"podIP" not in copied
    assert len(copied) < len(json.dumps(pod()).encode()) / 2


def test_a_whole_copy_keeps_all_but_managed_fields() -> None:
    copied = json.loads(copy_of(pod(), "pods", whole=True))
    assert copied["spec"]["containers"][0]["env"]
    assert "managedFields" not in copied["metadata"]


@pytest.mark.parametrize("plural", sorted(COPIED.keys() - {"pods", "nodes", "podgroups"}))
def test_only_copies_of_pods_and_nodes_can_be_whole(plural: str) -> None:
    obj = {"metadata": pod()["metadata"], "spec": {"selector": {"app": "web"}, "template": {"spec": pod()["spec"]}}}
    copied = copy_of(obj, plural, whole=True)
    assert copied == copy_of(obj, plural)
    if plural not in ("persistentvolumeclaims", "csinodes"):  # whose specifications are kept as they are
        assert b"secret" not in copied


def test_a_node_that_offers_nothing_yet_is_no_mistake() -> None:
    copied = copy_of({"metadata": {"name": "n", "resourceVersion": "3"}}, "nodes")
    assert decode_node(copied).allocatable.get("cpu", 0) == 0


def test_the_state_of_a_copy_is_its_uid_and_revision() -> None:
    assert state_of(copy_of(pod(), "pods")) == StateOfCopy("u1", 7)
    with pytest.raises(InvalidObject, match="no number"):
        state_of(copy_of(pod(resourceVersion="7a"), "pods"))


def test_a_promised_copy_means_the_same_as_the_unbound_one() -> None:
    unbound = copy_of(pod(), "pods")
    promised = copy_of_promised(pod(), node="n1", attempt="w@r", now=NOW)
    assert decode_pod(promised).node_name == "n1"
    assert means_the_same(unbound, promised)


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": {"app": "b"}},
        {"uid": "u2"},
        {"deletionTimestamp": NOW},
        {"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}]},
    ],
)
def test_what_a_placement_rests_on_tells_copies_apart(changed: dict) -> None:
    assert not means_the_same(copy_of(pod(), "pods"), copy_of(pod(**changed), "pods"))


def test_annotations_without_meaning_change_nothing_but_revision() -> None:
    one, other = copy_of(pod(), "pods"), copy_of(pod(resourceVersion="9", annotations={"note": "x"}), "pods")
    assert means_the_same(one, other)
    assert same_but_revision(one, other)
    assert not same_but_revision(one, copy_of(pod(resourceVersion="9", labels={}), "pods"))


def test_every_copied_kind_names_its_version_but_groups() -> None:
    assert {one.plural for one in COPIED.values() if not one.api_version} == {"podgroups"}
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "metadata": {"name": "g"}, "spec": {"minMember": 2}}
    assert json.loads(copy_of(group, "podgroups"))["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
