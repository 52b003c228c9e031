"""What decisions read beside nodes and pods: namespaces, what selects pods, budgets, groups, classes, storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

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


_Other = Namespace | PodCollection | DisruptionBudget | PodGroup | PriorityClass | DeviceClass
Surrounding = _Other | StorageObject


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
        if self._holds(thing):
            return self
        if isinstance(thing, Namespace):
            return replace(self, namespaces={**self.namespaces, thing.name: thing})
        if isinstance(thing, DeviceClass):
            return replace(self, device_classes={**self.device_classes, thing.name: thing})
        if isinstance(thing, PriorityClass):
            return replace(self, priority_classes=self.priority_classes.with_class(thing))
        rest = self.without(type(thing), thing.namespace, thing.name, getattr(thing, "kind", ""))
        space = thing.namespace
        match thing:
            case PodCollection():
                held = sorted((*rest.collections.get(space, ()), thing), key=lambda one: (one.kind, one.name))
                return replace(rest, collections={**rest.collections, space: tuple(held)})
            case DisruptionBudget():
                budgets = sorted((*rest.budgets.get(space, ()), thing), key=lambda one: one.name)
                return replace(rest, budgets={**rest.budgets, space: tuple(budgets)})
            case PodGroup():
                groups = sorted((*rest.pod_groups.get(space, ()), thing), key=lambda one: one.name)
                return replace(rest, pod_groups={**rest.pod_groups, space: tuple(groups)})

    def with_storage(self, storage: Storage) -> Surroundings:
        """With this storage; itself when it has just that."""
        return self if storage is self.storage else replace(self, storage=storage)

    def _holds(self, thing: _Other) -> bool:
        match thing:
            case Namespace():
                return self.namespaces.get(thing.name) == thing
            case PodCollection():
                return thing in self.collections.get(thing.namespace, ())
            case DisruptionBudget():
                return thing in self.budgets.get(thing.namespace, ())
            case PodGroup():
                return thing in self.pod_groups.get(thing.namespace, ())
            case DeviceClass():
                return self.device_classes.get(thing.name) == thing
            case PriorityClass():
                return self.priority_classes.by_name.get(thing.name) == thing

    def without(self, what: type[Surrounding], namespace: str, name: str, kind: str = "") -> Surroundings:
        """Without one object; itself when there is none. `kind` distinguishes collections."""
        if what in STORAGE_TYPES:
            return self.with_storage(self.storage.without(cast("type[StorageObject]", what), namespace, name))
        if what is Namespace:
            if name not in self.namespaces:
                return self
            return replace(self, namespaces={key: value for key, value in self.namespaces.items() if key != name})
        if what is DeviceClass:
            if name not in self.device_classes:
                return self
            kept_classes = {key: value for key, value in self.device_classes.items() if key != name}
            return replace(self, device_classes=kept_classes)
        if what is PriorityClass:
            known_class = name in self.priority_classes.by_name
            return replace(self, priority_classes=self.priority_classes.without(name)) if known_class else self
        if what is PodCollection:
            old = self.collections.get(namespace, ())
            kept = tuple(one for one in old if (one.kind, one.name) != (kind, name))
            return self if kept == old else replace(self, collections=_with_entry(self.collections, namespace, kept))
        if what is PodGroup:
            groups = self.pod_groups.get(namespace, ())
            left = tuple(one for one in groups if one.name != name)
            return self if left == groups else replace(self, pod_groups=_with_entry(self.pod_groups, namespace, left))
        known = self.budgets.get(namespace, ())
        left_budgets = tuple(one for one in known if one.name != name)
        if left_budgets == known:
            return self
        return replace(self, budgets=_with_entry(self.budgets, namespace, left_budgets))


def _with_entry(held: Mapping[str, tuple[T, ...]], key: str, value: tuple[T, ...]) -> Mapping[str, tuple[T, ...]]:
    result = {name: entry for name, entry in held.items() if name != key}
    if value:
        result[key] = value
    return result


NOTHING_AROUND = Surroundings()
