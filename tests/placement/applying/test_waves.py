"""The order in which objects are applied. The waves are KubeFleet's."""

from __future__ import annotations

import pytest

from wharfinger.placement.applying.object_steps import in_waves

RBAC = "rbac.authorization.k8s.io"
NETWORKING = "networking.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
MIXED = [
    [("", "namespaces"), ("scheduling.k8s.io", "priorityclasses")],
    [
        (NETWORKING, "networkpolicies"),
        ("", "resourcequotas"),
        ("", "limitranges"),
        ("policy", "podsecuritypolicies"),
        ("policy", "poddisruptionbudgets"),
        ("", "serviceaccounts"),
        ("", "secrets"),
        ("", "configmaps"),
        ("storage.k8s.io", "storageclasses"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        (NETWORKING, "ingressclasses"),
    ],
    [(RBAC, "clusterroles"), (RBAC, "roles")],
    [(RBAC, "clusterrolebindings"), (RBAC, "rolebindings")],
    [
        ("", "services"),
        ("apps", "daemonsets"),
        ("", "pods"),
        ("", "replicationcontrollers"),
        ("apps", "replicasets"),
        ("apps", "deployments"),
        ("autoscaling", "horizontalpodautoscalers"),
        ("apps", "statefulsets"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
        (NETWORKING, "ingresses"),
    ],
    [
        ("apiregistration.k8s.io", "apiservices"),
        (ADMISSION, "validatingwebhookconfigurations"),
        (ADMISSION, "mutatingwebhookconfigurations"),
    ],
    [("placement.kubernetes-fleet.io", "clusterresourceplacements"), ("example.com", "deployments")],
]


def waves(*resources: tuple[str, str]) -> list[list[tuple[str, str]]]:
    return in_waves(resources, lambda one: one)


def test_single_known_resource_makes_a_single_wave() -> None:
    assert waves(("", "configmaps")) == [[("", "configmaps")]]
    assert waves() == []


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(("", "placeholders"), id="bundle with unknown resource type"),
        pytest.param(("dummy", "deployments"), id="bundle with known resource type but different API group"),
        pytest.param(("dummy", "placeholders"), id="bundle with unknown resource type from unknown API group"),
    ],
)
def test_unknown_resources_come_last(unknown: tuple[str, str]) -> None:
    webhooks = (ADMISSION, "mutatingwebhookconfigurations")
    assert waves(unknown, webhooks, ("", "configmaps")) == [[("", "configmaps")], [webhooks], [unknown]]


def test_mixed_resources_are_sorted_into_all_waves() -> None:
    assert waves(*(one for wave in reversed(MIXED) for one in wave)) == MIXED


def test_objects_of_a_wave_keep_their_order() -> None:
    named = [("b", "secrets"), ("a", "configmaps"), ("n", "namespaces"), ("c", "secrets")]
    found = in_waves(named, lambda one: ("", one[1]))
    assert [[name for name, _ in wave] for wave in found] == [["n"], ["b", "a", "c"]]
