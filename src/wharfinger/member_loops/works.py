"""Follows the works of all members of one process, and reads the contents of snapshots once for all of them."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wharfinger.contracts.delivery_records import SnapshotRecord, WorkRecord
from wharfinger.engine.placements import snapshots
from wharfinger.errors import InvalidObject
from wharfinger.process.following import follow
from wharfinger.registry import keys
from wharfinger.registry.store import Event, KeyValue, Store

KEPT = 16
"""Snapshots whose contents are kept in memory: those that are rolled out now."""

Listener = Callable[[str], None]
"""Told of a placement whose work for the member changed."""


class Works:
    """All works, by member."""

    def __init__(self, store: Store, *, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._works: defaultdict[str, dict[str, tuple[WorkRecord, int]]] = defaultdict(dict)
        self._listeners: dict[str, Listener] = {}
        self._listed_once = False
        self._contents: OrderedDict[str, asyncio.Task[list[dict[str, Any]]]] = OrderedDict()

    async def run(self) -> None:
        """Follow until cancelled. Raises `RevisionWentBack`: what these agents know never was, as the hub has it."""
        await follow(
            self._store,
            keys.WORKS,
            listed=self._listed,
            changed=self._changed,
            survives_restore=False,
            rng=self._rng,
        )

    @property
    def in_sync(self) -> bool:
        """Whether everything was listed."""
        return self._listed_once

    def of(self, member: str) -> Mapping[str, tuple[WorkRecord, int]]:
        """Placement -> the member's work and its mod revision."""
        return self._works[member]

    def listen(self, member: str, listener: Listener | None) -> None:
        """Whom to tell of changes for a member."""
        if listener is None:
            self._listeners.pop(member, None)
        else:
            self._listeners[member] = listener

    async def contents(self, placement: str, number: int) -> Sequence[Mapping[str, Any]]:
        """The objects of a snapshot. Raises the store's errors, and `InvalidObject`."""
        kv = (await self._store.get(keys.snapshot(placement, number))).kv
        if kv is None:
            raise InvalidObject(f"snapshot {number} is not there any more")
        try:
            record = SnapshotRecord.model_validate_json(kv.value)
        except ValueError as error:
            raise InvalidObject(f"snapshot {number} cannot be read") from error
        task = self._contents.get(record.digest)
        if task is None:
            task = asyncio.create_task(snapshots.read(self._store, placement, record))
            self._contents[record.digest] = task
            while len(self._contents) > KEPT:
                self._contents.popitem(last=False)
        self._contents.move_to_end(record.digest)
        try:
            return await asyncio.shield(task)
        except BaseException:
            if task.done() and self._contents.get(record.digest) is task:
                del self._contents[record.digest]
            raise

    def _listed(self, found: Sequence[KeyValue]) -> None:
        now = {kv.key for kv in found}
        for member, works in self._works.items():
            for placement in [one for one in works if keys.work(one, member) not in now]:
                del works[placement]
                self._tell(member, placement)
        for kv in found:
            self._take(kv)
        self._listed_once = True

    def _changed(self, event: Event) -> None:
        if not event.deleted:
            self._take(event.kv)
            return
        placement, _, member = event.kv.key.removeprefix(keys.WORKS).rpartition("/")
        if self._works[member].pop(placement, None) is not None:
            self._tell(member, placement)

    def _take(self, kv: KeyValue) -> None:
        placement, _, member = kv.key.removeprefix(keys.WORKS).rpartition("/")
        known = self._works[member].get(placement)
        if known is not None and known[1] == kv.mod_revision:
            return
        try:
            work = WorkRecord.model_validate_json(kv.value)
        except ValueError:  # stays as it was
            return
        self._works[member][placement] = work, kv.mod_revision
        self._tell(member, placement)

    def _tell(self, member: str, placement: str) -> None:
        listener = self._listeners.get(member)
        if listener is not None:
            listener(placement)
