"""What decisions read beside nodes and pods: namespaces, what selects pods, budgets, groups, classes, storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from wharfinger.objects.model.gang import PodGroup
from wharfinger.objects.model.pod import NO_LABELS
from wharfinger.objects.model.priority import NO_CLASSES, PriorityClass, PriorityClasses
from wharfinger.objects.model.selectors import LabelSelector
from wharfinger.objects.model.storage import STORAGE_TYPES, StorageObject
from wharfinger.objects.model.storage_index import NO_STORAGE, Storage

IMPLIED = "deviceclass.resource.kubernetes.io/"
"""How the resource begins that each class answers for, before the name of the class."""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass: kinds of devices that a claim may name."""

    name: str
    extended_resource: str = ""
    """The extended resource that it answers for besides the implied one; empty = none."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace; its labels are what terms select it by (`kubernetes.io/metadata.name` among them)."""

    name: str
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)


@dataclass(frozen=True, slots=True)
class PodCollection:
    """A Service, ReplicationController, ReplicaSet or StatefulSet: pods that belong together."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector
    """Never empty: an object that selects nothing is not kept."""


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many more of its pods may be evicted now."""

    namespace: str
    name: str
    selector: LabelSelector | None
    """None or one without requirements protects nothing in preemption, as in kube-scheduler."""
    disruptions_allowed: int = 0
    disrupted_pods: frozenset[str] = frozenset()
    """Names of pods whose eviction is counted already."""


_Namespaced = PodCollection | DisruptionBudget | PodGroup
Surrounding = Namespace | _Namespaced | PriorityClass | DeviceClass | StorageObject
_PARTS: Mapping[type[Surrounding], str] = {
    Namespace: "namespaces",
    DeviceClass: "device_classes",
    PodCollection: "collections",
    DisruptionBudget: "budgets",
    PodGroup: "pod_groups",
}
"""The field of `Surroundings` that holds the objects of a type: by name the first two, by namespace the others."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All of them at one revision; a change makes a new one, and shares the mappings that did not change."""

    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    collections: Mapping[str, tuple[PodCollection, ...]] = field(default_factory=dict)
    """By namespace, in the order of (kind, name)."""
    budgets: Mapping[str, tuple[DisruptionBudget, ...]] = field(default_factory=dict)
    """By namespace, in the order of their names."""
    pod_groups: Mapping[str, tuple[PodGroup, ...]] = field(default_factory=dict)
    """By namespace, in the order of their names."""

    device_classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    priority_classes: PriorityClasses = NO_CLASSES
    storage: Storage = NO_STORAGE
    """Volumes, claims, and what decides about them."""

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The namespace's labels; none when there is no such object."""
        known = self.namespaces.get(namespace)
        return NO_LABELS if known is None else known.labels

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """The PodGroup of this name; None when there is none."""
        return next((one for one in self.pod_groups.get(namespace, ()) if one.name == name), None)

    def are_devices(self, resource: str) -> bool:
        """Whether the resource is devices, on nodes whose device plugin does not have it."""
        if resource.startswith(IMPLIED):
            return True
        return any(one.extended_resource == resource for one in self.device_classes.values())

    def with_object(self, thing: Surrounding) -> Surroundings:
        """With this object, in the place of an older state of it; itself when that says the same."""
        if isinstance(thing, StorageObject):
            return self.with_storage(self.storage.with_object(thing))
        if isinstance(thing, PriorityClass):
            classes = self.priority_classes
            known = classes.by_name.get(thing.name) == thing
            return self if known else replace(self, priority_classes=classes.with_class(thing))
        part = _PARTS[type(thing)]
        held: Mapping[str, Any] = getattr(self, part)
        if isinstance(thing, Namespace | DeviceClass):
            return self if held.get(thing.name) == thing else self._with(part, {**held, thing.name: thing})
        there: tuple[_Namespaced, ...] = held.get(thing.namespace, ())
        if thing in there:
            return self
        others = [one for one in there if _order(one) != _order(thing)]
        return self._with(part, {**held, thing.namespace: tuple(sorted((*others, thing), key=_order))})

    def with_storage(self, storage: Storage) -> Surroundings:
        """With this storage; itself when it has just that."""
        return self if storage is self.storage else replace(self, storage=storage)

    def _with(self, part: str, value: Any) -> Surroundings:
        return replace(self, **{part: value})

    def without(self, what: type[Surrounding], namespace: str, name: str, kind: str = "") -> Surroundings:
        """Without one object; itself when there is none. `kind` distinguishes collections."""
        if what in STORAGE_TYPES:
            return self.with_storage(self.storage.without(cast("type[StorageObject]", what), namespace, name))
        if what is PriorityClass:
            known = name in self.priority_classes.by_name
            return replace(self, priority_classes=self.priority_classes.without(name)) if known else self
        part = _PARTS[what]
        held: Mapping[str, Any] = getattr(self, part)
        if what in (Namespace, DeviceClass):
            return self._with(part, {key: one for key, one in held.items() if key != name}) if name in held else self
        there: tuple[_Namespaced, ...] = held.get(namespace, ())
        gone = (kind if what is PodCollection else "", name)
        left = tuple(one for one in there if _order(one) != gone)
        return self if left == there else self._with(part, _with_entry(held, namespace, left))


def _order(thing: _Namespaced) -> tuple[str, str]:
    """By which the objects of a namespace are told apart and sorted."""
    return getattr(thing, "kind", ""), thing.name


def _with_entry(held: Mapping[str, tuple[T, ...]], key: str, value: tuple[T, ...]) -> Mapping[str, tuple[T, ...]]:
    result = {name: entry for name, entry in held.items() if name != key}
    if value:
        result[key] = value
    return result


NOTHING_AROUND = Surroundings()
