"""Reads an archive: its runs, and its segments as stores that can be read as etcd is.

A segment begins with a whole state, and has every event up to its end. Between two segments is a gap. Where etcd was
restored from a backup in between, revisions begin to count in another history: what was decided before belongs to the
segments before. Files are read block by block; a state that is listed is put together in a temporary file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import repeat
from math import inf, isfinite
from pathlib import Path
from sys import maxsize

from pydantic import ValidationError

from wharfinger.errors import Compacted, InvalidObject, RevisionFuture
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue, Page, Read, WatchBatch
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.records import InstallationRecord
from wharfinger.replay.archive.archive_format import CHECKPOINT, EVENTS, META, RUNS, STATE, Block, blocks, event_of
from wharfinger.replay.archive.archive_pass import Gap
from wharfinger.replay.archive.spool import Spool
from wharfinger.replay.memory_limit import UNLIMITED, MemoryLimit, scratch_database, writing
from wharfinger.replay.recorded import DecidedRun, Unit

PAGE = 500
Changes = list[Event]
_KEPT_WHOLE = (keys.PROFILES, keys.SOFTWARE, keys.INSTALLATION)
"""Read by name, whenever they were written."""


@dataclass(slots=True)
class Segment:
    """A state, and the events behind it."""

    first: int
    """Revision of the state."""
    last: int
    """Up to which all events are there."""
    number: int
    """In the file, from 0."""
    restored: bool = False
    """Whether etcd was restored from a backup before it."""


@dataclass(slots=True)
class Archive:
    """A file that was looked through once."""

    path: Path
    cluster: str = ""
    format: ClusterFormat = ClusterFormat.KUBERNETES
    segments: list[Segment] = field(default_factory=list)
    by_name: dict[str, KeyValue] = field(default_factory=dict)
    end: int = 0
    """Of the last checkpoint in the file: what follows belongs to a pass that did not end."""
    memory: MemoryLimit = UNLIMITED
    lost: int = 0
    """Runs that were taken before they could be archived."""
    uncounted: int = 0
    """Bytes behind the last checkpoint."""
    began: tuple[float, float] | None = None
    """When the first and the last of all its runs began, seconds since 1970; None before `read_into`, and for none."""
    _passed: int = 0
    """End of the last checkpoint that was looked at."""
    _restored: list[int] = field(default_factory=list)
    """For each time that etcd was restored: where the pass begins that found it."""
    _histories: list[int] = field(default_factory=list)
    """For each of these, the number in the spool of the first run behind it."""

    @classmethod
    def open(cls, path: Path, memory: MemoryLimit = UNLIMITED) -> Archive:
        """Raises `InvalidObject` for what is none or is damaged, `OSError`."""
        archive = cls(path, memory=memory)
        found = blocks(path, torn=True, wanted=(), most=memory.block)
        archive.end = max((one.end for one in found if one.kind == CHECKPOINT), default=0)
        if not archive.end:
            raise InvalidObject(f"{path} holds no complete pass: `wharfinger archive` writes it on")
        archive.uncounted = path.stat().st_size - archive.end
        for block in archive.blocks(META, STATE, EVENTS, CHECKPOINT):
            archive._look(block)
        if not archive.cluster or not archive.segments:
            raise InvalidObject(f"{path} does not say of which cluster it is, or has no state")
        archive.format = archive._format()
        return archive

    def _look(self, block: Block) -> None:
        if block.kind == META:
            self.cluster = block.content.cluster
        elif block.kind == STATE and block.content.first:
            revision, number = block.content.revision, len(self.segments)
            restored = block.content.restored and number > 0
            self.segments.append(Segment(revision, revision, number, restored=restored))
            if restored:
                self._restored.append(self._passed)
        elif block.kind == CHECKPOINT and self.segments:
            self.segments[-1].last = max(self.segments[-1].last, block.content.revision)
            self.lost = block.content.lost
        self._passed = block.end if block.kind == CHECKPOINT else self._passed
        for event in _events(block):
            if event.kv.key.startswith(_KEPT_WHOLE) and not event.deleted:
                self.by_name[event.kv.key] = event.kv
        self.memory.check(lambda: f"for {len(self.by_name):,} configurations and builds of an archive")

    def configurations(self) -> list[KeyValue]:
        """The recorded configurations of profiles."""
        return [kv for key, kv in self.by_name.items() if key.startswith(keys.PROFILES)]

    def blocks(self, *wanted: bytes) -> Iterator[Block]:
        """All of these kinds that are complete. Raises `InvalidObject`."""
        for block in blocks(self.path, torn=True, wanted=wanted, most=self.memory.block):
            if block.end > self.end:
                return
            if block.kind in wanted:
                yield block

    def _format(self) -> ClusterFormat:
        kv = self.by_name.get(keys.INSTALLATION)
        try:
            return InstallationRecord.model_validate_json(kv.value).format if kv is not None else self.format
        except ValidationError as error:
            raise InvalidObject(f"{self.path} does not say in which format its objects are") from error

    @property
    def gaps(self) -> list[Gap]:
        """What is missing between two segments."""
        pairs = zip(self.segments, self.segments[1:], strict=False)
        return [
            Gap(one.last, other.first, other.restored)
            for one, other in pairs
            if other.first > one.last or other.restored
        ]

    def runs(self) -> Iterator[DecidedRun]:
        """All recorded runs. Raises `InvalidObject`."""
        for run, _ in self._placed_runs():
            yield run

    def _placed_runs(self) -> Iterator[tuple[DecidedRun, int]]:
        """With the byte of the block that each is in."""
        for block in self.blocks(RUNS):
            for plain in block.content.runs:
                try:
                    run = DecidedRun.model_validate(plain)
                except ValidationError as error:
                    raise InvalidObject(f"{self.path} has a run that cannot be read, at byte {block.begin}") from error
                if not isfinite(run.started):
                    raise InvalidObject(f"{self.path} has a run that began at no time, at byte {block.begin}")
                yield run, block.begin

    def read_into(
        self,
        spool: Spool,
        *,
        since: float = 0.0,
        until: float = inf,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        """Keep the runs that began in a span, seconds since 1970. Raises `InvalidObject`."""
        self._histories = []
        for number, (run, place) in enumerate(self._placed_runs(), start=1):
            while len(self._histories) < len(self._restored) and self._restored[len(self._histories)] <= place:
                self._histories.append(len(spool))
            first, last = self.began or (run.started, run.started)
            self.began = min(first, run.started), max(last, run.started)
            if since <= run.started < until:
                spool.add(run)
            progress(number, 0)

    def split(self, units: Sequence[Unit]) -> Iterator[tuple[SegmentStore, Sequence[Unit]]]:
        """For each segment what is decided on it, of units in order, whose runs `read_into` has read.

        What lies in a gap goes to the segment behind it, which lacks it. What was decided before etcd was restored
        goes to the segments of then, by when its run was read.
        """
        histories = self._by_history()
        starts = [0, *self._histories, *repeat(maxsize, len(histories) - len(self._histories))]
        for segments, first, end_run in zip(histories, starts, starts[1:], strict=False):
            part = units if len(histories) == 1 else [one for one in units if first <= one.run < end_run]
            begin = 0
            for segment in segments:
                final = segment is segments[-1]
                end = len(part) if final else bisect_right(part, segment.last, begin, key=lambda unit: unit.revision)
                yield SegmentStore(self, segment), part[begin:end]
                begin = end

    def _by_history(self) -> list[list[Segment]]:
        found: list[list[Segment]] = [[]]
        for segment in self.segments:
            if segment.restored:
                found.append([])
            found[-1].append(segment)
        return found


class SegmentStore:
    """A segment, read as etcd is: `kept.KeptStates`."""

    def __init__(self, archive: Archive, segment: Segment) -> None:
        self.format = archive.format
        self._archive = archive
        self._segment = segment

    def _check(self, revision: int) -> None:
        if revision < self._segment.first:
            text = f"the archive has nothing between two segments, before revision {self._segment.first}"
            raise Compacted(text, compact_revision=self._segment.first)
        if revision > self._segment.last:
            raise RevisionFuture(f"the archive ends at revision {self._segment.last}")

    async def get(self, key: str, *, revision: int = 0) -> Read:
        """Only what is read by name: configurations, software, the installation."""
        return Read(self._archive.by_name.get(key), revision or self._segment.last)

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = PAGE) -> AsyncIterator[Page]:
        """All keys with the prefix, at a revision of the segment."""
        wanted = revision or self._segment.last
        self._check(wanted)
        state = scratch_database("CREATE TABLE state (key TEXT PRIMARY KEY, value, created, changed, lease)")
        try:
            for at, events in self._batches():
                if at > wanted:
                    break
                with writing():
                    for event in events:
                        if event.deleted:
                            state.execute("DELETE FROM state WHERE key = ?", (event.kv.key,))
                        elif event.kv.key.startswith(prefix):
                            state.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?, ?)", event.kv)
            rows = state.execute("SELECT * FROM state ORDER BY key")
            found = list(map(KeyValue._make, rows.fetchmany(page_size)))
            yield Page(tuple(found), wanted)
            while found := list(map(KeyValue._make, rows.fetchmany(page_size))):
                yield Page(tuple(found), wanted)
        finally:
            state.close()

    @asynccontextmanager
    async def watch(self, prefix: str, start_revision: int) -> AsyncIterator[AsyncIterator[WatchBatch]]:
        """Every change from a revision on, and progress up to the segment's end."""
        if start_revision <= self._segment.first:
            self._check(start_revision - 1)

        async def batches() -> AsyncIterator[WatchBatch]:
            for at, events in self._batches():
                if at >= start_revision:
                    yield WatchBatch(at, tuple(event for event in events if event.kv.key.startswith(prefix)))
            yield WatchBatch(self._segment.last)

        yield batches()

    def _batches(self) -> Iterator[tuple[int, Changes]]:
        """The state as one batch or more at its revision, then each revision's events."""
        number = -1
        for block in self._archive.blocks(STATE, EVENTS):
            if block.kind == STATE:
                number += block.content.first
                if number == self._segment.number:
                    yield block.content.revision, [event_of(plain) for plain in block.content.keys]
            elif block.kind == EVENTS and number == self._segment.number:
                for at, plain in block.content.batches:
                    yield at, [event_of(one) for one in plain]


def _events(block: Block) -> Iterator[Event]:
    if block.kind == STATE:
        yield from map(event_of, block.content.keys)
    elif block.kind == EVENTS:
        for _, changes in block.content.batches:
            yield from map(event_of, changes)
