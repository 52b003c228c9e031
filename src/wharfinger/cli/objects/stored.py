"""Reading stored objects for commands: by kind, with their keys checked, unreadable ones kept apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from wharfinger.contracts.records import AttemptRecord
from wharfinger.errors import InvalidObject, NotFound, UsageError
from wharfinger.manifests import documents
from wharfinger.manifests.decode import decode_node, decode_pod, decode_surrounding
from wharfinger.manifests.kinds import NODE, POD, PRIORITY_CLASS, Kind
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod, PodKey
from wharfinger.model.priority import PriorityClass, PriorityClasses, resolve
from wharfinger.registry import keys
from wharfinger.registry.store import KeyValue, Store


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

    def mapping(self) -> dict[str, Any]:
        """The object itself, with the etcd revision as `resourceVersion`; empty when it is none."""
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


def read(kind: Kind, kv: KeyValue) -> Stored:
    """Take a stored object apart; what a pod leaves to its class is in `resolved`."""
    parts = kv.key.removeprefix(keys.stored_prefix(kind.folder)).split("/")
    if len(parts) != (2 if kind.namespaced else 1) or not all(parts):
        shape = "<namespace>/<name>" if kind.namespaced else "<name>"
        return Stored(kv, "", "/".join(parts), invalid=f"the key is not {keys.stored_prefix(kind.folder)}{shape}")
    namespace, name = ("", *parts)[-2:]
    revisions: dict[str, Any] = {"create_revision": kv.create_revision, "mod_revision": kv.mod_revision}
    try:
        if kind is POD:
            return Stored(kv, namespace, name, pod=decode_pod(kv.value, namespace=namespace, name=name, **revisions))
        if kind is NODE:
            return Stored(kv, namespace, name, node=decode_node(kv.value, name=name, **revisions))
        if kind is PRIORITY_CLASS:
            found = decode_surrounding(kv.value, kind.name, name=name)
            return Stored(kv, namespace, name, priority_class=found if isinstance(found, PriorityClass) else None)
    except InvalidObject as error:
        return Stored(kv, namespace, name, invalid=str(error))
    return Stored(kv, namespace, name)


def resolved(found: Stored, classes: PriorityClasses) -> Stored:
    """The same; a pod with the priority that it has by these classes."""
    return found if found.pod is None else replace(found, pod=resolve(found.pod, classes))


async def priority_classes(store: Store) -> PriorityClasses:
    """The stored PriorityClasses that can be read."""
    _, found = await every(store, PRIORITY_CLASS)
    return PriorityClasses({entry.name: entry.priority_class for entry in found if entry.priority_class is not None})


async def listing(store: Store, kind: Kind, namespace: str = "") -> AsyncIterator[tuple[int, list[Stored]]]:
    """All objects of a kind, page by page, each page with the listing's revision."""
    classes = await priority_classes(store) if kind is POD else PriorityClasses()
    async for page in store.list(keys.stored_prefix(kind.folder, namespace)):
        yield page.revision, [resolved(read(kind, kv), classes) for kv in page.items]


async def every(store: Store, kind: Kind, namespace: str = "") -> tuple[int, list[Stored]]:
    """All objects of a kind, and the revision they show."""
    found: list[Stored] = []
    revision = 0
    async for revision, page in listing(store, kind, namespace):  # noqa: B007 - of the last page
        found += page
    return revision, found


async def one(store: Store, kind: Kind, namespace: str, name: str) -> Stored:
    """One object. Raises `NotFound` when there is none."""
    found = await store.get(keys.stored(kind.folder, namespace if kind.namespaced else "", name))
    if found.kv is None:
        raise NotFound(f"there is no {kind.singular} {f'{namespace}/{name}' if kind.namespaced else name}")
    stored = read(kind, found.kv)
    asks = stored.pod is not None and stored.pod.class_terms is not None
    return resolved(stored, await priority_classes(store)) if asks else stored


def pod_key(text: str, namespace: str) -> PodKey:
    """`NS/NAME`, or `NAME` in the namespace that `-n` says. Raises `UsageError`."""
    parts = text.split("/")
    if not all(parts) or len(parts) > 2:
        raise UsageError(f"{text!r} is no name: NAMESPACE/NAME is meant, or NAME with -n NAMESPACE")
    return PodKey(*parts) if len(parts) == 2 else PodKey(namespace, text)


async def record_of(store: Store, found: Stored) -> AttemptRecord | None:
    """The record of the pod's last refused attempt, when it is about this life of the pod."""
    kv = (await store.get(keys.attempt(found.namespace, found.name))).kv
    if kv is None:
        return None
    try:
        record = AttemptRecord.model_validate_json(kv.value)
    except ValueError:
        return None
    return record if record.create_revision == found.kv.create_revision else None
