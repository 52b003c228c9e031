"""The admission plugins of an API server, in its order: what becomes of a new pod, claim or workload.

Only new objects pass through here. What is there already (in etcd, in the dump of a cluster, bound to a node) only
counts in quotas. Of the plugins that are on by default, those are played that change where a pod may go or whether it
is made: LimitRanger, Priority (the global default's name), DefaultStorageClass, RuntimeClass and ResourceQuota.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.documents.metadata import OF_THE_API
from wharfinger.objects.documents.surroundings import priority_class
from wharfinger.objects.model.priority import PRIORITY_CLASS, PriorityClasses
from wharfinger.whatif.admission import limit_ranges, priorities, quotas, runtime_classes, storage_classes
from wharfinger.whatif.admission.limit_ranges import LimitRange
from wharfinger.whatif.admission.quotas import Quota
from wharfinger.whatif.admission.verdict import NotMade
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
        for ref, obj in self._read(inventory, _RUNTIME_CLASS, runtime_classes.check_class):
            self._runtime_classes[ref.name] = obj
        for by_namespace in (self._ranges, self._quotas):
            for entries in by_namespace.values():
                entries.sort(key=lambda entry: entry.name)
        classes = dict(self._read(inventory, PRIORITY_CLASS, priority_class))
        self._priorities = PriorityClasses({ref.name: found for ref, found in classes.items()})
        self._default_storage = storage_classes.default_class(obj for _, obj in inventory.of_kind("StorageClass"))
        self._count_existing(inventory)

    def admit(self, ref: Ref, obj: Obj) -> Obj | NotMade:
        """The object as it would be stored, or why it is not made. A quota counts it from now on.

        Raises `InvalidObject`.
        """
        admitted: Obj | NotMade = obj
        if ref.kind == "Pod":
            admitted = self._pod(ref, obj)
        elif ref.kind == CLAIM:
            admitted = self._claim(ref, obj)
        if isinstance(admitted, NotMade):
            return admitted
        return quotas.charge(self._quotas.get(ref.namespace, ()), ref.kind, admitted) or admitted

    def with_default_class(self, obj: Obj) -> Obj:
        """A claim that is there already: it gets the default StorageClass while it asks for none and is not bound."""
        unbound = not mapping(obj, "spec").get("volumeName")
        return storage_classes.with_default(obj, self._default_storage) if unbound else obj

    # --- inside -------------------------------------------------------------------------------

    def _pod(self, ref: Ref, obj: Obj) -> Obj | NotMade:
        ranges = self._ranges.get(ref.namespace, ())
        spec = limit_ranges.with_defaults(mapping(obj, "spec"), ranges)
        contradiction = priorities.contradiction(spec, self._priorities)
        if contradiction is not None:
            return contradiction
        spec = priorities.with_default(spec, self._priorities)
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
        name = runtime_classes.name_in(spec)
        if not name:
            return runtime_classes.without_class(spec)
        found = self._runtime_classes.get(name)
        if found is not None:
            return runtime_classes.with_class(spec, found)
        # etcd need not hold the RuntimeClasses of a cluster.
        return spec if self._live else NotMade(f"RuntimeClass {name} not found among the given objects")

    def _claim(self, ref: Ref, obj: Obj) -> Obj | NotMade:
        obj = storage_classes.with_default(obj, self._default_storage)
        return limit_ranges.breach_by_claim(obj, self._ranges.get(ref.namespace, ())) or obj

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
