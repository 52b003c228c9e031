"""What decisions read beside nodes and pods, as mappings: namespaces, what selects pods, budgets, groups, classes.

Volumes and what belongs to them are read in `storage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import EMPTY, boolean, integer, mapping, mappings, text, text_map
from wharfinger.objects.documents.kinds import POD_GROUPS
from wharfinger.objects.documents.metadata import METADATA, checked_object, object_name, object_namespace
from wharfinger.objects.documents.selectors import equalities, label_selector
from wharfinger.objects.documents.storage import GROUPS as STORAGE_KINDS
from wharfinger.objects.documents.storage import checked, storage_object
from wharfinger.objects.model.gang import PodGroup
from wharfinger.objects.model.names import is_qualified_name
from wharfinger.objects.model.pod import PREEMPT_LOWER_PRIORITY
from wharfinger.objects.model.priority import (
    HIGHEST_OF_USERS,
    PRIORITY_CLASS,
    SYSTEM_CLASSES,
    SYSTEM_PREFIX,
    PriorityClass,
)
from wharfinger.objects.model.selectors import LabelSelector
from wharfinger.objects.model.surroundings import DeviceClass, DisruptionBudget, Namespace, PodCollection, Surrounding

NAME_LABEL = "kubernetes.io/metadata.name"
"""Every namespace has it; the API server sees to that."""
COLLECTIONS: Mapping[str, str] = {
    "Service": "v1",
    "ReplicationController": "v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}
"""Kinds whose objects select pods that belong together, and their API versions."""
_PLAIN_SELECTORS = ("Service", "ReplicationController")
"""Their selectors are labels alone, not a `metav1.LabelSelector`."""
_INT32 = 2**31 - 1
PREEMPTION_POLICIES = (PREEMPT_LOWER_PRIORITY, "Never")

POD_GROUP = "PodGroup"
DEVICE_CLASS = "DeviceClass"
KINDS = ("Namespace", *COLLECTIONS, "PodDisruptionBudget", POD_GROUP, DEVICE_CLASS, PRIORITY_CLASS, *STORAGE_KINDS)
"""All kinds that are read here, or in `storage`."""


def surrounding(given: object, kind: str, default_namespace: str = "default") -> Surrounding | None:
    """Read an object of one of the `KINDS`; None for one that means nothing to any decision. Raises `InvalidObject`."""
    if kind == "Namespace":
        return namespace(given)
    if kind == "PodDisruptionBudget":
        return disruption_budget(given, default_namespace)
    if kind == POD_GROUP:
        return pod_group(given, default_namespace)
    if kind == DEVICE_CLASS:
        return device_class(given)
    if kind == PRIORITY_CLASS:
        return priority_class(given)
    if kind in STORAGE_KINDS:
        return storage_object(given, kind, default_namespace)
    return pod_collection(given, kind, default_namespace)


def namespace(given: object) -> Namespace:
    """Read a namespace; raises `InvalidObject`."""
    obj = checked(given, "Namespace", "v1", "core/v1.Namespace")
    metadata = mapping(obj, "metadata")
    name = object_name(metadata)
    return Namespace(name, {**text_map(metadata, "labels", METADATA), NAME_LABEL: name})


def pod_collection(given: object, kind: str, default_namespace: str) -> PodCollection | None:
    """Read a Service, ReplicationController, ReplicaSet or StatefulSet; None for one that selects no pods.

    Raises `InvalidObject`.
    """
    version = COLLECTIONS[kind]
    obj = checked(given, kind, version, f"{'core/' if version == 'v1' else ''}{version}.{kind}")
    metadata = mapping(obj, "metadata")
    space, name = object_namespace(metadata, default_namespace), object_name(metadata)
    spec = mapping(obj, "spec")
    if kind in _PLAIN_SELECTORS:
        selector = LabelSelector(equalities(text_map(spec, "selector", "spec.") or _of_template(kind, spec)))
    else:
        selector = label_selector(spec, "selector", "spec.") or LabelSelector()
    return PodCollection(kind, space, name, selector) if selector.requirements else None


def disruption_budget(given: object, default_namespace: str) -> DisruptionBudget:
    """Read a PodDisruptionBudget; what it allows is its status, as written. Raises `InvalidObject`."""
    obj = checked(given, "PodDisruptionBudget", "policy/v1", "policy/v1.PodDisruptionBudget")
    metadata = mapping(obj, "metadata")
    status = mapping(obj, "status")
    allowed = integer(status, "disruptionsAllowed", "status.", low=-_INT32 - 1, high=_INT32)
    return DisruptionBudget(
        object_namespace(metadata, default_namespace),
        object_name(metadata),
        label_selector(mapping(obj, "spec"), "selector", "spec."),
        allowed or 0,
        frozenset(_names(status)),
    )


def pod_group(given: object, default_namespace: str) -> PodGroup:
    """Read a PodGroup of Kubernetes (`schedulingPolicy.gang.minCount`) or of the scheduler-plugins (`minMember`).

    Raises `InvalidObject`.
    """
    obj = checked_object(given)
    version = text(obj, "apiVersion")
    if version and version.rpartition("/")[0] not in POD_GROUPS:
        raise InvalidObject(f"apiVersion is {version[:40]!r}, not of {POD_GROUPS[0]!r}")
    checked(obj, POD_GROUP, version or "v1", "scheduling/v1alpha2.PodGroup")
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    gang = mapping(mapping(spec, "schedulingPolicy", "spec."), "gang", "spec.schedulingPolicy.")
    min_count = integer(gang, "minCount", "spec.schedulingPolicy.gang.", low=1, high=_INT32)
    if min_count is None:
        min_count = integer(spec, "minMember", "spec.", low=0, high=_INT32)
    return PodGroup(
        object_namespace(metadata, default_namespace),
        object_name(metadata),
        min_count or 0,
        tuple(_topology_keys(mapping(spec, "schedulingConstraints", "spec."))),
    )


def device_class(given: object) -> DeviceClass:
    """Read a DeviceClass, of any version that an API server may serve; raises `InvalidObject`."""
    obj = checked_object(given)
    version = text(obj, "apiVersion") or "resource.k8s.io/v1"
    if version.rpartition("/")[0] != "resource.k8s.io":
        raise InvalidObject(f"apiVersion is {version[:40]!r}, not of 'resource.k8s.io'")
    checked(obj, DEVICE_CLASS, version, "resource/v1.DeviceClass")
    return DeviceClass(
        object_name(mapping(obj, "metadata")), text(mapping(obj, "spec"), "extendedResourceName", "spec.")
    )


def priority_class(given: object) -> PriorityClass:
    """Read a PriorityClass, by the rules of Kubernetes' validation; raises `InvalidObject`."""
    obj = checked(given, PRIORITY_CLASS, "scheduling.k8s.io/v1", "scheduling/v1.PriorityClass")
    name = object_name(mapping(obj, "metadata"))
    value = integer(obj, "value", "", low=-_INT32 - 1, high=_INT32) or 0
    policy = text(obj, "preemptionPolicy", "", PREEMPT_LOWER_PRIORITY)
    if policy not in PREEMPTION_POLICIES:
        raise InvalidObject(f"preemptionPolicy is {policy[:40]!r}, not {' or '.join(PREEMPTION_POLICIES)}")
    found = PriorityClass(name, value, boolean(obj, "globalDefault", ""), policy)
    _check_reserved(found)
    return found


def _check_reserved(found: PriorityClass) -> None:
    """Names and values that are the system's are refused to users. Raises `InvalidObject`."""
    if not found.name.startswith(SYSTEM_PREFIX):
        if found.value > HIGHEST_OF_USERS:
            raise InvalidObject(f"value is {found.value}: the maximum of a user defined priority is {HIGHEST_OF_USERS}")
        return
    system = SYSTEM_CLASSES.get(found.name)
    if system is None:
        raise InvalidObject(f"metadata.name {found.name[:80]!r}: names with {SYSTEM_PREFIX!r} are for system use only")
    if found.value != system.value:
        raise InvalidObject(f"value of {found.name} must be {system.value}")
    if found.global_default:
        raise InvalidObject(f"globalDefault of {found.name} must be false")


def _topology_keys(constraints: Mapping[str, Any]) -> Iterator[str]:
    where = "spec.schedulingConstraints.topology"
    for index, entry in enumerate(mappings(constraints, "topology", "spec.schedulingConstraints.")):
        key = text(entry, "key", f"{where}[{index}].")
        if not is_qualified_name(key):
            raise InvalidObject(f"{where}[{index}].key {key[:80]!r} is no label's name")
        yield key


def _of_template(kind: str, spec: Mapping[str, Any]) -> Mapping[str, str]:
    """What a ReplicationController without a selector selects: pods labelled as those it makes."""
    template = mapping(spec, "template", "spec.") if kind == "ReplicationController" else EMPTY
    return text_map(mapping(template, METADATA[:-1], "spec.template."), "labels", "spec.template.metadata.")


def _names(status: Mapping[str, Any]) -> Mapping[str, str]:
    """Pods whose eviction is under way, and since when."""
    return text_map(status, "disruptedPods", "status.")
