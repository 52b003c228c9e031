"""Objects as they go to members."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.placement.deciding.selecting import sanitised

BOUND = {"wharfinger.dev/attempt": "workflow@run"}
APPLIED = {
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "deployment.kubernetes.io/revision": "3",
}


# What members get

HUB_METADATA = {
    "selfLink": "/x",
    "uid": "1",
    "resourceVersion": "2",
    "generation": 3,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-01T00:00:00Z",
    "managedFields": [{"manager": "m"}],
    "ownerReferences": [{"name": "owner"}],
}


def clean(obj: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(obj)
    found = sanitised(obj)
    assert obj == before
    assert sanitised(found) == found
    return found


def test_sanitised_content_of_a_custom_resource_definition() -> None:
    stays = {
        "name": "object-name",
        "generateName": "object-generateName",
        "namespace": "object-namespace",
        "deletionGracePeriodSeconds": 9999,
        "labels": {"label-key": "label-value"},
        "finalizers": ["object-finalizer"],
    }
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {**stays, **HUB_METADATA, "annotations": {**APPLIED, "svc-annotation-key": "value"}},
        "status": {"conditions": []},
    }
    assert clean(obj) == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {**stays, "annotations": {"svc-annotation-key": "value"}},
    }


def test_annotations_that_become_empty_are_dropped() -> None:
    assert clean({"metadata": {"name": "a", "annotations": APPLIED}}) == {"metadata": {"name": "a"}}


SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}}
STAYS = {"selector": {"a": "b"}, "type": "LoadBalancer", "loadBalancerIP": "192.168.1.3", "ipFamilies": ["IPv4"]}


def test_sanitised_content_of_a_service() -> None:
    given = {
        **STAYS,
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "healthCheckNodePort": 30001,
        "ports": [{"name": "svc-port", "port": 9001, "nodePort": 30002}, "malformed"],
    }
    assert clean({**SERVICE, "spec": given, "status": {}}) == {
        **SERVICE,
        "spec": {**STAYS, "ports": [{"name": "svc-port", "port": 9001}, "malformed"]},
    }


def test_a_headless_service_stays_headless() -> None:
    spec = {"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 1}]}
    assert clean({**SERVICE, "spec": spec})["spec"] == spec


def test_services_of_another_group_are_left_alone() -> None:
    obj = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {}, "spec": {"clusterIP": "1"}}
    assert clean(obj) == obj


UIDS = {"controller-uid": "1", "batch.kubernetes.io/controller-uid": "1"}


@pytest.mark.parametrize("manual", [None, False, True])
def test_the_generated_selector_of_a_job_is_dropped(manual: bool | None) -> None:
    spec: dict[str, Any] = {
        "selector": {"matchLabels": dict(UIDS)},
        "template": {"metadata": {"creationTimestamp": None, "labels": {**UIDS, "app": "web"}}, "spec": {}},
    }
    if manual is not None:
        spec["manualSelector"] = manual
    found = clean({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": spec})["spec"]
    if manual:
        assert found == spec
    else:
        assert found["selector"] == {"matchLabels": {}}
        assert found["template"] == {"metadata": {"labels": {"app": "web"}}, "spec": {}}


def pod(annotations: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": "web", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1", "containers": []}}


def test_a_pod_that_was_bound_on_the_hub_is_unbound() -> None:
    assert clean(pod(BOUND)) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": []},
    }


def test_a_node_that_the_user_named_stays() -> None:
    assert clean(pod({"own": "x"})) == pod({"own": "x"})


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": None},
        {**SERVICE, "spec": {"ports": 3, "clusterIP": 7}},
        {**SERVICE, "spec": None},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {"selector": 1, "template": []}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}},
        {"apiVersion": [], "kind": {}, "metadata": {"annotations": None}},
    ],
)
def test_malformed_parts_are_left_for_the_member_to_refuse(obj: dict[str, Any]) -> None:
    assert sanitised(obj).get("spec") == obj.get("spec")


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        ({"metadata": 3}, "metadata is no mapping"),
        ({"metadata": {"annotations": ["x"]}}, "metadata.annotations is no mapping"),
        ({**SERVICE, "spec": 3}, "spec is no mapping"),
        (
            {"apiVersion": "batch/v1", "kind": "Job", "spec": {"manualSelector": "yes"}},
            "spec.manualSelector is neither true nor false",
        ),
    ],
)
def test_malformed_metadata_raises_invalid_object(obj: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        sanitised(obj)
    assert str(caught.value) == reason
