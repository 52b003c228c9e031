"""What etcd has of an object of the API: reading it, taking a newer state in, and marking the promise of a pod.

States come from the importer, and from senders of promises that asked the API. Only the importer creates and deletes
copies (`states`): it alone sees what came in between. Every worker may replace an older state by a newer one. A
transaction that fails has read what is there now, and the state is looked at once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from wharfinger.apiserver.client import revision_of, uid_of
from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Get, KeyValue, Operation, Put, Store
from wharfinger.kubernetes.effects.states import PODS, ObjectState, StateStep, take
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.contracts.promise_records import KnownObject, StateEffect, known_object
from wharfinger.scheduling.model.promises import Promise

READ_TOGETHER = 64
"""Keys in one transaction."""
TRIES = 20
"""Transactions before the caller is told to come again: nothing but constant change of one pod needs so many."""
REWRITES = 10
"""Transactions before the caller has to come again: an edit of the pod may have it promised again at that moment."""


class _Asked(NamedTuple):
    keys: tuple[str, ...]
    answer: asyncio.Future[tuple[KeyValue | None, ...]]


class ReadingTogether:
    """Reads of copies and promises that are asked for at the same time, in few transactions.

    A cohort whose bind is tried again asks for two hundred promises at once. One transaction each would cost etcd and
    the worker more than the binds. Reads are linearizable, and none is older than its call.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: list[_Asked] = []
        self._reading: set[asyncio.Task[None]] = set()

    async def read(self, *keys: str) -> tuple[KeyValue | None, ...]:
        """What etcd has under these keys, at most `MOST` of them, at one revision. Raises `StoreError`."""
        answer: asyncio.Future[tuple[KeyValue | None, ...]] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(keys, answer))
        if len(self._asked) == 1:
            asyncio.get_running_loop().call_soon(self._begin)
        return await answer

    def _begin(self) -> None:
        """Everything that was asked for until the loop came round."""
        asked, self._asked = self._asked, []
        begin = size = 0
        for number, one in enumerate(asked):
            if number > begin and size + len(one.keys) > READ_TOGETHER:
                self._send(asked[begin:number])
                begin, size = number, 0
            size += len(one.keys)
        self._send(asked[begin:])

    def _send(self, asked: Sequence[_Asked]) -> None:
        task = asyncio.get_running_loop().create_task(self._read(asked))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(self, asked: Sequence[_Asked]) -> None:
        waiting = [one for one in asked if not one.answer.done()]
        if not waiting:
            return
        try:
            reads = (await self._store.txn([], [Get(key) for one in waiting for key in one.keys])).reads
        except BaseException as error:  # those that wait must be answered, whatever it is
            for one in waiting:
                if not one.answer.done():
                    one.answer.set_exception(error) if isinstance(error, Exception) else one.answer.cancel()
            if not isinstance(error, Exception):
                raise
            return
        at = 0
        for one in waiting:
            if not one.answer.done():
                one.answer.set_result(tuple(reads[at : at + len(one.keys)]))
            at += len(one.keys)


class NotTheImporter(Exception):
    """Another worker is the importer by now: what this one saw may be old."""


def present(plural: str, obj: Mapping[str, Any], group: str = "") -> ObjectState:
    """The state that an object as the API printed it is. `group`: as in `ObjectState`."""
    metadata = obj["metadata"]
    namespace, name = str(metadata.get("namespace") or ""), str(metadata["name"])
    return ObjectState(plural, namespace, name, revision_of(obj), uid_of(obj), obj, group)


class Adopter:
    """Takes states in."""

    def __init__(
        self, store: Store, *, utc_now: Callable[[], datetime], whole: bool = False, anew: bool = False
    ) -> None:
        """`whole`: copies keep all fields of pods and nodes, because extenders are asked; `anew`: a state that is
        copied already counts as a newer one.
        """
        self.store = store
        self.whole = whole
        self.anew = anew
        self.utc_now = utc_now
        self._reading = ReadingTogether(store)

    async def adopt(
        self, state: ObjectState, known: KnownObject | None = None, *, epoch: int = 0, later: bool = False
    ) -> KnownObject:
        """Take a state in; what etcd has afterwards. `known`: what it has now, where that is known; `epoch`: the
        importer's, 0 = anyone; `later`: the API was read after `known`, so a copy that names a newer state is wrong.

        Raises `StoreError`, and `NotTheImporter`.
        """
        fence = [Compare(keys.IMPORTER, "mod", epoch)] if epoch else []
        known = known or await self.read(state)
        effect = StateEffect.NOTHING
        for _ in range(TRIES):
            step = self.step(state, known, imports=bool(epoch), later=later)
            if not step.writes:
                return known._replace(effect=effect)
            reads: list[Operation] = [Get(key) for key in (state.key, state.promise_key) if key]
            answer = await self.store.txn(
                [*step.compares, *fence], [*step.writes, *reads], [*reads, *(Get(one.key) for one in fence)]
            )
            known = known_object(answer.reads[0], answer.reads[1] if state.promise_key else None)
            if answer.succeeded:
                effect = step.effect
                if not step.again:
                    return known._replace(effect=effect)
            elif fence and not fence[0].holds(answer.reads[-1]):
                raise NotTheImporter
            else:
                later = False  # what is there now may be newer than what was read
        raise Unavailable(f"{state.key} changed during {TRIES} transactions")

    def step(self, state: ObjectState, known: KnownObject, *, imports: bool, later: bool = False) -> StateStep:
        """What a state does to what is known (`take`)."""
        return take(state, known, imports=imports, now=self._now, whole=self.whole, anew=self.anew, later=later)

    async def read(self, state: ObjectState) -> KnownObject:
        """What etcd has of an object. Raises `StoreError`."""
        if not state.promise_key:
            return KnownObject((await self._reading.read(state.key))[0])
        copy, promise = await self._reading.read(state.key, state.promise_key)
        return known_object(copy, promise)

    async def read_pod(self, pod: PodKey) -> KnownObject:
        """What etcd has of a pod and its promise. Raises `StoreError`."""
        return await self.read(ObjectState(PODS, pod.namespace, pod.name, 0))

    def _now(self) -> str:
        return rfc3339(self.utc_now())


class RewrittenPromise(NamedTuple):
    """A promise after a change of it."""

    promise: Promise | None
    """As it is now; None when there is none, or none that is proven."""
    written: bool = False


async def rewrite(store: Store, pod: PodKey, change: Callable[[Promise], Promise | None]) -> RewrittenPromise:
    """Change the promise of a pod; `change` answers None where it is to stay as it is. Raises `StoreError`."""
    copy_key, key = keys.pod(*pod), keys.promise(*pod)
    reads = [Get(copy_key), Get(key)]
    copy, kv = (await store.txn([], reads)).reads
    for _ in range(REWRITES):
        promise = known_object(copy, kv).promise
        changed = change(promise) if promise is not None else None
        if copy is None or kv is None or changed is None:
            return RewrittenPromise(promise)
        answer = await store.txn(
            [Compare(copy_key, "mod", copy.mod_revision), Compare(key, "mod", kv.mod_revision)],
            [Put(copy_key, copy.value), Put(key, promise_records.stored(changed))],
            reads,
        )
        if answer.succeeded:
            return RewrittenPromise(promise_records.at(changed, answer.revision), written=True)
        copy, kv = answer.reads
    raise Unavailable(f"{key} changed during {REWRITES} transactions")
