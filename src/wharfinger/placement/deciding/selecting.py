"""Which objects of the hub a placement may deliver, which of them a selector means, and their order.

Rules and order are KubeFleet's. `enveloping` opens the envelopes among them, `overriding` changes objects for one
member, and `effects.selected` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.objects.model.placement_kinds import PLACEMENT_GROUP
from wharfinger.placement.model.contents import ObjectId, ResourceSelector, SelectionScope

MOST_OBJECTS = 10_000
"""Objects that one placement may select."""
ENVELOPES = ("ClusterResourceEnvelope", "ResourceEnvelope")
"""The only objects of placement that are delivered: as what they contain."""
_OUR_GROUP = "wharfinger.dev"
_KUBEFLEETS = ".kubernetes-fleet.io"
_HUB_GROUPS = ("coordination.k8s.io", "events.k8s.io", "metrics.k8s.io")
"""They describe the hub itself."""
_RESERVED = ("kube-", "fleet-")
"""What names of namespaces begin with that belong to the cluster."""
_CONTROLLED = (("", "Pod"), ("apps", "ReplicaSet"), ("apps", "ControllerRevision"))
"""Kinds of which controllers make objects: a member's own controllers make them there."""
_ORDER = {
    kind: place
    for place, kind in enumerate(
        (
            "PriorityClass",
            "Namespace",
            "NetworkPolicy",
            "ResourceQuota",
            "LimitRange",
            "PodDisruptionBudget",
            "ServiceAccount",
            "Secret",
            "ConfigMap",
            "StorageClass",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "CustomResourceDefinition",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Service",
            "DaemonSet",
            "Pod",
            "ReplicationController",
            "ReplicaSet",
            "Deployment",
            "HorizontalPodAutoscaler",
            "StatefulSet",
            "Job",
            "CronJob",
            "IngressClass",
            "Ingress",
            "APIService",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        )
    )
}
"""The order keeps snapshots equal while their objects are. It is not the order of applying."""


def selects(selector: ResourceSelector, about: ObjectId, labels: Mapping[str, str]) -> bool:
    """Whether the selector means this object itself. What comes with a namespace, `brings` decides.

    The selector's version is not compared: objects are delivered in the version in which they are stored.
    """
    if (about.group, about.kind) != (selector.group, selector.kind):
        return False
    if selector.name:
        return about.name == selector.name
    return selector.labels is None or selector.labels.matches(labels)


def is_namespace(selector: ResourceSelector) -> bool:
    """Whether it selects namespaces."""
    return (selector.group, selector.kind) == ("", "Namespace")


def brings(selector: ResourceSelector) -> bool:
    """Whether each namespace that it selects comes with all objects in it."""
    return is_namespace(selector) and selector.scope is SelectionScope.WITH_RESOURCES


def narrowed_to(selectors: Iterable[ResourceSelector]) -> str:
    """The namespace in which a cluster-scoped placement selects objects of namespaced kinds; empty for none."""
    for selector in selectors:
        if is_namespace(selector) and selector.scope is SelectionScope.WITH_SELECTED:
            return selector.name
    return ""


def is_reserved(namespace: str) -> bool:
    """Whether a namespace belongs to the cluster, and is never delivered."""
    return namespace.startswith(_RESERVED)


def may_kind_be_placed(group: str, kind: str) -> bool:
    """Whether objects of a kind can be delivered at all."""
    if group == PLACEMENT_GROUP:
        return kind in ENVELOPES
    if group == _OUR_GROUP or group.endswith(_KUBEFLEETS) or group in _HUB_GROUPS:
        return False
    return (group, kind) not in (("", "Node"), ("", "Event"))


def may_be_placed(about: ObjectId, obj: Mapping[str, Any], *, workloads: bool = False) -> bool:
    """Whether an object may be delivered: its user's, not being deleted, and not made by the cluster itself.

    `workloads`: whether controllers run workloads on the hub. They make claims for volumes, so claims stay there.
    """
    if not may_kind_be_placed(about.group, about.kind):
        return False
    namespace = about.name if (about.group, about.kind) == ("", "Namespace") else about.namespace
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    if is_reserved(namespace) or metadata.get("deletionTimestamp") is not None:
        return False
    if (about.group, about.kind) in _CONTROLLED and metadata.get("ownerReferences"):
        return False
    match about.group, about.kind:
        case "", "ConfigMap":
            return about.name != "kube-root-ca.crt"
        case "", "ServiceAccount":
            return about.name != "default"
        case "", "Secret":
            return obj.get("type") != "kubernetes.io/service-account-token"
        case "", "PersistentVolumeClaim":
            return not workloads
        case "discovery.k8s.io", "EndpointSlice":
            labels = metadata.get("labels")
            return not (isinstance(labels, Mapping) and "endpointslice.kubernetes.io/managed-by" in labels)
    return True


def in_order(objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Objects in KubeFleet's order: known kinds first, each by version, then by namespace and name."""
    return sorted(objects, key=lambda obj: place_of(ObjectId.of(obj)))


def place_of(about: ObjectId) -> tuple[int, str, str]:
    """What objects are ordered by."""
    known = _ORDER.get(about.kind)
    where = f"{about.namespace}/{about.name}"
    if known is None:
        return len(_ORDER), f"{about.group}/{about.version}, Kind={about.kind}", where
    return known, about.api_version, where
