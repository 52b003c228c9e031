"""Which objects a placement may deliver, in which order, and what members get of them: KubeFleet's cases."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.placement.deciding.selecting import (
    brings,
    in_order,
    is_reserved,
    may_be_placed,
    narrowed_to,
    sanitised,
    selects,
)
from wharfinger.placement.model.delivery import ObjectId, ResourceSelector, SelectionScope

DEPLOYMENTS = ResourceSelector("apps", "v1", "Deployment")
FRONTEND = LabelSelector((Requirement("app", Operator.IN, ("frontend",)),))
TIERS = LabelSelector((Requirement("tier", Operator.IN, ("web", "api")),))
OWNER = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1"}]


def deployment(name: str = "web") -> ObjectId:
    return ObjectId("apps", "v1", "Deployment", "team", name)


def written(api: str, kind: str, name: str = "one", namespace: str = "team", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def placed(obj: dict[str, Any], *, workloads: bool = False) -> bool:
    return may_be_placed(ObjectId.of(obj), obj, workloads=workloads)


def test_an_identity_is_written_as_people_read_it() -> None:
    assert str(deployment()) == "apps/v1 Deployment team/web"
    assert str(ObjectId("", "v1", "Namespace", "", "web")) == "v1 Namespace web"


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": []},
        {"metadata": {"name": 1, "namespace": {}}, "apiVersion": 7, "kind": None},
    ],
)
def test_an_identity_of_malformed_objects_is_empty(obj: dict[str, Any]) -> None:
    assert ObjectId.of(obj) == ("", "", "", "", "")


@pytest.mark.parametrize(
    ("selector", "labels", "wanted"),
    [
        (DEPLOYMENTS, {}, True),
        (ResourceSelector("apps", "v1", "Deployment", "web"), {}, True),
        (ResourceSelector("apps", "v1", "Deployment", "other"), {}, False),
        (ResourceSelector("apps", "v1beta1", "Deployment"), {}, True),
        (ResourceSelector("", "v1", "Deployment"), {}, False),
        (ResourceSelector("apps", "v1", "StatefulSet"), {}, False),
        (ResourceSelector("apps", "v1", "Deployment", labels=FRONTEND), {"app": "frontend"}, True),
        (ResourceSelector("apps", "v1", "Deployment", labels=FRONTEND), {"app": "backend"}, False),
        (ResourceSelector("apps", "v1", "Deployment", labels=TIERS), {"tier": "api"}, True),
        (ResourceSelector("apps", "v1", "Deployment", labels=TIERS), {}, False),
        (ResourceSelector("apps", "v1", "Deployment", labels=LabelSelector()), {}, True),
        (ResourceSelector("apps", "v1", "Deployment", "web", FRONTEND), {}, True),
    ],
)
def test_a_selector_selects_by_kind_and_name_or_labels(
    selector: ResourceSelector, labels: dict[str, str], *, wanted: bool
) -> None:
    assert selects(selector, deployment(), labels) is wanted


@pytest.mark.parametrize(
    ("scope", "comes", "narrowed"),
    [
        (SelectionScope.ALONE, False, ""),
        (SelectionScope.WITH_RESOURCES, True, ""),
        (SelectionScope.WITH_SELECTED, False, "team"),
    ],
)
def test_a_scope_decides_what_comes_with_a_namespace(scope: SelectionScope, *, comes: bool, narrowed: str) -> None:
    selector = ResourceSelector("", "v1", "Namespace", "team", scope=scope)
    assert brings(selector) is comes
    assert narrowed_to((DEPLOYMENTS, selector)) == narrowed
    assert not brings(ResourceSelector("apps", "v1", "Namespace", "team"))
    assert not narrowed_to((ResourceSelector("apps", "v1", "Deployment", scope=scope),))


@pytest.mark.parametrize(
    ("name", "reserved"), [("kube-system", True), ("fleet-member-a", True), ("kube", False), ("team-kube-", False)]
)
def test_namespaces_of_the_cluster_are_reserved(name: str, *, reserved: bool) -> None:
    assert is_reserved(name) is reserved


SLICE = {"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}}


@pytest.mark.parametrize(
    ("obj", "workloads", "wanted"),
    [
        pytest.param(written("apps/v1", "ReplicaSet"), True, True, id="standalone replicaset"),
        pytest.param(written("apps/v1", "ReplicaSet"), False, True, id="standalone replicaset without workloads"),
        pytest.param(written("v1", "Pod"), True, True, id="standalone pod"),
        pytest.param(
            written("apps/v1", "ReplicaSet", metadata={"ownerReferences": OWNER}), True, False, id="owned replicaset"
        ),
        pytest.param(written("v1", "Pod", metadata={"ownerReferences": OWNER}), True, False, id="owned pod"),
        pytest.param(
            written("apps/v1", "ControllerRevision", metadata={"ownerReferences": OWNER}),
            False,
            False,
            id="owned controllerrevision",
        ),
        pytest.param(written("apps/v1", "ControllerRevision"), False, True, id="standalone controllerrevision"),
        pytest.param(
            written("apps/v1", "Deployment", metadata={"ownerReferences": OWNER}), False, True, id="owned deployment"
        ),
        pytest.param(written("v1", "PersistentVolumeClaim"), False, True, id="claim without workloads"),
        pytest.param(written("v1", "PersistentVolumeClaim"), True, False, id="claim with workloads"),
        pytest.param(written("v1", "ServiceAccount", "default"), False, False, id="default service account"),
        pytest.param(written("v1", "ServiceAccount", "web"), False, True, id="other service account"),
        pytest.param(written("v1", "ConfigMap", "kube-root-ca.crt"), False, False, id="root certificates"),
        pytest.param(
            written("v1", "Secret", type="kubernetes.io/service-account-token"), False, False, id="account token"
        ),
        pytest.param(written("v1", "Secret", type="Opaque"), False, True, id="other secret"),
        pytest.param(written("discovery.k8s.io/v1", "EndpointSlice", **SLICE), False, False, id="managed slice"),
        pytest.param(written("discovery.k8s.io/v1", "EndpointSlice"), False, True, id="own slice"),
        pytest.param(
            written("v1", "ConfigMap", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            False,
            False,
            id="deleting",
        ),
        pytest.param(written("v1", "ConfigMap", namespace="kube-system"), False, False, id="in a reserved namespace"),
        pytest.param(written("v1", "Namespace", "fleet-system", ""), False, False, id="reserved namespace"),
        pytest.param(written("v1", "Namespace", "web", ""), False, True, id="namespace"),
        pytest.param(written("v1", "Node", "one", ""), False, False, id="node"),
        pytest.param(written("coordination.k8s.io/v1", "Lease"), False, False, id="lease"),
        pytest.param(written("events.k8s.io/v1", "Event"), False, False, id="event"),
        pytest.param(written("wharfinger.dev/v1", "SchedulerFleet", "one", ""), False, False, id="fleet"),
        pytest.param(written("cluster.kubernetes-fleet.io/v1", "MemberCluster", "one", ""), False, False, id="member"),
        pytest.param(written("placement.kubernetes-fleet.io/v1", "ResourceOverride"), False, False, id="override"),
        pytest.param(written("placement.kubernetes-fleet.io/v1", "ResourceEnvelope"), False, True, id="envelope"),
        pytest.param(written("cluster.kubernetes-fleet.io/v1", "ResourceEnvelope"), False, False, id="no envelope"),
    ],
)
def test_only_what_users_made_may_be_placed(obj: dict[str, Any], *, workloads: bool, wanted: bool) -> None:
    assert placed(obj, workloads=workloads) is wanted


@pytest.mark.parametrize("metadata", [None, [], "x", {"labels": 3}])
def test_malformed_metadata_does_not_keep_objects_from_judgement(metadata: Any) -> None:
    obj = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
    assert placed(obj)


ORDERED = [
    ("scheduling.k8s.io/v1", "PriorityClass", "", "p"),
    ("v1", "Namespace", "", "a"),
    ("v1", "Namespace", "", "b"),
    ("networking.k8s.io/v1", "NetworkPolicy", "team", "n"),
    ("v1", "ResourceQuota", "team", "q"),
    ("v1", "LimitRange", "team", "l"),
    ("policy/v1", "PodDisruptionBudget", "team", "b"),
    ("v1", "ServiceAccount", "team", "s"),
    ("v1", "Secret", "team", "s"),
    ("v1", "ConfigMap", "a", "z"),
    ("v1", "ConfigMap", "b", "a"),
    ("storage.k8s.io/v1", "StorageClass", "", "s"),
    ("v1", "PersistentVolume", "", "v"),
    ("v1", "PersistentVolumeClaim", "team", "v"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "c"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "", "c"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "c"),
    ("rbac.authorization.k8s.io/v1", "Role", "team", "r"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "team", "r"),
    ("v1", "Service", "team", "s"),
    ("apps/v1", "DaemonSet", "team", "d"),
    ("v1", "Pod", "team", "p"),
    ("v1", "ReplicationController", "team", "r"),
    ("apps/v1", "ReplicaSet", "team", "r"),
    ("apps/v1", "Deployment", "team", "z"),
    ("apps/v1beta1", "Deployment", "team", "a"),
    ("autoscaling/v1", "HorizontalPodAutoscaler", "team", "h"),
    ("apps/v1", "StatefulSet", "team", "s"),
    ("batch/v1", "Job", "team", "j"),
    ("batch/v1", "CronJob", "team", "j"),
    ("networking.k8s.io/v1", "IngressClass", "", "i"),
    ("networking.k8s.io/v1", "Ingress", "team", "i"),
    ("apiregistration.k8s.io/v1", "APIService", "", "a"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "m"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "v"),
    ("example.com/v1", "Alpha", "team", "a"),
    ("example.com/v1", "Beta", "team", "a"),
    ("example.com/v1", "Beta", "team", "b"),
]


def test_objects_are_sorted_as_in_upstream() -> None:
    wanted = [written(api, kind, name, namespace) for api, kind, namespace, name in ORDERED]
    shuffled = list(wanted)
    random.Random(7).shuffle(shuffled)
    assert in_order(shuffled) == wanted


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
