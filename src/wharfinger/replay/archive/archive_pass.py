"""Writes one pass of an archive: runs, then what changed of the cluster's state, then a checkpoint.

`archiving` opens the file and knows what is in it; `archive_format` has its form.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import AsyncIterable, Collection, Iterable
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from wharfinger.errors import Compacted, RevisionFuture
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.replay.archive.archive_format import (
    CHECKPOINT,
    EVENTS,
    RUNS,
    STATE,
    packed,
    plain_event,
    plain_key,
    plain_text,
)
from wharfinger.replay.facts import KeptStates, oldest_kept
from wharfinger.replay.histories import RunName, UnreadRun
from wharfinger.replay.memory_limit import MemoryLimit
from wharfinger.replay.recorded import DecidedRun

log = logging.getLogger(__name__)

MOST_WAITING = 50_000
"""Runs that are waited for, at most; what is beyond that is lost, and counted."""

_NEEDED = frozenset(
    {
        keys.PODS,
        keys.NODES,
        keys.ATTEMPTS,
        keys.BOUND_BY,
        keys.INSTANCES,
        keys.TENANTS,
        keys.PROMISES,
        keys.HOLDS,
        keys.PROFILES,
        keys.SOFTWARE,
        *keys.SURROUNDINGS,
        keys.NAMESPACES,
        keys.DISRUPTION_BUDGETS,
        keys.POD_GROUPS,
        keys.PRIORITY_CLASSES,
        *keys.STORAGE,
    }
)


class Gap(NamedTuple):
    """Revisions between which an archive lacks events."""

    after: int
    before: int
    restored: bool = False
    """Whether etcd was restored from a backup in between: `before` counts in another history, and may be lower."""


class Anchor(NamedTuple):
    """By which etcd is known again: in another history the key was not written at that revision, or otherwise."""

    key: str
    at: int
    """The revision at which it is read."""
    mod_revision: int
    checksum: int
    """CRC-32 of its value."""

    @classmethod
    def of(cls, kv: KeyValue, at: int) -> Anchor:
        """The key as it is at that revision."""
        return cls(kv.key, at, kv.mod_revision, zlib.crc32(kv.value))


@dataclass(frozen=True, slots=True)
class Reached:
    """Up to where an archive is complete."""

    revision: int = 0
    """Of etcd; 0 = nothing is there."""
    until: float = 0.0
    """Runs that began before, seconds since 1970."""
    undecided: tuple[RunName, ...] = ()
    """Of those, the ones that had not decided; a later pass reads them again."""
    lost: int = 0
    """Runs that Temporal had no more when they were to be read, that this release does not understand, or that were too
    many to wait for."""
    anchor: Anchor | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """What one pass wrote."""

    reached: Reached
    runs: int
    decisions: int
    gap: Gap | None = None
    """What is missing before what it wrote; None = nothing is."""
    lost: int = 0
    """Runs that this pass could not read any more."""


def needed(key: str) -> bool:
    """Whether decisions, or their replay, read what has this key."""
    if key == keys.INSTALLATION:
        return True
    parsed = keys.parse(key)
    return parsed is not None and parsed.prefix in _NEEDED


class ArchivePass:
    """One that is being written."""

    def __init__(
        self, out: BlockWriter, store: KeptStates, before: Reached, recent: Collection[str], memory: MemoryLimit
    ) -> None:
        self.segments = 0
        self.written: dict[str, float] = {}
        self.unread: set[RunName] = set()
        """Runs that this release does not understand."""
        self._first = 0
        """The oldest revision on which any of the runs decided; 0 = none did. A new segment begins there."""
        self._out = out
        self._store = store
        self._before = before
        self._recent = recent
        self._memory = memory
        self._anchor = before.anchor

    async def write(
        self, runs: AsyncIterable[DecidedRun | UnreadRun], until: float, unread: Collection[RunName]
    ) -> Passed:
        """All of it. `unread`: runs that the pass before did not understand, and counted."""
        decisions = lost = 0
        undecided: list[RunName] = []
        async for run in runs:
            if isinstance(run, UnreadRun):
                if run.lack == "undecided":
                    undecided.append(run.name)
                elif run.lack == "gone":
                    lost += 1
                else:
                    self.unread.add(run.name)
                    if run.name not in unread:
                        lost += 1
                        log.warning("archive_run_unreadable workflow=%s run=%s error=%r", *run.name, run.why)
                continue
            revisions = [computation.revision for computation in run.computations()]
            self._first = min([self._first, *revisions] if self._first else revisions, default=self._first)
            if run.run_id in self.written or run.run_id in self._recent:
                continue
            self._out.add(RUNS, "runs", run.model_dump(mode="json"))
            self.written[run.run_id] = run.started
            decisions += run.decisions
            self._memory.check(lambda: "while histories are archived")
        self._out.flush()
        newest = (await self._store.get(keys.INSTALLATION)).revision
        gap = await self._changes(newest)
        waiting, before = tuple(undecided[:MOST_WAITING]), self._before
        lost += len(undecided) - len(waiting)
        if lost:
            log.warning("archive_runs_lost runs=%d effect=counted", lost)
        reached = Reached(newest, until, waiting, before.lost + lost, self._anchor)
        known, still = set(before.undecided), set(waiting)
        anchor = self._anchor
        self._out.write(
            CHECKPOINT,
            {
                "revision": newest,
                "until": until,
                "waiting": [name for name in waiting if name not in known],
                "done": [name.run_id for name in before.undecided if name not in still],
                "lost": reached.lost,
                "last": [plain_text(anchor.key), *anchor[1:]] if anchor is not None else None,
            },
        )
        return Passed(reached, len(self.written), decisions, gap, lost)

    async def _changes(self, newest: int) -> Gap | None:
        begin = self._before.revision
        if not begin:
            await self._segment(await oldest_kept(self._store, min(self._first or newest, newest)), newest)
            return None
        if await self._restored(newest):
            kept = await oldest_kept(self._store, min(self._first or newest, newest))
            log.warning("archive_gap effect=new_segment reason=etcd_restored after=%d before=%d", begin, kept)
            await self._segment(kept, newest, restored=True)
            return Gap(begin, kept, restored=True)
        try:
            await self._events(begin, newest)
        except Compacted:
            kept = await oldest_kept(self._store, begin)
            log.warning("archive_gap effect=new_segment after=%d before=%d", begin, kept)
            await self._segment(kept, newest)
            return Gap(begin, kept)
        return None

    async def _restored(self, newest: int) -> bool:
        """Whether etcd's history is another one than that which the file has."""
        if newest < self._before.revision:
            return True
        anchor = self._before.anchor
        if anchor is None:
            return False
        try:
            kv = (await self._store.get(anchor.key, revision=anchor.at)).kv
        except Compacted:
            return False
        except RevisionFuture:
            return True
        return kv is None or Anchor.of(kv, anchor.at) != anchor

    async def _segment(self, revision: int, newest: int, *, restored: bool = False) -> None:
        found: list[Any] = []
        size, first = 0, True
        self._anchor = None

        def write() -> None:
            self._out.write(STATE, {"revision": revision, "first": first, "restored": restored, "keys": found})

        async for page in self._store.list(keys.ROOT, revision=revision):
            for kv in filter(lambda one: needed(one.key), page.items):
                entry = plain_key(kv)
                more = _size(entry)
                if found and size + more > self._out.most:
                    write()
                    found, size, first = [], 0, False
                found.append(entry)
                size += more
                if self._anchor is None or kv.mod_revision > self._anchor.mod_revision:
                    self._anchor = Anchor.of(kv, revision)
            self._memory.check(lambda: "while the cluster's state is archived")
        write()
        self.segments += 1
        await self._events(revision, newest)

    async def _events(self, after: int, newest: int) -> None:
        if after >= newest:
            return
        last: KeyValue | None = None
        async with self._store.watch(keys.ROOT, after + 1) as batches:
            async for batch in batches:
                if batch.revision <= newest:
                    kept = [event for event in batch.events if needed(event.kv.key)]
                    if kept:
                        self._out.add(EVENTS, "batches", [batch.revision, list(map(plain_event, kept))])
                        self._memory.check(lambda: "while changes are archived")
                    last = next((event.kv for event in kept if not event.deleted), last)
                if batch.revision >= newest:
                    break
        self._out.flush()
        if last is not None:
            self._anchor = Anchor.of(last, last.mod_revision)


class BlockWriter:
    """Collects entries of one kind, and writes a block of them when they are enough."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self.most = most
        """Bytes of a block, about; one entry may be more."""
        self._file = file
        self._kind, self._field = RUNS, "runs"
        self._entries: list[Any] = []
        self._size = 0

    def add(self, kind: bytes, field: str, entry: Any) -> None:
        """Take one entry in; `field`: of the block's content."""
        if kind != self._kind:
            self.flush()
            self._kind, self._field = kind, field
        size = _size(entry)
        if self._size + size > self.most:
            self.flush()
        self._entries.append(entry)
        self._size += size

    def write(self, kind: bytes, content: Any) -> None:
        """Write a block by itself, behind what is there."""
        self.flush()
        self._file.write(packed(kind, content, self._file.tell()))

    def flush(self) -> None:
        """Write what is there."""
        if self._entries:
            content = {self._field: self._entries}
            self._entries, self._size = [], 0
            self.write(self._kind, content)


def _size(entry: Any) -> int:
    if isinstance(entry, dict | list):
        values: Iterable[Any] = entry.values() if isinstance(entry, dict) else entry
        return 16 + sum(map(_size, values))
    if isinstance(entry, str):
        return len(entry) if entry.isascii() else len(entry.encode())
    return 8
