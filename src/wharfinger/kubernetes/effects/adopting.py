"""Taking one state of an object in, whoever read it: the importer, or a sender of promises that asked the API.

Only the importer creates and deletes copies (`states`): it alone sees what came in between. Everyone may replace an
older state by a newer one. A transaction that fails has read what is there now, and the state is looked at once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from wharfinger.apiserver.client import revision_of, uid_of
from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Get, Operation, Store
from wharfinger.kubernetes.effects.reading_together import ReadingTogether
from wharfinger.kubernetes.effects.states import ObjectState, take
from wharfinger.objects.documents.times import rfc3339
from wharfinger.scheduling.effects.binding.known_objects import KnownObject, StateEffect, known_object

TRIES = 20
"""Transactions before the caller is told to come again: nothing but constant change of one pod needs so many."""


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
        self._store = store
        self._utc_now = utc_now
        self._whole = whole
        self._anew = anew
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
            step = take(
                state, known, imports=bool(epoch), now=self._now, whole=self._whole, anew=self._anew, later=later
            )
            if not step.writes:
                return known._replace(effect=effect)
            reads = self._reads(state)
            answer = await self._store.txn(
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

    async def read(self, state: ObjectState) -> KnownObject:
        """What etcd has of an object. Raises `StoreError`."""
        if not state.promise_key:
            return KnownObject((await self._reading.read(state.key))[0])
        copy, promise = await self._reading.read(state.key, state.promise_key)
        return known_object(copy, promise)

    def _reads(self, state: ObjectState) -> list[Operation]:
        """The copy, and the promise where there may be one."""
        return [Get(state.key), *([Get(state.promise_key)] if state.promise_key else [])]

    def _now(self) -> str:
        return rfc3339(self._utc_now())
