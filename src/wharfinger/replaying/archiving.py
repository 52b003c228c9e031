"""Writes an archive: what replay needs, before compaction or retention takes it.

A pass writes the events since the last pass, and the runs that began since then, and ends with a checkpoint. Runs that
began within the last minute are left to the next pass: they may not have decided yet. Where etcd keeps the events no
more, the pass begins a new segment with the whole state, and what is missing is a gap that the file shows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.errors import Compacted, InvalidObject, UsageError
from wharfinger.registry import keys
from wharfinger.replaying.archive_format import (
    BLOCK,
    CHECKPOINT,
    EVENTS,
    HEADER,
    META,
    RUNS,
    STATE,
    blocks,
    packed,
    plain_event,
    plain_key,
)
from wharfinger.replaying.kept import KeptStates, oldest_kept
from wharfinger.replaying.recorded import DecidedRun

log = logging.getLogger(__name__)

SETTLED = 60.0
"""Seconds after which a run that began has decided."""

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


@dataclass(frozen=True, slots=True)
class Reached:
    """Up to where an archive is complete."""

    revision: int = 0
    """Of etcd; 0 = nothing is there."""
    until: float = 0.0
    """Runs that began before, seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What one pass wrote."""

    reached: Reached
    runs: int
    decisions: int
    gap: tuple[int, int] | None = None
    """Revisions between which events are missing; None = none are."""


def needed(key: str) -> bool:
    """Whether decisions, or their replay, read what has this key."""
    if key == keys.INSTALLATION:
        return True
    parsed = keys.parse(key)
    return parsed is not None and parsed.prefix in _NEEDED


class ArchiveFile:
    """One file that is written on. One writer at a time; the caller sees to that."""

    def __init__(self, path: Path, cluster: str, *, block: int = BLOCK) -> None:
        """`block`: bytes of one, about. Raises `InvalidObject` for a file that is none or is damaged, `UsageError` for
        another cluster's, `OSError`.
        """
        self._path = path
        self._block = block
        self.reached = Reached()
        if path.exists() and path.stat().st_size:
            end = self._scan(cluster)
            with path.open("r+b") as file:
                file.truncate(end)
        else:
            path.write_bytes(HEADER + packed(META, {"cluster": cluster, "version": 1}))

    def _scan(self, cluster: str) -> int:
        """Where to go on: behind the last checkpoint. What follows it belongs to a pass that did not end."""
        end = 0
        for block in blocks(self._path, torn=True):
            if block.kind == META:
                end = block.end
                if block.content.get("cluster") != cluster:
                    raise UsageError(f"{self._path} is an archive of cluster {block.content.get('cluster')}")
            elif block.kind == CHECKPOINT:
                end = block.end
                self.reached = Reached(block.content["revision"], block.content["until"])
        if not end:
            raise InvalidObject(f"{self._path} is no archive: it does not say of which cluster")
        return end

    async def write(
        self,
        store: KeptStates,
        runs: AsyncIterable[DecidedRun],
        *,
        first: Callable[[], int],
        until: float,
    ) -> Passed:
        """One pass. `first`: the revision at which a new archive begins, asked when the runs are read; `until`: runs
        that began later are left to the next pass. Raises `StoreError`, `OSError`.
        """
        count = decisions = 0
        with self._path.open("ab") as file:
            out = _Blocks(file.write, self._block)
            async for run in runs:
                out.add(RUNS, "runs", run.model_dump(mode="json"))
                count, decisions = count + 1, decisions + run.decisions
            out.flush()
            newest = (await store.get(keys.INSTALLATION)).revision
            gap = await self._changes(store, out, first, newest)
            self.reached = Reached(newest, until)
            file.write(packed(CHECKPOINT, {"revision": newest, "until": until}))
            file.flush()
            os.fsync(file.fileno())
        return Passed(self.reached, count, decisions, gap)

    async def _changes(
        self, store: KeptStates, out: _Blocks, first: Callable[[], int], newest: int
    ) -> tuple[int, int] | None:
        begin = self.reached.revision
        if not begin:
            await self._segment(store, out, await oldest_kept(store, min(first() or newest, newest)), newest)
            return None
        try:
            await self._events(store, out, begin, newest)
        except Compacted:
            kept = await oldest_kept(store, begin)
            log.warning("archive_gap effect=new_segment after=%d before=%d", begin, kept)
            await self._segment(store, out, kept, newest)
            return begin, kept
        return None

    async def _segment(self, store: KeptStates, out: _Blocks, revision: int, newest: int) -> None:
        found: list[Any] = []
        size, first = 0, True
        async for page in store.list(keys.ROOT, revision=revision):
            for kv in page.items:
                if needed(kv.key):
                    found.append(plain_key(kv))
                    size += _size(found[-1])
            if size >= self._block:
                out.write(STATE, {"revision": revision, "first": first, "keys": found})
                found, size, first = [], 0, False
        out.write(STATE, {"revision": revision, "first": first, "keys": found})
        await self._events(store, out, revision, newest)

    async def _events(self, store: KeptStates, out: _Blocks, after: int, newest: int) -> None:
        if after >= newest:
            return
        async with store.watch(keys.ROOT, after + 1) as batches:
            async for batch in batches:
                if batch.revision <= newest:
                    kept = [plain_event(event) for event in batch.events if needed(event.kv.key)]
                    if kept:
                        out.add(EVENTS, "batches", [batch.revision, kept])
                if batch.revision >= newest:
                    break
        out.flush()


class _Blocks:
    """Collects entries of one kind, and writes a block of them when they are enough."""

    def __init__(self, write: Callable[[bytes], Any], most: int) -> None:
        self._write = write
        self._most = most
        self._kind, self._field = RUNS, "runs"
        self._entries: list[Any] = []
        self._size = 0

    def add(self, kind: bytes, field: str, entry: Any) -> None:
        """Take one entry in; `field`: of the block's content."""
        if kind != self._kind:
            self.flush()
            self._kind, self._field = kind, field
        self._entries.append(entry)
        self._size += _size(entry)
        if self._size >= self._most:
            self.flush()

    def write(self, kind: bytes, content: Any) -> None:
        """Write a block by itself, behind what is there."""
        self.flush()
        self._write(packed(kind, content))

    def flush(self) -> None:
        """Write what is there."""
        if self._entries:
            self._write(packed(self._kind, {self._field: self._entries}))
        self._entries, self._size = [], 0


def _size(entry: Any) -> int:
    if isinstance(entry, dict | list):
        values: Iterable[Any] = entry.values() if isinstance(entry, dict) else entry
        return 16 + sum(map(_size, values))
    return len(entry) if isinstance(entry, str) else 8
