"""The kinds that an API server in memory serves, and its discovery documents."""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.apiserver import client
from wharfinger.apiserver.client import ApiResource
from wharfinger.testing.memory_objects import Json

VERSION: Json = {"major": "1", "minor": "36", "gitVersion": "v1.36.2", "platform": "linux/amd64"}
"""What `/version` shows, as far as it matters."""

STORAGE = "storage.k8s.io"

KINDS: dict[ApiResource, str] = {
    client.PODS: "Pod",
    client.NODES: "Node",
    client.NAMESPACES: "Namespace",
    client.SERVICES: "Service",
    client.REPLICATION_CONTROLLERS: "ReplicationController",
    client.REPLICA_SETS: "ReplicaSet",
    client.STATEFUL_SETS: "StatefulSet",
    client.DISRUPTION_BUDGETS: "PodDisruptionBudget",
    client.PRIORITY_CLASSES: "PriorityClass",
    client.LEASES: "Lease",
    client.EVENTS: "Event",
    ApiResource("", "v1", "configmaps", namespaced=True): "ConfigMap",
    ApiResource("", "v1", "persistentvolumes", namespaced=False): "PersistentVolume",
    ApiResource("", "v1", "persistentvolumeclaims", namespaced=True): "PersistentVolumeClaim",
    ApiResource(STORAGE, "v1", "storageclasses", namespaced=False): "StorageClass",
    ApiResource(STORAGE, "v1", "csinodes", namespaced=False): "CSINode",
    ApiResource(STORAGE, "v1", "csidrivers", namespaced=False): "CSIDriver",
    ApiResource(STORAGE, "v1", "csistoragecapacities", namespaced=True): "CSIStorageCapacity",
    ApiResource(STORAGE, "v1", "volumeattachments", namespaced=False): "VolumeAttachment",
}
REVIEWS: dict[ApiResource, str] = {
    client.TOKEN_REVIEWS: "TokenReview",
    client.ACCESS_REVIEWS: "SubjectAccessReview",
    client.OWN_ACCESS_REVIEWS: "SelfSubjectAccessReview",
}
"""Kinds that are answered and not stored."""

WITH_STATUS = frozenset({client.PODS, client.NODES, client.NAMESPACES, client.DISRUPTION_BUDGETS})
"""Kinds whose status is written through a path of its own: what is written elsewhere does not change it."""


def qualified(resource: ApiResource) -> str:
    """How messages name the kind: `pods`, `leases.coordination.k8s.io`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def document(path: str, served: Iterable[tuple[ApiResource, str]]) -> Json | None:
    """`/version`, `/apis`, or the kinds of `/api/v1` or `/apis/<group>/<version>`; None where there are none."""
    if path == "/version":
        return dict(VERSION)
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(resource for resource, _ in served)}
    listed = [
        {"name": resource.plural, "namespaced": resource.namespaced, "kind": kind}
        for resource, kind in served
        if path == (f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}")
    ]
    if not listed:
        return None
    version = path.removeprefix("/apis/").removeprefix("/api/")
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": listed}


def _groups(served: Iterable[ApiResource]) -> list[Json]:
    """Each group with its versions, of which the first is preferred."""
    versions: dict[str, list[Json]] = {}
    for resource in dict.fromkeys((one.group, one.version) for one in served if one.group):
        group, version = resource
        versions.setdefault(group, []).append({"groupVersion": f"{group}/{version}", "version": version})
    return [{"name": name, "versions": found, "preferredVersion": found[0]} for name, found in versions.items()]
