"""Objects as they are stored: taken apart by kind, listed, and followed by a watch.

`StoredObjects` holds for kinds of which only the metadata is known. Kinds whose rows show more have a subclass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from wharfinger.errors import InvalidObject, NotFound, UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Event, KeyValue, Read, Store
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.checks.objects import problems_of
from wharfinger.objects.documents.decode import decode_surrounding
from wharfinger.objects.documents.formats import KUBERNETES, ObjectFormat, format_of
from wharfinger.objects.documents.kinds import FLEET, NODE, POD, PRIORITY_CLASS, Kind, Reference
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.priority import PriorityClass, PriorityClasses, resolve


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored object: as the model reads it, or why it cannot be read."""

    kv: KeyValue
    namespace: str
    name: str
    pod: Pod | None = None
    node: Node | None = None
    priority_class: PriorityClass | None = None
    invalid: str = ""
    format: ObjectFormat = KUBERNETES
    """Of the object."""
    promised: bool = False
    """Whether the bind of a pod is in etcd, and the Kubernetes API has not shown it yet."""
    held: str = ""
    """Why its gang holds a pod back, where that was asked for."""
    used: Mapping[str, int] = field(default_factory=dict)
    """What the bound pods use of a node, `pods` too, where that was asked for."""

    def mapping(self) -> Mapping[str, Any]:
        """The object itself, with the etcd revision as `resourceVersion`; empty when it is none.

        Of another format than Kubernetes': the pod or node that it stands for.
        """
        if self.format is not KUBERNETES:
            return self._standing_for()
        try:
            obj = documents.parse(self.kv.value)
        except InvalidObject:
            return {}
        if not isinstance(obj, dict):
            return {}
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            obj["metadata"] = {**metadata, "resourceVersion": str(self.kv.mod_revision)}
        return obj

    def _standing_for(self) -> Mapping[str, Any]:
        try:
            read = self.format.pod_mapping if self.kv.key.startswith(keys.PODS) else self.format.node_mapping
            return read(self.kv.value)
        except InvalidObject:
            return {}


class ChangedObjects(NamedTuple):
    """What the events of one revision change."""

    changed: Sequence[Stored]
    """Those whose rows are others now."""
    deleted: Sequence[Stored]


def key_of(about: Reference) -> str:
    """Where an object lies in etcd."""
    return keys.stored(about.kind.folder, about.namespace, about.name)


def prefix_of(kind: Kind, namespace: str = "") -> str:
    """What the keys of a kind begin with, of one namespace or of all."""
    return keys.stored_prefix(kind.folder, namespace)


def check_kind(store: Store, kind: Kind) -> None:
    """Raise `UsageError` for a kind that a cluster of this format does not have."""
    if not format_of(store.format).has_surroundings and kind not in (POD, NODE, FLEET):
        raise UsageError(f"a cluster of the format {store.format} has pods, nodes and fleets here, not {kind.plural}")


def read(kind: Kind, kv: KeyValue, format_: ObjectFormat = KUBERNETES) -> Stored:
    """Take a stored object apart; what a pod leaves to its class is in `resolved`. `format_`: the cluster's."""
    format_ = format_ if kind in (POD, NODE) else KUBERNETES
    parts = kv.key.removeprefix(prefix_of(kind)).split("/")
    if len(parts) != (2 if kind.namespaced else 1) or not all(parts):
        shape = "<namespace>/<name>" if kind.namespaced else "<name>"
        if kind is POD and format_ is not KUBERNETES:
            shape, parts = format_.pod_key, parts[1:]
        why = f"the key is not {prefix_of(kind)}{shape}"
        return Stored(kv, "", "/".join(parts), invalid=why, format=format_)
    namespace, name = ("", *parts)[-2:]
    try:
        if kind is POD:
            pod = format_.decode_pod(kv.value, namespace=namespace, name=name, **kv.revisions)
            return Stored(kv, namespace, name, pod=pod, format=format_)
        if kind is NODE:
            node = format_.decode_node(kv.value, name=name, **kv.revisions)
            return Stored(kv, namespace, name, node=node, format=format_)
        if kind is PRIORITY_CLASS:
            found = decode_surrounding(kv.value, kind.name, name=name)
            return Stored(kv, namespace, name, priority_class=found if isinstance(found, PriorityClass) else None)
    except InvalidObject as error:
        return Stored(kv, namespace, name, invalid=str(error), format=format_)
    return Stored(kv, namespace, name)


def resolved(found: Stored, classes: PriorityClasses) -> Stored:
    """The same; a pod with the priority that it has by these classes."""
    return found if found.pod is None else replace(found, pod=resolve(found.pod, classes))


def doubts(found: Stored) -> tuple[str, ...]:
    """What an API server of Kubernetes would refuse of a stored object; nothing of another format's."""
    return problems_of(found.mapping()) if found.format is KUBERNETES else ()


async def priority_classes(store: Store) -> PriorityClasses:
    """The stored PriorityClasses that can be read; none where priorities do not depend on them."""
    if not format_of(store.format).has_surroundings:
        return PriorityClasses()
    _, found = await StoredObjects(store, PRIORITY_CLASS).every()
    return PriorityClasses({entry.name: entry.priority_class for entry in found if entry.priority_class is not None})


async def read_objects(store: Store, objects: Sequence[Reference]) -> list[Read]:
    """What etcd has of these objects."""
    wanted = [key_of(about) for about in objects]
    absent = await store.txn([Compare(key, "mod", 0) for key in wanted], [])
    if absent.succeeded:  # as in most batches that are applied: one round trip shows it
        return [Read(None, absent.revision) for _ in wanted]
    return await asyncio.gather(*map(store.get, wanted))


class StoredObjects:
    """The stored objects of a kind, in one namespace or in all."""

    def __init__(self, store: Store, kind: Kind, namespace: str = "") -> None:
        """Raises `UsageError` for a kind that the cluster does not have."""
        check_kind(store, kind)
        self.kind = kind
        self.namespace = namespace if kind.namespaced else ""
        self.format = format_of(store.format)
        self.known: dict[str, Stored] = {}
        """Those that are followed, by their keys."""
        self._name = ""
        self._prefix = prefix_of(kind, self.namespace)
        self._store = store

    async def every(self) -> tuple[int, list[Stored]]:
        """All of them, and the revision they show."""
        found: list[Stored] = []
        revision = 0
        async for page in self._store.list(self._prefix):
            revision = page.revision
            found += map(self._decoded, page.items)
        return revision, found

    async def one(self, name: str) -> Stored:
        """One of them. Raises `NotFound` when there is none."""
        kv = (await self._store.get(key_of(Reference(self.kind, self.namespace, name)))).kv
        if kv is None:
            shown = f"{self.namespace}/{name}" if self.kind.namespaced else name
            raise NotFound(f"there is no {self.kind.singular} {shown}")
        return read(self.kind, kv, self.format)

    async def completed(self, found: list[Stored]) -> list[Stored]:
        """All that was found, or one read by its name, with what rows show of other objects."""
        return found

    async def follow(self, name: str = "") -> tuple[str, int]:
        """List them, all or the one of this name, and begin to follow them.

        Returns the prefix to watch, and the revision that is listed.
        """
        self._name = name
        revision, found = await self.every()
        self._set(found)
        return self._prefix, revision

    def take(self, events: Sequence[Event]) -> ChangedObjects:
        """Take the events of one revision, of the prefix that is watched."""
        deleted: list[Stored] = []
        changed = {entry.kv.key: entry for entry in self._first(events)}
        for event in events:
            if event.kv.key.startswith(self._prefix):
                entry = self._taken(event)
                if self._name not in ("", entry.name):
                    continue
                if event.deleted:
                    self.known.pop(event.kv.key, None)
                    changed.pop(event.kv.key, None)
                    deleted.append(entry)
                else:
                    self.known[event.kv.key] = changed[event.kv.key] = entry
            else:
                changed |= {entry.kv.key: entry for entry in self._beside(event)}
        changed |= {entry.kv.key: entry for entry in self._last()}
        return ChangedObjects(list(changed.values()), deleted)

    def _set(self, found: Iterable[Stored]) -> None:
        self.known = {entry.kv.key: entry for entry in found if self._name in ("", entry.name)}

    def _decoded(self, kv: KeyValue) -> Stored:
        return read(self.kind, kv, self.format)

    def _taken(self, event: Event) -> Stored:
        """The object of an event, as it is now; a deleted one by its key."""
        return self._decoded(event.kv)

    def _first(self, _events: Sequence[Event]) -> Iterator[Stored]:
        """Those that other objects change, whose events count before those of the kind."""
        yield from ()

    def _beside(self, _event: Event) -> Iterator[Stored]:
        """Those that the event of another object changes."""
        yield from ()

    def _last(self) -> Iterator[Stored]:
        """Those that follow from all changes."""
        yield from ()
