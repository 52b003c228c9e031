"""Follows the works of all members of one process, and reads the contents of snapshots once for all of them."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import Event, KeyValue, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import SnapshotRecord, WorkRecord
from wharfinger.placement.effects import snapshots
from wharfinger.process.following import follow

KEPT_BYTES = 32 * 1024 * 1024
"""Of the contents that are kept in memory, as JSON: agents look at every work again and again."""
NAMED = 10_000
"""Snapshots whose digests are kept, and sets of keys that members share."""

ASKING = 32
"""Results that all agents of a process look up at the same time: a thousand agents begin together."""

Listener = Callable[[str], None]
"""Told of a placement whose work for the member changed."""
Listed = Callable[[], None]
"""Told once that all works were listed."""


@dataclass(slots=True)
class _Contents:
    """Of one snapshot."""

    reading: asyncio.Task[list[dict[str, Any]]]
    weight: int = 0
    """Bytes; 0 = not read yet."""


class Works:
    """All works, by member."""

    def __init__(self, store: Store, *, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._works: defaultdict[str, dict[str, tuple[WorkRecord, int]]] = defaultdict(dict)
        self._listeners: dict[str, tuple[Listener, Listed | None]] = {}
        self._listed_once = False
        self._contents: OrderedDict[str, _Contents] = OrderedDict()
        """By digest, the one that was used last at the end."""
        self._weight = 0
        self.asking = asyncio.Semaphore(ASKING)
        """For what agents ask the hub's etcd of their works."""
        self._shared: dict[frozenset[str], frozenset[str]] = {}
        self._snapshots: dict[tuple[str, int, int], SnapshotRecord] = {}
        """By placement, its identity, and number: a snapshot never changes in the life of its placement."""

    async def run(self) -> None:
        """Follow until cancelled. Raises `RevisionWentBack`: what these agents know never was, as the hub has it."""
        await follow(
            self._store,
            placement_keys.work.prefix,
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

    def listen(self, member: str, listener: Listener | None, listed: Listed | None = None) -> None:
        """Whom to tell of changes for a member, and when all works were listed."""
        if listener is None:
            self._listeners.pop(member, None)
        else:
            self._listeners[member] = listener, listed

    def shared(self, keys_of: frozenset[str]) -> frozenset[str]:
        """The same set, once for all members: most have the same objects of a placement."""
        if len(self._shared) >= NAMED:
            self._shared.clear()
        return self._shared.setdefault(keys_of, keys_of)

    async def contents(self, placement: str, number: int, identity: int = 0) -> Sequence[Mapping[str, Any]]:
        """The objects of a snapshot. `identity`: the placement's, by the work; 0 = not known.

        Raises the store's errors, and `InvalidObject`.
        """
        record = self._snapshots.get((placement, identity, number)) if identity else None
        if record is None:
            record = await self._snapshot(placement, number)
            if len(self._snapshots) >= NAMED:
                self._snapshots.clear()
            self._snapshots[placement, identity, number] = record
        found = self._contents.get(record.digest)
        if found is None:
            found = _Contents(asyncio.create_task(snapshots.read(self._store, placement, record)))
            self._contents[record.digest] = found
        self._contents.move_to_end(record.digest)
        try:
            contents = await asyncio.shield(found.reading)
        except BaseException:  # a reading that failed must not be kept; one that goes on is another's, too
            if found.reading.done() and self._contents.get(record.digest) is found:
                self._weight -= self._contents.pop(record.digest).weight
            raise
        if not found.weight and self._contents.get(record.digest) is found:
            self._weigh(found, contents)
        return contents

    async def _snapshot(self, placement: str, number: int) -> SnapshotRecord:
        kv = (await self._store.get(placement_keys.snapshot(placement, number))).kv
        if kv is None:
            raise InvalidObject(f"snapshot {number} is not there any more")
        try:
            return SnapshotRecord.model_validate_json(kv.value)
        except ValueError as error:
            raise InvalidObject(f"snapshot {number} cannot be read") from error

    def _weigh(self, found: _Contents, contents: Sequence[Mapping[str, Any]]) -> None:
        """Count what was read, and forget what was used longest ago where it is too much."""
        found.weight = 1
        with suppress(orjson.JSONEncodeError):
            found.weight = len(orjson.dumps(contents))
        self._weight += found.weight
        while self._weight > KEPT_BYTES and len(self._contents) > 1:
            _, oldest = self._contents.popitem(last=False)
            self._weight -= oldest.weight

    def _listed(self, found: Sequence[KeyValue]) -> None:
        self._snapshots.clear()
        now = {kv.key for kv in found}
        for member, works in self._works.items():
            for placement in [one for one in works if placement_keys.work(one, member) not in now]:
                del works[placement]
                self._tell(member, placement)
        for kv in found:
            self._take(kv)
        if not self._listed_once:
            self._listed_once = True
            for _, tell in list(self._listeners.values()):
                if tell is not None:
                    tell()

    def _changed(self, event: Event) -> None:
        if not event.deleted:
            self._take(event.kv)
            return
        placement, _, member = event.kv.key.removeprefix(placement_keys.work.prefix).rpartition("/")
        if self._works[member].pop(placement, None) is not None:
            self._tell(member, placement)

    def _take(self, kv: KeyValue) -> None:
        placement, _, member = kv.key.removeprefix(placement_keys.work.prefix).rpartition("/")
        known = self._works[member].get(placement)
        if known is not None and known[1] == kv.mod_revision:
            return
        work = WorkRecord.from_bytes(kv.value)
        if work is None:  # stays as it was
            return
        self._works[member][placement] = work, kv.mod_revision
        self._tell(member, placement)

    def _tell(self, member: str, placement: str) -> None:
        known = self._listeners.get(member)
        if known is not None:
            known[0](placement)
