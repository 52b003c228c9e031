"""Whether an object that was applied is available: KubeFleet's cases."""

from __future__ import annotations

import pytest

from tests.placement.applying.objects import Object, deployment, service
from wharfinger.placement.applying.availability import Availability, availability

AVAILABLE, NOT_YET = Availability.AVAILABLE, Availability.NOT_YET_AVAILABLE
NOT_TRACKABLE = Availability.NOT_TRACKABLE


def judged(obj: Object, group: str, kind: str, *, runs_workloads: bool = True) -> Availability:
    found, why = availability(obj, group, kind, runs_workloads=runs_workloads)
    assert why
    assert "\n" not in why
    return found


def replicas(available: int, updated: int, **others: object) -> Object:
    return {"availableReplicas": available, "updatedReplicas": updated, **others}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(
            deployment({"replicas": 1}, replicas(1, 1)), AVAILABLE, id="available deployment (w/ fixed replica count)"
        ),
        pytest.param(deployment({}, replicas(1, 1)), AVAILABLE, id="available deployment (w/ default replica count)"),
        pytest.param(
            deployment({}, replicas(1, 1, observedGeneration=1), generation=2),
            NOT_YET,
            id="unavailable deployment with stale status",
        ),
        pytest.param(
            deployment({"replicas": 5}, replicas(2, 5)),
            NOT_YET,
            id="unavailable deployment with not enough available replicas",
        ),
        pytest.param(
            deployment({"replicas": 5}, replicas(5, 2)),
            NOT_YET,
            id="unavailable deployment with not enough updated replicas",
        ),
        pytest.param(
            deployment({"replicas": 1}, replicas(1, 1, unavailableReplicas=1)),
            NOT_YET,
            id="unavailable deployment with unavailable replicas",
        ),
        pytest.param(deployment({"replicas": 0}, {"observedGeneration": 1}, generation=1), AVAILABLE, id="no replicas"),
    ],
)
def test_deployments(obj: Object, expected: Availability) -> None:
    assert judged(obj, "apps", "Deployment") is expected


def set_status(available: int, current: int, updated: int, revision: str = "1", **others: object) -> Object:
    return {
        "currentReplicas": current,
        "currentRevision": "1",
        "updateRevision": revision,
        **replicas(available, updated),
        **others,
    }


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(
            deployment({"replicas": 1}, set_status(1, 1, 1)),
            AVAILABLE,
            id="available stateful set (w/ fixed replica count)",
        ),
        pytest.param(
            deployment({}, set_status(1, 1, 1)), AVAILABLE, id="available stateful set (w/ default replica count)"
        ),
        pytest.param(
            deployment({}, set_status(1, 1, 1, observedGeneration=1), generation=2),
            NOT_YET,
            id="unavailable stateful set with stale status",
        ),
        pytest.param(
            deployment({"replicas": 5}, set_status(2, 5, 5)),
            NOT_YET,
            id="unavailable stateful set with not enough available replicas",
        ),
        pytest.param(
            deployment({"replicas": 5}, set_status(5, 2, 5)),
            NOT_YET,
            id="unavailable stateful set with not enough current replicas",
        ),
        pytest.param(
            deployment({}, set_status(1, 1, 1, "2")), NOT_YET, id="unavailable stateful set with not latest revision"
        ),
    ],
)
def test_stateful_sets(obj: Object, expected: Availability) -> None:
    assert judged(obj, "apps", "StatefulSet") is expected


def daemons(available: int, desired: int, current: int, updated: int, **others: object) -> Object:
    return {
        "numberAvailable": available,
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": current,
        "updatedNumberScheduled": updated,
        **others,
    }


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(deployment({}, daemons(1, 1, 1, 1)), AVAILABLE, id="available daemon set"),
        pytest.param(
            deployment({}, daemons(1, 1, 1, 1, observedGeneration=1), generation=2),
            NOT_YET,
            id="unavailable daemon set with stale status",
        ),
        pytest.param(
            deployment({}, daemons(2, 5, 5, 5)), NOT_YET, id="unavailable daemon set with not enough available pods"
        ),
        pytest.param(
            deployment({}, daemons(5, 5, 5, 6)), NOT_YET, id="unavailable daemon set with not enough updated pods"
        ),
    ],
)
def test_daemon_sets(obj: Object, expected: Availability) -> None:
    assert judged(obj, "apps", "DaemonSet") is expected


def balanced(*ingress: Object) -> Object:
    return service({"type": "LoadBalancer"}, {"loadBalancer": {"ingress": list(ingress)}})


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(
            service({"type": "ExternalName", "clusterIPs": ["192.168.1.1"]}),
            NOT_TRACKABLE,
            id="untrackable service (external name type)",
        ),
        pytest.param(
            service({"type": "", "clusterIPs": ["192.168.1.1"]}),
            AVAILABLE,
            id="available default typed service (IP assigned)",
        ),
        pytest.param(
            service({"type": "ClusterIP", "clusterIPs": ["192.168.1.1"]}),
            AVAILABLE,
            id="available ClusterIP service (IP assigned)",
        ),
        pytest.param(
            service({"type": "ClusterIP", "clusterIPs": ["None"]}), AVAILABLE, id="available headless service"
        ),
        pytest.param(
            service({"type": "NodePort", "clusterIP": "13.6.2.2", "clusterIPs": ["192.168.1.1"]}),
            AVAILABLE,
            id="available node port service (IP assigned)",
        ),
        pytest.param(
            service({"type": "ClusterIP", "clusterIP": "13.6.2.2"}),
            NOT_YET,
            id="unavailable ClusterIP service (no IP assigned)",
        ),
        pytest.param(balanced({"ip": "10.1.2.4"}), AVAILABLE, id="available LoadBalancer service (IP assigned)"),
        pytest.param(
            balanced({"hostname": "one.example.com"}),
            AVAILABLE,
            id="available LoadBalancer service (hostname assigned)",
        ),
        pytest.param(balanced(), NOT_YET, id="unavailable LoadBalancer service (ingress not ready)"),
    ],
)
def test_services(obj: Object, expected: Availability) -> None:
    assert judged(obj, "", "Service") is expected


def conditions(**statuses: str) -> Object:
    return {"status": {"conditions": [{"type": name, "status": status} for name, status in statuses.items()]}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(conditions(Established="True", NamesAccepted="True"), AVAILABLE, id="available CRD"),
        pytest.param(
            conditions(Established="False", NamesAccepted="True"), NOT_YET, id="unavailable CRD (not established)"
        ),
        pytest.param(
            conditions(Established="True", NamesAccepted="False"), NOT_YET, id="unavailable CRD (name not accepted)"
        ),
        pytest.param({}, NOT_YET, id="no status"),
    ],
)
def test_custom_resource_definitions(obj: Object, expected: Availability) -> None:
    assert judged(obj, "apiextensions.k8s.io", "CustomResourceDefinition") is expected


def budget(allowed: int, observed: int, status: str, reason: str) -> Object:
    condition = {"type": "DisruptionAllowed", "status": status, "reason": reason, "observedGeneration": observed}
    return {
        "metadata": {"generation": 2},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": observed, "conditions": [condition]},
    }


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(budget(1, 2, "True", "SufficientPods"), AVAILABLE, id="available PDB"),
        pytest.param(budget(0, 2, "True", "SufficientPods"), NOT_YET, id="unavailable PDB (insufficient pods)"),
        pytest.param(budget(1, 1, "True", "SufficientPods"), NOT_YET, id="unavailable PDB (stale condition)"),
        pytest.param(budget(0, 2, "False", "InsufficientPods"), AVAILABLE, id="no disruption allowed"),
        pytest.param(budget(1, 2, "True", "Other"), NOT_YET, id="another reason"),
    ],
)
def test_disruption_budgets(obj: Object, expected: Availability) -> None:
    assert judged(obj, "policy", "PodDisruptionBudget") is expected


RBAC, STORAGE = "rbac.authorization.k8s.io", "storage.k8s.io"


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("", "Namespace"),
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("", "LimitRange"),
        ("", "ResourceQuota"),
        (RBAC, "Role"),
        (RBAC, "ClusterRole"),
        (RBAC, "RoleBinding"),
        (RBAC, "ClusterRoleBinding"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("networking.k8s.io", "IngressClass"),
        (STORAGE, "CSIDriver"),
        (STORAGE, "CSINode"),
        (STORAGE, "StorageClass"),
        (STORAGE, "CSIStorageCapacity"),
        ("apps", "ControllerRevision"),
        ("scheduling.k8s.io", "PriorityClass"),
    ],
)
@pytest.mark.parametrize("runs_workloads", [True, False])
def test_data_objects_are_available_at_once(group: str, kind: str, *, runs_workloads: bool) -> None:
    assert judged({}, group, kind, runs_workloads=runs_workloads) is AVAILABLE


@pytest.mark.parametrize(
    ("group", "kind"), [("batch", "Job"), ("example.com", "Deployment"), ("example.com", "Secret"), ("", "Node")]
)
def test_other_objects_are_not_trackable(group: str, kind: str) -> None:
    assert judged({"status": {}}, group, kind) is NOT_TRACKABLE
