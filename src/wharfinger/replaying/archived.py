"""Reads an archive: its runs, and its segments as stores that can be read as etcd is.

A segment begins with a whole state, and has every event up to its end. Between two segments is a gap. Files are read
block by block; only the state at a segment's first needed revision is held, as when etcd is listed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from wharfinger.contracts.records import InstallationRecord
from wharfinger.errors import Compacted, InvalidObject, RevisionFuture
from wharfinger.model.formats import ClusterFormat
from wharfinger.registry import keys
from wharfinger.registry.store import Event, KeyValue, Page, Read, WatchBatch
from wharfinger.replaying.archive_format import CHECKPOINT, EVENTS, META, RUNS, STATE, Block, blocks, event_of
from wharfinger.replaying.recorded import DecidedRun, Unit

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

    @classmethod
    def open(cls, path: Path) -> Archive:
        """Raises `InvalidObject` for what is none or is damaged, `OSError`."""
        archive = cls(path)
        archive.end = max((one.end for one in blocks(path, torn=True) if one.kind == CHECKPOINT), default=0)
        for block in archive.blocks():
            if block.kind == META:
                archive.cluster = block.content["cluster"]
            elif block.kind == STATE and block.content["first"]:
                revision = block.content["revision"]
                archive.segments.append(Segment(revision, revision, len(archive.segments)))
            elif block.kind == CHECKPOINT and archive.segments:
                archive.segments[-1].last = max(archive.segments[-1].last, block.content["revision"])
            for event in _events(block.kind, block.content):
                if event.kv.key.startswith(_KEPT_WHOLE) and not event.deleted:
                    archive.by_name[event.kv.key] = event.kv
        archive.format = archive._format()
        return archive

    def blocks(self) -> Iterator[Block]:
        """All that are complete. Raises `InvalidObject`."""
        for block in blocks(self.path, torn=True):
            if block.end > self.end:
                return
            yield block

    def _format(self) -> ClusterFormat:
        kv = self.by_name.get(keys.INSTALLATION)
        try:
            return InstallationRecord.model_validate_json(kv.value).format if kv is not None else self.format
        except ValidationError as error:
            raise InvalidObject(f"{self.path} does not say in which format its objects are") from error

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Revisions between which events are missing."""
        pairs = zip(self.segments, self.segments[1:], strict=False)
        return [(one.last, other.first) for one, other in pairs if other.first > one.last]

    def runs(self) -> Iterator[DecidedRun]:
        """All recorded runs, each once. Raises `InvalidObject`."""
        seen: set[str] = set()
        for block in self.blocks():
            if block.kind != RUNS:
                continue
            for plain in block.content["runs"]:
                try:
                    run = DecidedRun.model_validate(plain)
                except ValidationError as error:
                    raise InvalidObject(f"{self.path} has a run that cannot be read") from error
                if run.run_id not in seen:
                    seen.add(run.run_id)
                    yield run

    def split(self, units: Sequence[Unit]) -> Iterator[tuple[SegmentStore, list[Unit]]]:
        """For each segment what is decided on it. What lies in a gap goes to the segment behind, which lacks it."""
        rest = list(units)
        for segment in self.segments:
            final = segment is self.segments[-1]
            mine = [unit for unit in rest if final or unit.revision <= segment.last]
            rest = rest[len(mine) :]
            yield SegmentStore(self, segment), mine


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
        state: dict[str, KeyValue] = {}
        for at, events in self._batches():
            if at > wanted:
                break
            for event in events:
                if event.deleted:
                    state.pop(event.kv.key, None)
                elif event.kv.key.startswith(prefix):
                    state[event.kv.key] = event.kv
        found = [state[key] for key in sorted(state)]
        for begin in range(0, max(1, len(found)), page_size):
            yield Page(tuple(found[begin : begin + page_size]), wanted)

    def watch(
        self,
        prefix: str,
        start_revision: int,
        *,
        previous: bool = False,  # noqa: ARG002 - as for any store
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        """Every change from a revision on, and progress up to the segment's end."""
        return self._watch(prefix, start_revision)

    @asynccontextmanager
    async def _watch(self, prefix: str, start: int) -> AsyncIterator[AsyncIterator[WatchBatch]]:
        if start <= self._segment.first:
            self._check(start - 1)

        async def batches() -> AsyncIterator[WatchBatch]:
            for at, events in self._batches():
                if at >= start:
                    yield WatchBatch(at, tuple(event for event in events if event.kv.key.startswith(prefix)))
            yield WatchBatch(self._segment.last)

        yield batches()

    def _batches(self) -> Iterator[tuple[int, Changes]]:
        """The state as one batch or more at its revision, then each revision's events."""
        number = -1
        for block in self._archive.blocks():
            if block.kind == STATE:
                number += bool(block.content["first"])
                if number == self._segment.number:
                    yield block.content["revision"], [event_of(plain) for plain in block.content["keys"]]
            elif block.kind == EVENTS and number == self._segment.number:
                for at, plain in block.content["batches"]:
                    yield at, [event_of(one) for one in plain]


def _events(kind: bytes, content: dict[str, list[object]]) -> Iterator[Event]:
    if kind == STATE:
        for plain in content["keys"]:
            yield event_of(plain)  # type: ignore[arg-type]
    elif kind == EVENTS:
        for _, changes in content["batches"]:  # type: ignore[misc]
            for plain in changes:  # type: ignore[has-type]
                yield event_of(plain)
