"""Kinds of other makers, other kinds of Kubernetes, and misspelt ones."""

from __future__ import annotations

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.kinds import KINDS
from wharfinger.objects.documents.kubernetes_fields import kubernetes_fields
from wharfinger.objects.documents.unknown import OtherKind, has_pod_template, other_kind

CONTAINERS = {"containers": [{"name": "c", "image": "x"}]}


def test_kinds_that_are_stored_are_no_others() -> None:
    versions = {title.split()[1]: title.split()[0] for title in kubernetes_fields().kinds}
    for kind in KINDS:
        version = versions.get(kind.name, f"{kind.group}/v1")
        assert other_kind({"apiVersion": version, "kind": kind.name}) is None
    assert other_kind({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}) is None


@pytest.mark.parametrize(
    ("version", "name", "makes_pods"),
    [
        ("anthos.example.com/v1", "Namespace", False),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", False),
        ("apps.kruise.io/v1alpha1", "DaemonSet", True),
        ("gateway.networking.k8s.io/v1", "Gateway", False),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", False),
        ("apps/v1", "ControllerRevision", False),
        ("v1", "Endpoints", False),
        ("postgresql.cnpg.io/v1", "Cluster", True),
        ("monitoring.coreos.com/v1", "ServiceMonitor", False),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", False),
    ],
)
def test_kinds_of_other_groups_are_others(version: str, name: str, makes_pods: bool) -> None:
    found = other_kind({"apiVersion": version, "kind": name})

    assert found == OtherKind(name, version.rpartition("/")[0], makes_pods)


@pytest.mark.parametrize(
    ("version", "name", "meant"),
    [
        ("apps/v1", "Deplyoment", "Deployment"),
        ("apps/v1", "deployment", "Deployment"),
        ("v1", "Pods", "Pod"),
        ("v1", "Deployment", "Deployment in version apps/v1"),
        ("batch/v1", "Deployment", "Deployment in version apps/v1"),
        ("app/v1", "Deployment", "Deployment in version apps/v1"),
        ("extensions/v1beta1", "Ingress", "Ingress in version networking.k8s.io/v1"),
        ("networking.k8s.oi/v1", "Ingress", "Ingress in version networking.k8s.io/v1"),
        ("policy/v1beta1", "PodDisruptionBudget", "PodDisruptionBudget in version policy/v1"),
        ("apps/v2", "Deployment", "Deployment in version apps/v1"),
        ("wharfinger.dev/v1", "SchedulerFlet", "SchedulerFleet"),
        ("policy/v1", "PodSecurityPolicy", ""),
    ],
)
def test_a_kind_that_its_group_does_not_have_is_refused(version: str, name: str, meant: str) -> None:
    hint = f"; did you mean {meant}?" if meant else ""
    with pytest.raises(InvalidObject) as refused:
        other_kind({"apiVersion": version, "kind": name})
    assert str(refused.value) == f'no matches for kind "{name}" in version "{version}"{hint}'


@pytest.mark.parametrize("spec", [CONTAINERS, {"a": [{"template": {"spec": CONTAINERS}}]}, {"g": {"h": CONTAINERS}}])
def test_pod_templates_are_found_below_the_specification(spec: object) -> None:
    assert has_pod_template({"spec": spec})


@pytest.mark.parametrize("spec", [None, {}, {"containers": ["x"]}, {"containers": {"image": "x"}}, [1]])
def test_what_has_no_images_is_no_pod_template(spec: object) -> None:
    assert not has_pod_template({"spec": spec})


@pytest.mark.parametrize(
    ("version", "name", "noted"),
    [
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", False),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", False),
        ("resource.k8s.io/v1", "ResourceClaimTemplate", True),
        ("example.com/v1", "Rocket", True),
    ],
)
def test_own_kinds_of_kubernetes_without_pods_are_not_worth_a_note(version: str, name: str, noted: bool) -> None:
    found = other_kind({"apiVersion": version, "kind": name})

    assert found is not None
    assert found.is_worth_a_note is noted
