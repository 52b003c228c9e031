"""Stored pods and nodes with what other keys say about them.

Of pods: attempt records, promises of binds, rooms held for them, gangs that hold them back, and whether their node
exists. Of nodes: what the bound pods use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue, Store
from wharfinger.objects.documents.kinds import NODE, POD, Kind, Reference
from wharfinger.objects.model.node import PODS
from wharfinger.objects.model.pod import NOTHING, Pod, PodKey
from wharfinger.objects.model.pod_records import HeldPlace
from wharfinger.objects.model.priority import PriorityClasses
from wharfinger.process.installation_record import has_copies
from wharfinger.process.records import AttemptRecord, HoldRecord
from wharfinger.process.stored_objects import Stored, StoredObjects, key_of, prefix_of, priority_classes, read, resolved
from wharfinger.scheduling.reading.held_back import HeldGangs, held_of, pod_groups
from wharfinger.scheduling.reading.promised_pods import promise_of, promised_pod, promises_of

log = logging.getLogger(__name__)


async def every_pod(store: Store, namespace: str = "") -> tuple[int, list[Stored]]:
    """All pods, and the revision they show."""
    return await StoredPods(store, namespace=namespace).every()


async def one_pod(store: Store, namespace: str, name: str) -> Stored:
    """One pod. Raises `NotFound` when there is none."""
    return await StoredPods(store, namespace=namespace).one(name)


async def answers(store: Store) -> None:
    """Return once etcd has answered the smallest question: a key that is not there. Raises `StoreError`."""
    await store.get(keys.OURS + "page")


async def attempt_record(store: Store, pod: PodKey) -> AttemptRecord | None:
    """The record of the last refused attempt of a pod of that name; None for one that cannot be read, too."""
    try:
        return await read_record(store, pod)
    except InvalidObject:
        log.debug("record_unread pod=%s", pod)
        return None


async def read_record(store: Store, pod: PodKey) -> AttemptRecord | None:
    """The same; None only where there is none. Raises `StoreError`, `InvalidObject`."""
    kv = (await store.get(keys.attempt(*pod))).kv
    record = AttemptRecord.from_bytes(kv.value) if kv is not None else None
    if kv is not None and record is None:
        raise InvalidObject(f"the attempt record of pod {pod} cannot be read")
    return record


async def record_of(store: Store, found: Stored) -> AttemptRecord | None:
    """The record of the pod's last refused attempt, when it is about this life of the pod."""
    record = await attempt_record(store, PodKey(found.namespace, found.name))
    return record if record is not None and record.create_revision == found.kv.create_revision else None


async def attempt_records(store: Store) -> dict[PodKey, AttemptRecord]:
    """The records of all pods' last refused attempts."""
    records = keys.attempt.records(store, AttemptRecord.model_validate_json)
    return {PodKey(*pod): record async for pod, record in records}


async def held_member(store: Store, pod: Pod) -> str:
    """Why this pod waits for others of its gang; empty when it does not."""
    if not pod.group or not pod.pending:
        return ""
    _, found = await every_pod(store, pod.namespace)
    pods = [entry.pod for entry in found if entry.pod is not None and entry.pod.group == pod.group]
    return (await held_of(store, pods, pod.namespace)).get(pod.key, "")


def _refused(found: Stored, record: AttemptRecord | None) -> Stored:
    """The same with the refusal and the nomination of the record, where pods do not carry these."""
    pod = found.pod
    if pod is None or record is None or pod.bound or record.create_revision != pod.create_revision:
        return found
    condition = ("False", record.reason, record.message)
    return replace(found, pod=replace(pod, condition=condition, nominated_node_name=record.nominated_node))


class StoredPods(StoredObjects):
    """A pod changes, too, when its attempt record does, its promise, or what its gang waits for.

    Priority classes and PodGroups that are followed are those of the list.
    """

    def __init__(self, store: Store, kind: Kind = POD, namespace: str = "") -> None:
        super().__init__(store, kind, namespace)
        self._classes = PriorityClasses()
        self._records: dict[PodKey, AttemptRecord] = {}
        """Empty where pods carry refusals themselves."""
        self._promises: set[PodKey] = set()
        """Pods whose bind the Kubernetes API has not shown yet."""
        self._gangs = HeldGangs({})

    async def every(self) -> tuple[int, list[Stored]]:
        """All pods, as their classes, records and promises say, and the revision they show."""
        self._classes = await priority_classes(self._store)
        if self.format.marks_pods:
            self._promises = set(await promises_of(self._store, self.namespace))
        else:
            self._records = await attempt_records(self._store)
        return await super().every()

    async def one(self, name: str) -> Stored:
        """One pod, as its class, record and promise say. Raises `NotFound` when there is none."""
        stored = await super().one(name)
        if not stored.format.marks_pods:
            stored = _refused(stored, await record_of(self._store, stored))
        elif stored.pod is not None and await promise_of(self._store, stored.pod.key) is not None:
            stored = replace(stored, promised=True)
        asks = stored.pod is not None and stored.pod.class_terms is not None
        return resolved(stored, await priority_classes(self._store)) if asks else stored

    async def completed(self, found: list[Stored]) -> list[Stored]:
        """All pods that were found, or one read by its name, with why gangs hold them back."""
        pods = [entry.pod for entry in found if entry.pod is not None]
        if len(pods) == 1:  # the others of its gang may not have been read
            held = {pod.key: await held_member(self._store, pod) for pod in pods}
        else:
            held = await held_of(self._store, pods, self.namespace)
        return [replace(one, held=held.get(one.pod.key, "")) if one.pod is not None else one for one in found]

    async def follow(self, name: str = "") -> tuple[str, int]:
        """List pods, and read what their rows depend on: after the list, so that nothing is missed in between."""
        self._name = name
        revision, found = await self.every()
        self._classes = await priority_classes(self._store)
        self._gangs = HeldGangs(await pod_groups(self._store, self.namespace))
        self._promises = set(await promises_of(self._store))
        beside = await has_copies(self._store) or not self.format.marks_pods
        if not self.format.marks_pods:
            self._records = await attempt_records(self._store)
        for entry in found:
            self._gangs.set_pod(entry.kv.key, entry.pod)
        self._set(map(self._held, found))
        return keys.ROOT if beside else self._prefix, revision

    def _decoded(self, kv: KeyValue) -> Stored:
        found = resolved(read(POD, kv, self.format), self._classes)
        if found.pod is not None and found.pod.key in self._promises:
            found = replace(found, promised=True)
        return _refused(found, self._records.get(PodKey(found.namespace, found.name)))

    def _held(self, entry: Stored) -> Stored:
        """The same with why its gang holds it back; empty when none does."""
        held = self._gangs.held(entry.kv.key, entry.pod)
        return entry if held == entry.held else replace(entry, held=held)

    def _taken(self, event: Event) -> Stored:
        entry = self._decoded(event.kv)
        self._gangs.set_pod(event.kv.key, None if event.deleted else entry.pod)
        return self._held(entry)

    def _first(self, events: Sequence[Event]) -> Iterator[Stored]:
        for event in events:
            pod = None if self.format.marks_pods else keys.attempt.parse(event.kv.key)
            if pod is not None:
                yield from self._record_changed(event, PodKey(*pod))
        for event in events:
            if (promised := promised_pod(event.kv.key)) is not None:
                (self._promises.discard if event.deleted else self._promises.add)(promised)
                yield from self._again(promised)

    def _record_changed(self, event: Event, pod: PodKey) -> Iterator[Stored]:
        """A record that ends changes no row: its pod is about to be bound, or is gone."""
        record = None if event.deleted else AttemptRecord.from_bytes(event.kv.value)
        if record is None:
            self._records.pop(pod, None)
            return
        self._records[pod] = record
        yield from self._again(pod)

    def _again(self, pod: PodKey) -> Iterator[Stored]:
        """The pod, if what is known of it makes another row now."""
        key = key_of(Reference(POD, *pod))
        before = self.known.get(key)
        if before is None:
            return
        now = self._held(self._decoded(before.kv))
        if (now.pod, now.promised) != (before.pod, before.promised):
            self.known[key] = now
            yield now

    def _last(self) -> Iterator[Stored]:
        """Pods that a gang holds back since these changes, or no longer."""
        for key, before in self.known.items() if self._gangs.take_changes() else ():
            if (now := self._held(before)) is not before:
                self.known[key] = now
                yield now


@dataclass(slots=True)
class Usage:
    """What the bound pods use of each node."""

    booked: dict[str, dict[str, int]] = field(default_factory=dict)
    """Node -> resource (and `pods`) -> amount."""
    _counted: dict[PodKey, Pod] = field(default_factory=dict)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Usage:
        """The usage by these pods."""
        usage = cls()
        for pod in pods:
            usage.set_pod(pod.key, pod)
        return usage

    def set_pod(self, key: PodKey, pod: Pod | None) -> tuple[str, ...]:
        """Take a pod's new state (None = gone); answers the nodes whose usage changed."""
        old = self._counted.pop(key, None)
        if old is not None:
            self._add(old, -1)
        if pod is not None and pod.bound and not pod.finished:
            self._counted[key] = pod
            self._add(pod, 1)
        now = self._counted.get(key)
        if old is not None and now is not None and (old.node_name, old.requests) == (now.node_name, now.requests):
            return ()
        return tuple(dict.fromkeys(found.node_name for found in (old, now) if found is not None))

    def on(self, node_name: str) -> Mapping[str, int]:
        """What is used on a node."""
        return self.booked.get(node_name, NOTHING)

    def _add(self, pod: Pod, sign: int) -> None:
        node = self.booked.setdefault(pod.node_name, {})
        node[PODS] = node.get(PODS, 0) + sign
        for name, amount in pod.requests.items():
            node[name] = node.get(name, 0) + sign * amount


class StoredNodes(StoredObjects):
    """A node changes, too, when what its pods use does."""

    _usage = Usage()

    async def completed(self, found: list[Stored]) -> list[Stored]:
        """The same with what is used of each."""
        _, pods = await every_pod(self._store)
        self._usage = Usage.of(stored.pod for stored in pods if stored.pod is not None)
        return [self._with_usage(entry) for entry in found]

    async def follow(self, name: str = "") -> tuple[str, int]:
        """Nodes and pods are watched in one stream, in order."""
        _, revision = await super().follow(name)
        self._set(await self.completed(list(self.known.values())))
        return keys.ROOT, revision

    def _with_usage(self, entry: Stored) -> Stored:
        return replace(entry, used=dict(self._usage.on(entry.name)))

    def _taken(self, event: Event) -> Stored:
        return self._with_usage(super()._taken(event))

    def _beside(self, event: Event) -> Iterator[Stored]:
        if not event.kv.key.startswith(prefix_of(POD)):
            return
        pod = read(POD, event.kv, self.format)
        for node in self._usage.set_pod(PodKey(pod.namespace, pod.name), None if event.deleted else pod.pod):
            key = key_of(Reference(NODE, "", node))
            if (entry := self.known.get(key)) is not None:
                self.known[key] = self._with_usage(entry)
                yield self.known[key]


async def lost_pods(store: Store, namespace: str = "") -> dict[str, list[Pod]]:
    """The lost pods by node.

    The nodes are listed after the pods: a node that appears in between is counted as existing.
    """
    _, found = await every_pod(store, namespace)
    nodes: dict[str, list[Pod]] = {}
    for entry in found:
        if entry.pod is not None and entry.pod.bound and not entry.pod.finished:
            nodes.setdefault(entry.pod.node_name, []).append(entry.pod)
    if nodes:
        async for (name,), _ in keys.node.rows(store):
            nodes.pop(name, None)
    return nodes


async def is_lost(store: Store, pod: Pod) -> bool:
    """Whether the pod is bound to a node that does not exist."""
    return pod.bound and not pod.finished and (await store.get(keys.node(pod.node_name))).kv is None


async def held_rooms(store: Store, namespace: str = "") -> dict[PodKey, HeldPlace]:
    """All records of held rooms, of one namespace or of all; some may be of earlier pods. Raises `StoreError`."""
    rows = keys.hold.rows(store, namespace)
    return {PodKey(*pod): place async for pod, kv in rows if (place := _place(kv)) is not None}


async def held_room(store: Store, pod: Pod) -> HeldPlace | None:
    """The room that is held for this very pod; None for none. Raises `StoreError`."""
    kv = (await store.get(keys.hold(*pod.key))).kv if pod.pending else None
    place = _place(kv) if kv is not None else None
    return place if place is not None and place.is_for(pod) else None


def _place(kv: KeyValue) -> HeldPlace | None:
    record = HoldRecord.from_bytes(kv.value)
    return record.place(kv.mod_revision) if record is not None else None
