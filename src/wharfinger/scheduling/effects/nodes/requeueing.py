"""Requeueing one pod of a node that does not exist.

::

    controller, static copy, terminating   one transaction: delete the pod
    bare pod                               delete the pod, put `requeued/<node>/<pod>` with the new manifest
                                           ──► put the pod, delete `requeued/...`

A put over the old key would keep its create revision, which identifies one life of a pod, so a new pod needs a delete
before. etcd takes no two operations on one key in a transaction, hence the record in between: it survives a crash and
keeps the manifest, with all that it may contain, out of Temporal. The first transaction compares the pod's mod
revision, which fixes its uid and its node, and the absence of the node. The second one compares the absence of the
pod.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum

from wharfinger.errors import InvalidObject, RequestTooLarge
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Operation, Put, Store
from wharfinger.objects.documents.formats import ObjectFormat, decode_made_anew, format_of
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.model.pod import Pod, PodIdentity

TRIES = 4
"""Transactions for one pod that others change at the same time; the next look finds what is left."""


class Requeued(StrEnum):
    """What became of a pod."""

    DELETED = "deleted"
    """It is not made anew: its controller makes another one, or it was about to end."""
    MADE_ANEW = "made_anew"
    NOT_LOST = "is not lost any more"
    CHANGING = "was changed by others again and again"
    UNREADABLE = "cannot be read"
    TOO_LARGE = "is too large to be made anew"
    NODE_RETURNED = "its node is there again"


class Requeueing:
    """Requeues lost pods."""

    def __init__(self, store: Store, *, new_uid: Callable[[], str], utc_now: Callable[[], datetime]) -> None:
        self._store = store
        self._format = format_of(store.format)
        self._new_uid = new_uid
        self._utc_now = utc_now

    async def requeue(self, identity: PodIdentity, node: str) -> Requeued:
        """Requeue the pod if it still is bound to that absent node. Safe to run again. Raises `StoreError`."""
        key = keys.pod(identity.namespace, identity.name)
        record = keys.requeued(node, identity.namespace, identity.name)
        for _ in range(TRIES):
            kv = (await self._store.get(key)).kv
            if kv is None or kv.create_revision != identity.create_revision:
                return Requeued.NOT_LOST
            pod = decoded(kv, identity, self._format)
            if pod is None:
                return Requeued.UNREADABLE
            if pod.node_name != node or pod.finished:
                return Requeued.NOT_LOST
            manifest = self._format.made_anew(kv.value, uid=self._new_uid(), now=rfc3339(self._utc_now()))
            compares = [Compare(key, "mod", kv.mod_revision), Compare(keys.node(node), "create", 0)]
            operations: list[Operation] = [Delete(key)]
            if manifest is not None:
                compares.append(Compare(record, "create", 0))
                operations.append(Put(record, manifest))
            try:
                answer = await self._store.txn(compares, operations, [Get(keys.node(node)), Get(record)])
            except RequestTooLarge:
                return Requeued.TOO_LARGE
            if answer.succeeded:
                if manifest is None:
                    return Requeued.DELETED
                await self.put_anew(KeyValue(record, manifest, answer.revision, answer.revision))
                return Requeued.MADE_ANEW
            returned, left_over = answer.reads
            if returned is not None:
                return Requeued.NODE_RETURNED
            if left_over is not None and self._holds_a_pod(left_over):
                await self.put_anew(left_over)
        return Requeued.CHANGING

    async def finish(self, node: str) -> int:
        """Put the pods that were deleted and not yet made anew, whether the node is absent or not; how many there were.

        Raises `StoreError`.
        """
        records = await self.half_done(node)
        for record in records:
            await self.put_anew(record)
        return len(records)

    async def half_done(self, node: str) -> list[KeyValue]:
        """The records of pods that were deleted and not yet made anew; one that holds no such pod is left where it is.

        Informers report it as invalid. Raises `StoreError`.
        """
        return [kv async for kv in self._store.each(keys.requeued.below(node)) if self._holds_a_pod(kv)]

    async def put_anew(self, record: KeyValue) -> None:
        """Put the pod of the record, unless a client has put one of that name meanwhile; the record goes either way."""
        namespace, name = record.key.split("/")[-2:]
        key = keys.pod(namespace, name)
        unmoved = Compare(record.key, "mod", record.mod_revision)
        absent = Compare(key, "create", 0)
        answer = await self._store.txn([unmoved, absent], [Put(key, record.value), Delete(record.key)], [Get(key)])
        if not answer.succeeded and answer.reads[0] is not None:
            await self._store.txn([unmoved], [Delete(record.key)])

    def _holds_a_pod(self, record: KeyValue) -> bool:
        namespace, _, name = record.key.removeprefix(keys.REQUEUED).partition("/")[2].partition("/")
        try:
            decode_made_anew(self._format, record.value, namespace=namespace, name=name)
        except InvalidObject:
            return False
        return True


def decoded(kv: KeyValue, identity: PodIdentity, format_: ObjectFormat) -> Pod | None:
    """The stored pod; None when it cannot be read."""
    try:
        return format_.decode_pod(
            kv.value,
            namespace=identity.namespace,
            name=identity.name,
            create_revision=kv.create_revision,
            mod_revision=kv.mod_revision,
        )
    except InvalidObject:
        return None
