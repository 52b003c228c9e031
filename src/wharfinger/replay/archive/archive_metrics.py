"""What an archive that is written on shows of itself: how long ago it last succeeded, and what it has by now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from wharfinger.replay.archive.archiving import ArchiveFile

BEHIND = 600.0
"""Seconds without a pass that succeeded, after which the archive falls behind."""


@dataclass(slots=True)
class ArchiveMetrics:
    """Of one archive; `passed` and `failed` after each pass, `refresh` before it is read."""

    path: Path
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    _succeeded: float = 0.0
    _passes: Counter = field(init=False)
    _age: Gauge = field(init=False)
    _gaps: Gauge = field(init=False)
    _lost: Gauge = field(init=False)
    _bytes: Gauge = field(init=False)
    _revision: Gauge = field(init=False)

    def __post_init__(self) -> None:
        self._succeeded = self.clock()
        self._passes = Counter(
            "wharfinger_archive_passes",
            "Passes by result: `written`, or `failed`, which is tried again.",
            ["result"],
            registry=self.registry,
        )
        self._age = self._gauge(
            "seconds_since_pass", "Seconds since a pass succeeded, or since the process began: it falls behind."
        )
        self._gaps = self._gauge("gaps", "Gaps in the file: etcd had compacted events before they were written.")
        self._lost = self._gauge(
            "lost_runs", "Runs that could not be read, or not be understood: they are not in the file."
        )
        self._bytes = self._gauge("bytes", "Size of the file.")
        self._revision = self._gauge("revision", "Revision of etcd up to which the file is complete; 0: nothing is.")

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"wharfinger_archive_{name}", text, registry=self.registry)

    @property
    def seconds(self) -> float:
        """Since a pass succeeded, or since the process began."""
        return self.clock() - self._succeeded

    def opened(self, file: ArchiveFile) -> None:
        """The file was read to its end."""
        self._gaps.set(max(0, file.segments - 1))
        self._lost.set(file.reached.lost)
        self._revision.set(file.reached.revision)

    def passed(self, file: ArchiveFile) -> None:
        """A pass succeeded."""
        self._succeeded = self.clock()
        self._passes.labels("written").inc()
        self.opened(file)

    def failed(self) -> None:
        """A pass failed."""
        self._passes.labels("failed").inc()

    def refresh(self) -> None:
        """Bring up to date what changes by itself."""
        self._age.set(self.seconds)
        try:
            self._bytes.set(self.path.stat().st_size)
        except OSError:
            self._bytes.set(0)

    def checks(self) -> Mapping[str, str]:
        """For `/readyz`."""
        return {"archive": "ok" if self.seconds <= BEHIND else f"no pass succeeded for {self.seconds:.0f} s"}
