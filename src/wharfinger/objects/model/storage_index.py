"""All objects about storage at one revision, with the indexes that choosing volumes needs.

A value, as `surroundings` is: a change makes a new one, which shares what did not change.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar, cast

from wharfinger.objects.model.storage import (
    AVAILABLE,
    ClaimKey,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_BUCKETS = 256
_MASK = _BUCKETS - 1


class Keyed(Mapping[K, V]):
    """Entries in no particular order; `put` and `without` share every piece that they do not touch."""

    __slots__ = ("_buckets", "_length")

    def __init__(self) -> None:
        nothing: dict[K, V] = {}
        self._buckets: list[dict[K, V]] = [nothing] * _BUCKETS
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        for bucket in self._buckets:
            yield from bucket

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) & _MASK][key]

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & _MASK]

    def put(self, key: K, value: V) -> Keyed[K, V]:
        """With this entry, in the place of the key's older one."""
        number = hash(key) & _MASK
        bucket = self._buckets[number]
        return self._with(number, {**bucket, key: value}, self._length + (key not in bucket))

    def without(self, key: K) -> Keyed[K, V]:
        """Without the key's entry; itself when there is none."""
        number = hash(key) & _MASK
        bucket = self._buckets[number]
        if key not in bucket:
            return self
        return self._with(number, {name: value for name, value in bucket.items() if name != key}, self._length - 1)

    def differing(self, other: Keyed[K, V]) -> Iterator[K]:
        """The keys whose entries are not the same objects in both; cheap where one was made from the other."""
        for mine, theirs in zip(self._buckets, other._buckets, strict=True):
            if mine is not theirs:
                for key in mine.keys() | theirs.keys():
                    if mine.get(key) is not theirs.get(key):
                        yield key

    def _with(self, number: int, bucket: dict[K, V], length: int) -> Keyed[K, V]:
        changed: Keyed[K, V] = type(self)()
        changed._buckets = self._buckets.copy()
        changed._buckets[number] = bucket
        changed._length = length
        return changed


class VolumePool(Keyed[str, PersistentVolume]):
    """The volumes of one class that no claim has, by name."""

    __slots__ = ("_by_size",)

    def __init__(self) -> None:
        super().__init__()
        self._by_size: tuple[PersistentVolume, ...] | None = None

    @property
    def by_size(self) -> tuple[PersistentVolume, ...]:
        """The smallest first; of equal ones in the order of their names."""
        if self._by_size is None:
            self._by_size = tuple(sorted(self.values(), key=_size))
        return self._by_size

    def put(self, key: str, value: PersistentVolume) -> VolumePool:
        """With this volume; the order is kept rather than made anew, for a volume is chosen with every bind."""
        changed = cast("VolumePool", super().put(key, value))
        if self._by_size is not None:
            ordered = list(self._by_size) if key not in self else [one for one in self._by_size if one.name != key]
            insort(ordered, value, key=_size)
            changed._by_size = tuple(ordered)
        return changed

    def without(self, key: str) -> VolumePool:
        """Without this volume; itself when it is not here."""
        changed = cast("VolumePool", super().without(key))
        if changed is not self and self._by_size is not None:
            changed._by_size = tuple([one for one in self._by_size if one.name != key])
        return changed


def _size(volume: PersistentVolume) -> tuple[int, str]:
    return volume.capacity, volume.name


Volumes: TypeAlias = "Keyed[str, PersistentVolume]"
Attachments: TypeAlias = "Keyed[str, tuple[VolumeAttachment, ...]]"


@dataclass(frozen=True, slots=True)
class Storage:
    """Volumes, claims and what else decides about them."""

    claims: Keyed[ClaimKey, PersistentVolumeClaim] = field(default_factory=Keyed)
    volumes: Volumes = field(default_factory=Keyed)
    free: Mapping[str, VolumePool] = field(default_factory=dict)
    """By class: the volumes that are Available and that no claim has."""
    kept: Keyed[ClaimKey, tuple[PersistentVolume, ...]] = field(default_factory=Keyed)
    """By the claim that they name: volumes kept for it or bound to it, in the order of their names."""
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    nodes: Keyed[str, CsiNode] = field(default_factory=Keyed)
    drivers: Mapping[str, CsiDriver] = field(default_factory=dict)
    capacities: Keyed[tuple[str, str], StorageCapacity] = field(default_factory=Keyed)
    """By namespace and name."""
    capacities_of: Mapping[str, Keyed[tuple[str, str], StorageCapacity]] = field(default_factory=dict)
    """By class, then as `capacities`."""
    attachments: Keyed[str, VolumeAttachment] = field(default_factory=Keyed)
    attached: Attachments = field(default_factory=Keyed)
    """By node: the attachments there, in the order of their names."""

    def get(self, what: type[StorageObject], namespace: str, name: str) -> StorageObject | None:
        """One object; None when there is none."""
        if what is PersistentVolumeClaim:
            return self.claims.get(ClaimKey(namespace, name))
        if what is StorageCapacity:
            return self.capacities.get((namespace, name))
        return cast("Mapping[str, StorageObject]", getattr(self, _BY_NAME[what])).get(name)

    def with_object(self, thing: StorageObject) -> Storage:
        """With this object, in the place of an older state of it; itself when that says the same."""
        space, name = place_of(thing)
        known = self.get(type(thing), space, name)
        if known == thing:
            return self
        rest = self if known is None else self._without(known)
        match thing:
            case PersistentVolume():
                return rest._with_volume(thing)
            case PersistentVolumeClaim():
                return replace(rest, claims=rest.claims.put(thing.key, thing))
            case StorageClass():
                return replace(rest, classes={**rest.classes, name: thing})
            case CsiNode():
                return replace(rest, nodes=rest.nodes.put(name, thing))
            case CsiDriver():
                return replace(rest, drivers={**rest.drivers, name: thing})
            case StorageCapacity():
                of_class = rest.capacities_of.get(thing.storage_class, _NO_CAPACITIES).put((space, name), thing)
                return replace(
                    rest,
                    capacities=rest.capacities.put((space, name), thing),
                    capacities_of={**rest.capacities_of, thing.storage_class: of_class},
                )
            case VolumeAttachment():
                on_node = sorted((*rest.attached.get(thing.node, ()), thing), key=lambda one: one.name)
                attached = rest.attached.put(thing.node, tuple(on_node))
                return replace(rest, attachments=rest.attachments.put(name, thing), attached=attached)

    def without(self, what: type[StorageObject], namespace: str, name: str) -> Storage:
        """Without one object; itself when there is none."""
        known = self.get(what, namespace, name)
        return self if known is None else self._without(known)

    def _with_volume(self, volume: PersistentVolume) -> Storage:
        volumes, free, kept = self.volumes.put(volume.name, volume), self.free, self.kept
        if volume.claim is not None:
            others = (*kept.get(volume.claim.key, ()), volume)
            kept = kept.put(volume.claim.key, tuple(sorted(others, key=lambda one: one.name)))
        elif volume.phase == AVAILABLE:
            pool = free.get(volume.storage_class, _NO_VOLUMES).put(volume.name, volume)
            free = {**free, volume.storage_class: pool}
        return replace(self, volumes=volumes, free=free, kept=kept)

    def _without(self, thing: StorageObject) -> Storage:
        space, name = place_of(thing)
        match thing:
            case PersistentVolume():
                return self._without_volume(thing)
            case PersistentVolumeClaim():
                return replace(self, claims=self.claims.without(thing.key))
            case StorageClass():
                return replace(self, classes={key: one for key, one in self.classes.items() if key != name})
            case CsiNode():
                return replace(self, nodes=self.nodes.without(name))
            case CsiDriver():
                return replace(self, drivers={key: one for key, one in self.drivers.items() if key != name})
            case StorageCapacity():
                of_class = self.capacities_of[thing.storage_class].without((space, name))
                others = {key: one for key, one in self.capacities_of.items() if key != thing.storage_class}
                return replace(
                    self,
                    capacities=self.capacities.without((space, name)),
                    capacities_of={**others, thing.storage_class: of_class} if of_class else others,
                )
            case VolumeAttachment():
                left = tuple(one for one in self.attached[thing.node] if one is not thing)
                attached = self.attached.put(thing.node, left) if left else self.attached.without(thing.node)
                return replace(self, attachments=self.attachments.without(name), attached=attached)

    def _without_volume(self, volume: PersistentVolume) -> Storage:
        free, kept = self.free, self.kept
        if volume.claim is not None:
            left = tuple(one for one in kept[volume.claim.key] if one is not volume)
            kept = kept.put(volume.claim.key, left) if left else kept.without(volume.claim.key)
        elif volume.phase == AVAILABLE:
            pool = free[volume.storage_class].without(volume.name)
            others = {name: one for name, one in free.items() if name != volume.storage_class}
            free = {**others, volume.storage_class: pool} if pool else others
        return replace(self, volumes=self.volumes.without(volume.name), free=free, kept=kept)


def place_of(thing: StorageObject) -> tuple[str, str]:
    """Namespace, empty for kinds without, and name of an object."""
    match thing:
        case PersistentVolumeClaim():
            return thing.key
        case StorageCapacity():
            return thing.namespace, thing.name
        case _:
            return "", thing.name


_BY_NAME: Mapping[type[StorageObject], str] = {
    PersistentVolume: "volumes",
    StorageClass: "classes",
    CsiNode: "nodes",
    CsiDriver: "drivers",
    VolumeAttachment: "attachments",
}
_NO_VOLUMES = VolumePool()
_NO_CAPACITIES: Keyed[tuple[str, str], StorageCapacity] = Keyed()
NO_STORAGE = Storage()
