"""The admission plugins of an API server, in its order: what becomes of a new pod, claim or workload.

Only new objects pass through here. What is there already (in etcd, in the dump of a cluster, bound to a node) only
counts in quotas. Of the plugins that are on by default, those are played that change where a pod may go or whether it
is made: LimitRanger, Priority (the global default's name), DefaultStorageClass, RuntimeClass and ResourceQuota. As in
Kubernetes 1.36 (`plugin/pkg/admission/{priority,runtimeclass,storage/storageclass/setdefault}`). What a class gives to
its pods is resolved wherever pods are read (`objects.model.priority`). There a priority that a pod has without naming
a class counts, which an API server refuses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import mapping, mappings, quantities, text, text_map
from wharfinger.objects.documents.metadata import OF_THE_API
from wharfinger.objects.documents.storage import CLASS_ANNOTATION
from wharfinger.objects.documents.surroundings import priority_class
from wharfinger.objects.model.priority import PRIORITY_CLASS, PriorityClasses
from wharfinger.whatif.admission import NotMade, limit_ranges, quotas
from wharfinger.whatif.admission.limit_ranges import LimitRange
from wharfinger.whatif.admission.quotas import Quota
from wharfinger.whatif.inventory import Inventory, Obj, Ref, ended, node_of

KINDS = ("LimitRange", "ResourceQuota", "RuntimeClass")
"""Kinds that only admission reads."""
CLAIM = "PersistentVolumeClaim"
_LIMIT_RANGE, _QUOTA, _RUNTIME_CLASS = KINDS
T = TypeVar("T")


def is_new(ref: Ref, obj: Obj) -> bool:
    """Whether a given object is still to be made: no API server has had it, it is not bound, and has not ended."""
    metadata = mapping(obj, "metadata")
    phase = mapping(obj, "status").get("phase")
    there = bool(node_of(obj)) or ended(obj) if ref.kind == "Pod" else phase in ("Bound", "Lost")
    return not there and not any(metadata.get(field) for field in OF_THE_API)


class AdmissionChain:
    """The plugins, set up by the objects of one question."""

    def __init__(self, inventory: Inventory, by_hand: Collection[Ref], *, live: bool) -> None:
        """`by_hand`: the objects that were given; `live`: whether there is a live state beside them.

        Objects of the live state that cannot be read are passed over. Raises `InvalidObject` for given ones.
        """
        self._by_hand = by_hand
        self._live = live
        self._ranges: dict[str, list[LimitRange]] = defaultdict(list)
        self._quotas: dict[str, list[Quota]] = defaultdict(list)
        self._runtime_classes: dict[str, Obj] = {}
        for ref, one in self._read(inventory, _LIMIT_RANGE, limit_ranges.limit_range):
            self._ranges[ref.namespace].append(one)
        for ref, found in self._read(inventory, _QUOTA, quotas.quota):
            self._quotas[ref.namespace].append(found)
        for ref, obj in self._read(inventory, _RUNTIME_CLASS, check_runtime_class):
            self._runtime_classes[ref.name] = obj
        for by_namespace in (self._ranges, self._quotas):
            for entries in by_namespace.values():
                entries.sort(key=lambda entry: entry.name)
        classes = dict(self._read(inventory, PRIORITY_CLASS, priority_class))
        self._priorities = PriorityClasses({ref.name: found for ref, found in classes.items()})
        self._default_storage = default_storage_class(obj for _, obj in inventory.of_kind("StorageClass"))
        self._count_existing(inventory)

    def admit(self, ref: Ref, obj: Obj) -> Obj | NotMade:
        """The object as it would be stored, or why it is not made. A quota counts it from now on.

        Raises `InvalidObject`.
        """
        admitted: Obj | NotMade = obj
        if ref.kind == "Pod":
            admitted = self._pod(ref, obj)
        elif ref.kind == CLAIM:
            obj = with_default_storage_class(obj, self._default_storage)
            admitted = limit_ranges.breach_by_claim(obj, self._ranges.get(ref.namespace, ())) or obj
        if isinstance(admitted, NotMade):
            return admitted
        return quotas.charge(self._quotas.get(ref.namespace, ()), ref.kind, admitted) or admitted

    def with_default_class(self, obj: Obj) -> Obj:
        """A claim that is there already: it gets the default StorageClass while it asks for none and is not bound."""
        unbound = not mapping(obj, "spec").get("volumeName")
        return with_default_storage_class(obj, self._default_storage) if unbound else obj

    # --- inside -------------------------------------------------------------------------------

    def _pod(self, ref: Ref, obj: Obj) -> Obj | NotMade:
        ranges = self._ranges.get(ref.namespace, ())
        spec = limit_ranges.with_defaults(mapping(obj, "spec"), ranges)
        contradiction = priority_contradiction(spec, self._priorities)
        if contradiction is not None:
            return contradiction
        spec = with_default_priority(spec, self._priorities)
        classified = self._with_runtime_class(spec)
        if isinstance(classified, NotMade):
            return classified
        if ranges:
            defaulted = any(one.limits or one.requests for one in ranges)
            refused = limit_ranges.breach_of_defaults(classified) if defaulted else None
            refused = refused or limit_ranges.breach_by_pod(classified, ranges)
            if refused is not None:
                return refused
        return obj if classified is mapping(obj, "spec") else {**obj, "spec": classified}

    def _with_runtime_class(self, spec: Mapping[str, Any]) -> Mapping[str, Any] | NotMade:
        name = runtime_class_of(spec)
        if not name:
            overhead = "its overhead is set, and no RuntimeClass defines it"
            return NotMade(overhead) if spec.get("overhead") else spec
        found = self._runtime_classes.get(name)
        if found is not None:
            return with_runtime_class(spec, found)
        # etcd need not hold the RuntimeClasses of a cluster.
        return spec if self._live else NotMade(f"RuntimeClass {name} not found among the given objects")

    def _read(self, inventory: Inventory, kind: str, reader: Callable[[Obj], T]) -> Iterable[tuple[Ref, T]]:
        for ref, obj in inventory.of_kind(kind):
            try:
                yield ref, reader(obj)
            except InvalidObject as error:
                if ref in self._by_hand:
                    raise InvalidObject(f"{ref}: {error}") from None

    def _count_existing(self, inventory: Inventory) -> None:
        if not self._quotas:
            return
        for ref, obj in inventory:
            try:
                if ref not in self._by_hand or not is_new(ref, obj):
                    quotas.count(self._quotas.get(ref.namespace, ()), ref.kind, obj)
            except InvalidObject as error:
                if ref in self._by_hand:
                    raise InvalidObject(f"{ref}: {error}") from None


def with_default_priority(spec: Mapping[str, Any], classes: PriorityClasses) -> Mapping[str, Any]:
    """The specification with the global default's name, if it leaves its priority open."""
    if classes.default is None or spec.get("priorityClassName") or spec.get("priority") is not None:
        return spec
    return {**spec, "priorityClassName": classes.default.name}


def priority_contradiction(spec: Mapping[str, Any], classes: PriorityClasses) -> NotMade | None:
    """Why a pod with another priority or preemption policy than its class is not made. Raises `InvalidObject`."""
    name = text(spec, "priorityClassName", "spec.")
    found = classes.find(name) if name else None
    if found is None:
        return None
    for field, own, given in (
        ("priority", spec.get("priority"), found.value),
        ("preemptionPolicy", spec.get("preemptionPolicy"), found.preemption_policy),
    ):
        if own is not None and own != given:
            return NotMade(f"its {field} is {own}, and PriorityClass {name} gives it {given}")
    return None


def runtime_class_of(spec: Mapping[str, Any]) -> str:
    """The RuntimeClass that a pod names; empty for none. Raises `InvalidObject`."""
    return text(spec, "runtimeClassName", "spec.")


def check_runtime_class(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a RuntimeClass whose fields cannot be read. Raises `InvalidObject`."""
    scheduling = mapping(obj, "scheduling")
    quantities(mapping(obj, "overhead"), "podFixed", "overhead.")
    text_map(scheduling, "nodeSelector", "scheduling.")
    mappings(scheduling, "tolerations", "scheduling.")
    return obj


def with_runtime_class(spec: Mapping[str, Any], runtime_class: Mapping[str, Any]) -> Mapping[str, Any] | NotMade:
    """The specification of a pod of the class, or why it is not made. Raises `InvalidObject`."""
    name = runtime_class_of(spec)
    overhead = mapping(mapping(runtime_class, "overhead"), "podFixed", "overhead.")
    own = quantities(spec, "overhead", "spec.")
    if own and own != quantities({"podFixed": overhead}, "podFixed"):
        return NotMade(f"its overhead does not match that of RuntimeClass {name}")
    scheduling = mapping(runtime_class, "scheduling")
    wanted = text_map(scheduling, "nodeSelector", "scheduling.")
    selector = text_map(spec, "nodeSelector", "spec.")
    for key, value in wanted.items():
        if selector.get(key, value) != value:
            theirs = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            return NotMade(f"conflict: {theirs}; pod.spec.nodeSelector[{key}] = {selector[key]}")
    tolerations = list(mappings(spec, "tolerations", "spec."))
    tolerations += [one for one in mappings(scheduling, "tolerations", "scheduling.") if one not in tolerations]
    completed = {"overhead": overhead, "nodeSelector": {**selector, **wanted}, "tolerations": tolerations}
    return {**spec, **{field: value for field, value in completed.items() if value}}


_IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def default_storage_class(classes: Iterable[Mapping[str, Any]]) -> str:
    """The name of the default class: the newest, then the first by name; empty for none. Raises `InvalidObject`."""
    found = []
    for obj in classes:
        metadata = mapping(obj, "metadata")
        annotations = text_map(metadata, "annotations", "metadata.")
        if any(annotations.get(name) == "true" for name in _IS_DEFAULT):
            found.append((str(metadata.get("creationTimestamp") or ""), text(metadata, "name", "metadata.")))
    newest = max((created for created, _ in found), default="")
    return min((name for created, name in found if created == newest), default="")


def with_default_storage_class(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The claim with that class, if it asks for none; an empty class asks for volumes without one."""
    spec = mapping(obj, "spec")
    annotations = text_map(mapping(obj, "metadata"), "annotations", "metadata.")
    if not name or spec.get("storageClassName") is not None or CLASS_ANNOTATION in annotations:
        return obj
    return {**obj, "spec": {**spec, "storageClassName": name}}
