"""What an agent needs of a member to place objects there, by the etcd of another wharfinger.

One object is one transaction: the object, its mark, and that this agent still writes for the hub. A member of another
kind has to bring the same: objects with versions, marks, and a fence.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import orjson

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Event, Get, KeyValue, Operation, Put, Store, WatchBatch
from wharfinger.objects.documents import documents, kinds, merge
from wharfinger.objects.documents.kinds import check_taken
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import AgentRecord, AppliedRecord, MarkRecord
from wharfinger.placement.model.delivery import ObjectId

OWN = 1000
"""Revisions of an agent's own that are remembered."""


class AgentFenced(Exception):
    """Another agent writes for the hub now."""


@dataclass(frozen=True, slots=True)
class MemberObject:
    """An object on a member, and whose it is."""

    obj: Mapping[str, Any] | None = None
    mark: MarkRecord | None = None
    versions: tuple[int, int] = (0, 0)
    """Of the object and of its mark; 0 = not there."""
    unreadable: str = ""
    """Why the object cannot be parsed; `obj` is empty then."""


@dataclass(frozen=True, slots=True)
class AppliedThere:
    """What of one placement is on the member, and the version of that record."""

    record: AppliedRecord = field(default_factory=AppliedRecord)
    version: int = 0


class EtcdMember:
    """A member, as an agent sees it: another wharfinger, by its etcd. Every method raises the store's errors."""

    def __init__(self, store: Store, *, now: Callable[[], str]) -> None:
        """`now`: RFC 3339, UTC."""
        self._store = store
        self._now = now
        self._fence = 0
        self._own: set[int] = set()
        """Revisions that this agent wrote; old ones are forgotten."""

    async def take_over(self, agent: AgentRecord) -> None:
        """From now on this agent writes; what others still write fails."""
        # Every write compares this key's revision, so what an earlier agent still sends fails from here on.
        self._fence = await self._store.put(placement_keys.PLACED_AGENT, agent.to_bytes())

    async def applied(self, placement: str) -> AppliedThere:
        """What of a placement is there, or may be."""
        kv = (await self._store.get(placement_keys.applied(placement))).kv
        return AppliedThere(_applied(kv), kv.mod_revision) if kv is not None else AppliedThere()

    async def placements(self) -> dict[str, AppliedRecord]:
        """All of which something is there, or may be, with what that is."""
        return {placement: _applied(kv) async for (placement,), kv in placement_keys.applied.rows(self._store)}

    async def record(self, placement: str, before: AppliedThere, record: AppliedRecord | None) -> AppliedThere | None:
        """Write what is going to be there; None = nothing. Answers None when it has moved. Raises `AgentFenced`."""
        key = placement_keys.applied(placement)
        write: Operation = Put(key, record.to_bytes()) if record is not None else Delete(key)
        answered = await self._txn([Compare(key, "mod", before.version)], [write])
        if not answered:
            return None
        return AppliedThere(record, answered) if record is not None else AppliedThere()

    async def get(self, about: ObjectId) -> MemberObject:
        """An object with its mark. An object that cannot be parsed is `unreadable`."""
        key = self.key(about)
        answered = await self._store.txn([], [Get(key), Get(placement_keys.mark(key))])
        found, marked = answered.reads
        versions = (found.mod_revision if found is not None else 0, marked.mod_revision if marked is not None else 0)
        try:
            return MemberObject(_object(found), _mark(marked), versions)
        except InvalidObject as error:
            return MemberObject({}, _mark(marked), versions, f"it cannot be read on the member: {error}")

    async def write(
        self,
        about: ObjectId,
        seen: MemberObject,
        obj: Mapping[str, Any] | None,
        mark: MarkRecord | None,
        by: AppliedThere,
    ) -> bool:
        """Make object and mark these; whether they were as they were seen. None removes. Raises `AgentFenced`."""
        key = self.key(about)
        operations: list[Operation] = [
            Delete(placement_keys.mark(key)) if mark is None else Put(placement_keys.mark(key), mark.to_bytes())
        ]
        if obj is None:
            operations.append(Delete(key))
        elif obj is not seen.obj:  # a new mark alone leaves the object's version: the member's controllers see nothing
            operations.append(Put(key, orjson.dumps(self._stored(about, obj, seen))))
        owner = mark or seen.mark
        compares = [
            # The record that names the object must stand: no record would lead to an object that is put without one.
            Compare(placement_keys.applied(owner.placement if owner is not None else ""), "mod", by.version),
            Compare(key, "mod", seen.versions[0]),
            Compare(placement_keys.mark(key), "mod", seen.versions[1]),
        ]
        return bool(await self._txn(compares, operations))

    def key(self, about: ObjectId) -> str:
        """What `watch` calls the object. Raises `InvalidObject` for one that a member cannot have."""
        check_taken(self._store.format, about.group, about.kind)
        metadata = {"name": about.name, "namespace": about.namespace}
        found = kinds.reference({"apiVersion": about.api_version, "kind": about.kind, "metadata": metadata}, "")
        if about.namespace and not found.kind.namespaced:
            raise InvalidObject(f"a {found.kind.name} has no namespace")
        return keys.stored(found.kind.folder, found.namespace, found.name)

    def watch(self, revision: int) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        """All changes of objects from a revision on."""
        return self._store.watch(keys.ROOT, revision)

    async def revision(self) -> int:
        """The store's, now. Raises `AccessDenied` when the agent may not even read its own record."""
        return (await self._store.get(placement_keys.PLACED_AGENT)).revision

    def others(self, batch: WatchBatch) -> list[Event]:
        """The changes of a batch that this agent did not make itself, as far as its writes are answered."""
        found = [event for event in batch.events if event.kv.mod_revision not in self._own]
        if len(self._own) > OWN:
            self._own = {one for one in self._own if one > batch.revision}
        return found

    def _stored(self, about: ObjectId, obj: Mapping[str, Any], seen: MemberObject) -> Mapping[str, Any]:
        """An object as it is stored: a new one gets its uid and time."""
        if seen.obj is not None:
            return obj
        reference = kinds.reference(obj, about.namespace)
        return merge.created(obj, reference, uid=str(uuid.uuid4()), now=self._now())

    async def _txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """The revision of the commit; 0 when something had moved. Raises `AgentFenced`."""
        fence = Compare(placement_keys.PLACED_AGENT, "mod", self._fence)
        answered = await self._store.txn([fence, *compares], operations, [Get(placement_keys.PLACED_AGENT)])
        if answered.succeeded:
            self._own.add(answered.revision)
            return answered.revision
        if not fence.holds(answered.reads[0]):
            raise AgentFenced("another agent writes to the member")
        return 0


def _object(kv: KeyValue | None) -> Mapping[str, Any] | None:
    if kv is None:
        return None
    found = documents.parse(kv.value)
    if not isinstance(found, Mapping):
        raise InvalidObject(f"{kv.key} on the member is no object")
    return found


def _applied(kv: KeyValue) -> AppliedRecord:
    """What cannot be read names nothing."""
    return AppliedRecord.from_bytes(kv.value) or AppliedRecord()


def _mark(kv: KeyValue | None) -> MarkRecord | None:
    if kv is None:
        return None
    return MarkRecord.from_bytes(kv.value) or MarkRecord(placement="what cannot be read")
