"""Which objects of the hub a placement may deliver, which of them a selector means, their order, and what members get.

Rules and order are KubeFleet's. `enveloping` opens the envelopes among them, `overriding` changes objects for one
member, and `effects.selected` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.objects.documents.fields import boolean, mapping, part
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION
from wharfinger.objects.model.placement_kinds import PLACEMENT_GROUP
from wharfinger.placement.model.delivery import ObjectId, ResourceSelector, SelectionScope

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
    metadata = part(obj, "metadata")
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


_HUB_METADATA = (
    "resourceVersion",
    "generation",
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "ownerReferences",
)
"""Only true on the hub. Finalizers and the grace period of a deletion stay, as in KubeFleet."""
_HUB_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    ATTEMPT_ANNOTATION,
)
_GENERATED_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
"""The API server puts them on a Job's selector and pods. They name the hub's Job."""


def sanitised(obj: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what is only true on the hub, as members get it.

    The input is not changed; the result shares with it what stays the same. Raises `InvalidObject`.
    """
    result = {key: value for key, value in obj.items() if key != "status"}
    metadata = mapping(obj, "metadata")
    annotations = mapping(metadata, "annotations", "metadata.")
    kept = {key: value for key, value in metadata.items() if key not in (*_HUB_METADATA, "annotations")}
    remaining = {key: value for key, value in annotations.items() if key not in _HUB_ANNOTATIONS}
    if remaining:
        kept["annotations"] = remaining
    result["metadata"] = kept
    match obj.get("apiVersion"), obj.get("kind"):
        case "v1", "Pod" if ATTEMPT_ANNOTATION in annotations:
            return _without(result, "spec", "nodeName")
        case "v1", "Service":
            return _service(result)
        case "batch/v1", "Job":
            return _job(result)
    return result


def _service(obj: dict[str, Any]) -> dict[str, Any]:
    """Without addresses and ports that the hub assigned. A headless Service stays headless."""
    spec = mapping(obj, "spec")
    address = spec.get("clusterIP")
    if isinstance(address, str) and address != "None":
        obj = _without(_without(obj, "spec", "clusterIP"), "spec", "clusterIPs")
    obj = _without(obj, "spec", "healthCheckNodePort")
    ports = spec.get("ports")
    if isinstance(ports, list):
        freed = [_without(port, "nodePort") if isinstance(port, Mapping) else port for port in ports]
        obj["spec"] = {**mapping(obj, "spec"), "ports": freed}
    return obj


def _job(obj: dict[str, Any]) -> dict[str, Any]:
    """Without the selector that the API server generated."""
    if boolean(mapping(obj, "spec"), "manualSelector", "spec."):
        return obj
    for label in _GENERATED_LABELS:
        obj = _without(obj, "spec", "selector", "matchLabels", label)
        obj = _without(obj, "spec", "template", "metadata", "labels", label)
    return _without(obj, "spec", "template", "metadata", "creationTimestamp")


def _without(obj: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """A copy without the field at the path; only what lies on the path is copied."""
    key, *rest = path
    if not rest:
        return {name: value for name, value in obj.items() if name != key}
    result = dict(obj)
    below = obj.get(key)
    if isinstance(below, Mapping):
        result[key] = _without(below, *rest)
    return result
