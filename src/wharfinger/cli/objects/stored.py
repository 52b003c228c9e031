"""Reading stored objects for commands: by kind, with their keys checked, unreadable ones kept apart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wharfinger.contracts.records import AttemptRecord
from wharfinger.errors import InvalidObject, NotFound, UsageError
from wharfinger.manifests import documents
from wharfinger.manifests.checks.objects import problems_of
from wharfinger.manifests.decode import decode_surrounding
from wharfinger.manifests.formats import KUBERNETES, ObjectFormat, format_of
from wharfinger.manifests.kinds import FLEET, NODE, POD, PRIORITY_CLASS, Kind
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod, PodKey
from wharfinger.model.priority import PriorityClass, PriorityClasses, resolve
from wharfinger.observe.upstream_pods import promise_of, promises_of
from wharfinger.registry import keys
from wharfinger.registry.store import KeyValue, Store

NAME_LIMIT = 253
"""Characters of a name, as Kubernetes has it."""


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


def check_kind(store: Store, kind: Kind) -> None:
    """Raise `UsageError` for a kind that a cluster of this format does not have."""
    if not format_of(store.format).has_surroundings and kind not in (POD, NODE, FLEET):
        raise UsageError(f"a cluster of the format {store.format} has pods, nodes and fleets here, not {kind.plural}")


def read(kind: Kind, kv: KeyValue, format_: ObjectFormat = KUBERNETES) -> Stored:
    """Take a stored object apart; what a pod leaves to its class is in `resolved`. `format_`: the cluster's."""
    format_ = format_ if kind in (POD, NODE) else KUBERNETES
    parts = kv.key.removeprefix(keys.stored_prefix(kind.folder)).split("/")
    if len(parts) != (2 if kind.namespaced else 1) or not all(parts):
        shape = "<namespace>/<name>" if kind.namespaced else "<name>"
        if kind is POD and format_ is not KUBERNETES:
            shape, parts = format_.pod_key, parts[1:]
        why = f"the key is not {keys.stored_prefix(kind.folder)}{shape}"
        return Stored(kv, "", "/".join(parts), invalid=why, format=format_)
    namespace, name = ("", *parts)[-2:]
    revisions: dict[str, Any] = {"create_revision": kv.create_revision, "mod_revision": kv.mod_revision}
    try:
        if kind is POD:
            pod = format_.decode_pod(kv.value, namespace=namespace, name=name, **revisions)
            return Stored(kv, namespace, name, pod=pod, format=format_)
        if kind is NODE:
            node = format_.decode_node(kv.value, name=name, **revisions)
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


def refused(found: Stored, record: AttemptRecord | None) -> Stored:
    """The same; a pod with the refusal and the nomination of its record, where pods do not carry these."""
    pod = found.pod
    if pod is None or record is None or pod.bound or record.create_revision != pod.create_revision:
        return found
    condition = ("False", record.reason, record.message)
    return replace(found, pod=replace(pod, condition=condition, nominated_node_name=record.nominated_node))


def promised(found: Stored, promises: Container[PodKey]) -> Stored:
    """The same; a pod with whether its bind is promised only."""
    return replace(found, promised=True) if found.pod is not None and found.pod.key in promises else found


def doubts(found: Stored) -> tuple[str, ...]:
    """What an API server of Kubernetes would refuse of a stored object; nothing of another format's."""
    return problems_of(found.mapping()) if found.format is KUBERNETES else ()


async def priority_classes(store: Store) -> PriorityClasses:
    """The stored PriorityClasses that can be read; none where priorities do not depend on them."""
    if not format_of(store.format).has_surroundings:
        return PriorityClasses()
    _, found = await every(store, PRIORITY_CLASS)
    return PriorityClasses({entry.name: entry.priority_class for entry in found if entry.priority_class is not None})


async def listing(store: Store, kind: Kind, namespace: str = "") -> AsyncIterator[tuple[int, list[Stored]]]:
    """All objects of a kind, page by page, each page with the listing's revision."""
    check_kind(store, kind)
    format_ = format_of(store.format)
    classes = await priority_classes(store) if kind is POD else PriorityClasses()
    records = await attempt_records(store) if kind is POD and not format_.marks_pods else {}
    promises = await promises_of(store, namespace) if kind is POD and format_.marks_pods else {}
    async for page in store.list(keys.stored_prefix(kind.folder, namespace)):
        found = (promised(resolved(read(kind, kv, format_), classes), promises) for kv in page.items)
        yield page.revision, [refused(entry, records.get((entry.namespace, entry.name))) for entry in found]


async def every(store: Store, kind: Kind, namespace: str = "") -> tuple[int, list[Stored]]:
    """All objects of a kind, and the revision they show."""
    found: list[Stored] = []
    revision = 0
    async for revision, page in listing(store, kind, namespace):  # noqa: B007 - of the last page
        found += page
    return revision, found


async def one(store: Store, kind: Kind, namespace: str, name: str) -> Stored:
    """One object. Raises `NotFound` when there is none."""
    check_kind(store, kind)
    found = await store.get(keys.stored(kind.folder, namespace if kind.namespaced else "", name))
    if found.kv is None:
        raise NotFound(f"there is no {kind.singular} {f'{namespace}/{name}' if kind.namespaced else name}")
    stored = read(kind, found.kv, format_of(store.format))
    if kind is POD and not stored.format.marks_pods:
        stored = refused(stored, await record_of(store, stored))
    if stored.pod is not None and stored.format.marks_pods and await promise_of(store, stored.pod.key) is not None:
        stored = replace(stored, promised=True)
    asks = stored.pod is not None and stored.pod.class_terms is not None
    return resolved(stored, await priority_classes(store)) if asks else stored


def pod_key(text: str, namespace: str) -> PodKey:
    """`NS/NAME`, or `NAME` in the namespace that `-n` says. Raises `UsageError`."""
    parts = text.split("/")
    if not all(parts) or len(parts) > 2:
        raise UsageError(f"{text!r} is no name: NAMESPACE/NAME is meant, or NAME with -n NAMESPACE")
    return PodKey(*parts) if len(parts) == 2 else PodKey(namespace, text)


def check_name(what: str, name: str) -> None:
    """Refuse what no stored object can be called; empty is for none. Raises `UsageError`."""
    if len(name) > NAME_LIMIT:
        raise UsageError(f"{what} {name[:40] + '...'!r} has {len(name)} characters, and {NAME_LIMIT} are the most")
    if "/" in name or not name.isprintable() or " " in name:
        raise UsageError(f"{what} {name!r} is no name: it has a slash, a blank or a control character")


async def record_of(store: Store, found: Stored) -> AttemptRecord | None:
    """The record of the pod's last refused attempt, when it is about this life of the pod."""
    kv = (await store.get(keys.attempt(found.namespace, found.name))).kv
    record = AttemptRecord.from_bytes(kv.value) if kv is not None else None
    return record if record is not None and record.create_revision == found.kv.create_revision else None


async def attempt_records(store: Store) -> dict[tuple[str, str], AttemptRecord]:
    """The records of all pods' last refused attempts, by namespace and name."""
    records = keys.attempt.records(store, AttemptRecord.model_validate_json)
    return {(namespace, name): record async for (namespace, name), record in records}


def record_key(kv: KeyValue) -> tuple[str, str] | None:
    """Namespace and name of the pod that an attempt record is about; None for another key."""
    namespace, _, name = kv.key.removeprefix(keys.ATTEMPTS).partition("/")
    return (namespace, name) if kv.key.startswith(keys.ATTEMPTS) and namespace and name else None
