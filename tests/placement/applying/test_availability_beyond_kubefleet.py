"""Whether an object is available where KubeFleet has no rule: Pods, members without controllers, malformed objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.placement.applying.objects import Object, deployment, service
from wharfinger.placement.applying.availability import Availability, availability

AVAILABLE, NOT_YET = Availability.AVAILABLE, Availability.NOT_YET_AVAILABLE
NOT_TRACKABLE, FAILED = Availability.NOT_TRACKABLE, Availability.FAILED


def judged(obj: Object, group: str, kind: str, *, runs_workloads: bool = True) -> Availability:
    found, why = availability(obj, group, kind, runs_workloads=runs_workloads)
    assert why
    assert "\n" not in why
    return found


def pod(node: str = "", phase: str = "", **ready: str) -> Object:
    status: Object = {"phase": phase} if phase else {}
    if ready:
        status["conditions"] = [{"type": "Ready", **ready}]
    return {"spec": {"nodeName": node} if node else {}, "status": status}


@pytest.mark.parametrize(
    ("obj", "expected", "said"),
    [
        (pod("n", "Running", status="True"), AVAILABLE, "ready"),
        (pod("n", "Running", status="False", reason="NotReady", message="a\nb"), NOT_YET, "(NotReady: a b)"),
        (pod("n"), AVAILABLE, "bound"),
        (pod("n", "Running"), AVAILABLE, "bound"),
        (pod(), NOT_YET, "not bound"),
        ({}, NOT_YET, "not bound"),
        (pod("", "Failed"), NOT_YET, "failed"),
        ({"spec": {"nodeName": "n"}, "status": {"phase": "Failed", "reason": "Evicted"}}, NOT_YET, "failed (Evicted)"),
    ],
)
@pytest.mark.parametrize("runs_workloads", [True, False])
def test_pods_are_available_when_ready_or_bound(
    obj: Object, expected: Availability, said: str, *, runs_workloads: bool
) -> None:
    found, why = availability(obj, "", "Pod", runs_workloads=runs_workloads)
    assert found is expected
    assert said in why


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("", "Service"),
        ("policy", "PodDisruptionBudget"),
    ],
)
@pytest.mark.parametrize("obj", [{}, {"status": None}, {"status": {}}, {"spec": {"clusterIPs": ["10.0.0.1"]}}])
def test_workloads_without_controllers_are_not_trackable(group: str, kind: str, obj: Object) -> None:
    assert judged(obj, group, kind, runs_workloads=False) is NOT_TRACKABLE


def test_a_status_is_read_even_where_no_controllers_are_expected() -> None:
    assert (
        judged(
            deployment({}, {"availableReplicas": 1, "updatedReplicas": 1}), "apps", "Deployment", runs_workloads=False
        )
        is AVAILABLE
    )
    assert (
        judged(
            deployment({}, {"availableReplicas": 0, "updatedReplicas": 1}), "apps", "Deployment", runs_workloads=False
        )
        is NOT_YET
    )


@pytest.mark.parametrize("value", [1, "text", [1], True, {"conditions": 1}, {"loadBalancer": 1}])
@pytest.mark.parametrize("field", ["status", "spec", "metadata"])
@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("", "Service"),
        ("", "Pod"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("policy", "PodDisruptionBudget"),
    ],
)
def test_malformed_objects_never_raise(group: str, kind: str, field: str, value: Any) -> None:
    judged({field: value}, group, kind)
    judged({"spec": {"type": "LoadBalancer"}, field: value}, group, kind)


@pytest.mark.parametrize(
    ("obj", "group", "kind"),
    [
        (deployment({}, {"availableReplicas": "1"}), "apps", "Deployment"),
        (deployment({"replicas": True}, {}), "apps", "Deployment"),
        (deployment({}, {"currentRevision": 1}), "apps", "StatefulSet"),
        ({"status": {"numberAvailable": [1]}}, "apps", "DaemonSet"),
        ({"status": {"conditions": {}}}, "policy", "PodDisruptionBudget"),
        ({"status": "Running"}, "", "Pod"),
        (service({"type": "LoadBalancer"}, {"loadBalancer": {"ingress": ["10.0.0.1"]}}), "", "Service"),
    ],
)
def test_availability_of_malformed_objects_fails(obj: Object, group: str, kind: str) -> None:
    assert judged(obj, group, kind) is FAILED
