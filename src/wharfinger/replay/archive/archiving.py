"""Writes an archive: what replay needs, before compaction or retention takes it.

A pass writes the events since the last pass, and the runs that began since then, and ends with a checkpoint. Runs that
began within the last minute are left to the next pass, and runs that have not decided by then are named in the
checkpoint and read again. Runs are asked for from a little before the last pass on, as Temporal lists them late and
by its own clock; what was written already is known by its id. Where etcd keeps the events no more, or was restored from
a backup, the pass begins a new segment with the whole state, and what is missing is a gap that the file shows.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from wharfinger.errors import InvalidObject, UsageError, WharfingerError
from wharfinger.replay.archive.archive_format import (
    BLOCK,
    CHECKPOINT,
    HEADER,
    META,
    RUNS,
    STATE,
    blocks,
    packed,
    text_of,
)
from wharfinger.replay.archive.archive_pass import Anchor, ArchivePass, BlockWriter, Passed, Reached
from wharfinger.replay.facts import KeptStates
from wharfinger.replay.histories import RunName, UnreadRun
from wharfinger.replay.memory_limit import UNLIMITED, MemoryLimit
from wharfinger.replay.recorded import DecidedRun
from wharfinger.telemetry import Instruments, counter, gauge

log = logging.getLogger(__name__)

SETTLED = 60.0
"""Seconds after which a run that began has decided."""
OVERLAP = 120.0
"""Seconds by which a pass looks back behind the last one: Temporal lists runs late, and its clock may be behind."""
PRIVATE = 0o600
"""Mode of a new file: objects are in it as they are stored, with the environment of containers."""
BEHIND = 600.0
"""Seconds without a pass that succeeded, after which the archive falls behind."""


class ArchiveNotWritten(WharfingerError):
    """The file cannot be written, such as on a disk that is full."""


class ArchiveFile:
    """One file that is written on. One writer at a time; the caller sees to that."""

    def __init__(
        self,
        path: Path,
        cluster: str,
        *,
        since: float = 0.0,
        block: int = BLOCK,
        memory: MemoryLimit = UNLIMITED,
    ) -> None:
        """Raises `InvalidObject` for a file that is none or is damaged, `UsageError` for another cluster's,
        `ArchiveNotWritten`, `OSError`.

        Args:
            path: A file that is missing is made, for its owner only.
            cluster: Its name.
            since: When a new archive begins, seconds since 1970.
            block: Bytes of one, about.
            memory: What it may take.
        """
        self._path = path
        self._block = block
        self.memory = memory
        self.since = since
        """When this one begins."""
        self.reached = Reached()
        self.segments = 0
        """So many states are in it: one more than gaps."""
        self._recent: dict[str, float] = {}
        """Runs that were written: when those began that the next pass will find again, by run id."""
        self.unread: frozenset[RunName] = frozenset()
        """Runs that the last pass found and did not understand: the next one may find them again, and counts them once.
        Another process that goes on within two minutes may count them again."""
        self._end = self._scan(cluster) if not _empty(path) else 0
        if not self._end:
            begin = HEADER + packed(META, {"cluster": cluster, "since": since})
            with _writing(path), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb") as file:
                file.write(begin)
            self._end = len(begin)

    def _scan(self, cluster: str) -> int:
        """Where to go on: behind the last checkpoint. What follows it belongs to a pass that did not end."""
        end = found = 0
        waiting: dict[str, RunName] = {}
        passes: list[tuple[int, float]] = []
        for block in blocks(self._path, torn=True, wanted=(META, STATE, CHECKPOINT), most=self.memory.block):
            if block.kind == META:
                end, self.since = block.end, block.content.since
                passes.append((end, 0.0))
                if block.content.cluster != cluster:
                    other = f"{self._path} is an archive of cluster {block.content.cluster}, not of {cluster}"
                    raise UsageError(f"{other}: name another file, or the cluster with --cluster")
            elif not end:
                raise InvalidObject(f"{self._path} does not say of which cluster it is")
            elif block.kind == CHECKPOINT:
                end, told = block.end, block.content
                passes.append((end, told.until))
                waiting |= {run_id: RunName(workflow_id, run_id) for workflow_id, run_id in told.waiting}
                for run_id in told.done:
                    waiting.pop(run_id, None)
                anchor = Anchor(text_of(told.last[0]), *told.last[1:]) if told.last is not None else None
                self.reached = Reached(told.revision, told.until, tuple(waiting.values()), told.lost, anchor)
                self.segments = found
            elif block.kind == STATE:
                found += block.content.first
        before = max((place for place, until in passes if until <= self.reached.until - OVERLAP), default=0)
        for block in blocks(self._path, torn=True, wanted=(RUNS,), most=self.memory.block, begin=before) if end else ():
            if block.kind == RUNS and block.end < end:
                found_there = ((run.get("run_id"), run.get("started", 0.0)) for run in block.content.runs)
                self._wrote({name: at for name, at in found_there if isinstance(name, str) and isinstance(at, float)})
        return end

    def _wrote(self, runs: dict[str, float]) -> None:
        since = self.reached.until - OVERLAP
        self._recent = {run: began for run, began in (self._recent | runs).items() if began >= since}

    def has(self, name: RunName) -> bool:
        """Whether a run is there already, as far as the next pass may find it again."""
        return name.run_id in self._recent

    async def write(self, store: KeptStates, runs: AsyncIterable[DecidedRun | UnreadRun], *, until: float) -> Passed:
        """One pass. Raises `StoreError`, `ArchiveNotWritten`; then the file is as it was, but for what does not count.

        `runs`: those that began since the last pass (`histories.read_runs`); runs that began after `until`, seconds
        since 1970, are left to the next one.
        """
        with _writing(self._path), self._path.open("r+b") as file:
            file.truncate(self._end)
            file.seek(self._end)
            made = ArchivePass(BlockWriter(file, self._block), store, self.reached, self._recent, self.memory)
            passed = await made.write(runs, until, self.unread)
            file.flush()
            os.fsync(file.fileno())
            self._end = file.tell()
        self.reached = passed.reached
        self.segments += made.segments
        self._wrote(made.written)
        self.unread = frozenset(made.unread)  # not before: a pass that fails counts nothing
        return passed


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ArchiveNotWritten(f"{path} cannot be written: {error.strerror or error}") from error


def _empty(path: Path) -> bool:
    """Whether nothing was written there but a part of the first line."""
    try:
        with path.open("rb") as file:
            line = file.read(len(HEADER))
    except FileNotFoundError:
        return True
    return len(line) < len(HEADER) and HEADER.startswith(line)


class ArchiveMetrics(Instruments):
    """Of one archive; `passed` and `failed` after each pass, `refresh` before it is read."""

    passes = counter(
        "wharfinger_archive_passes", "Passes by result: `written`, or `failed`, which is tried again.", ["result"]
    )
    age = gauge(
        "wharfinger_archive_seconds_since_pass",
        "Seconds since a pass succeeded, or since the process began: it falls behind.",
    )
    gaps = gauge("wharfinger_archive_gaps", "Gaps in the file: etcd had compacted events before they were written.")
    lost = gauge(
        "wharfinger_archive_lost_runs", "Runs that could not be read, or not be understood: they are not in the file."
    )
    size = gauge("wharfinger_archive_bytes", "Size of the file.")
    revision = gauge("wharfinger_archive_revision", "Revision of etcd up to which the file is complete; 0: nothing is.")

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds."""
        super().__init__()
        self._path = path
        self._clock = clock
        self._succeeded = clock()

    @property
    def seconds(self) -> float:
        """Since a pass succeeded, or since the process began."""
        return self._clock() - self._succeeded

    def opened(self, file: ArchiveFile) -> None:
        """The file was read to its end."""
        self.gaps.set(max(0, file.segments - 1))
        self.lost.set(file.reached.lost)
        self.revision.set(file.reached.revision)

    def passed(self, file: ArchiveFile) -> None:
        """A pass succeeded."""
        self._succeeded = self._clock()
        self.passes.labels("written").inc()
        self.opened(file)

    def failed(self) -> None:
        """A pass failed."""
        self.passes.labels("failed").inc()

    def refresh(self) -> None:
        """Bring up to date what changes by itself."""
        self.age.set(self.seconds)
        try:
            self.size.set(self._path.stat().st_size)
        except OSError:
            self.size.set(0)

    def checks(self) -> Mapping[str, str]:
        """For `/readyz`."""
        return {"archive": "ok" if self.seconds <= BEHIND else f"no pass succeeded for {self.seconds:.0f} s"}
