"""What a worker remembers of its dynamic configuration over restarts: the last good value of each kind, and trials.

Beside the instance's lock lie, for each kind, ``config/<kind>.json`` (the last good value with a SHA-256 over it),
``<kind>.previous.json`` (the generation before) and ``<kind>.trial.<incarnation>``: that incarnation took a value in
that was not proven yet, or was about to. A trial whose incarnation is dead has failed, and the file stays to say so
until the value changes. An incarnation that lives (two of a slot may, for a while) is still trying.

Workers that were started by hand have no slots. Those of one host, cluster and tenant share a folder, as the lives of
one slot do, and each has the first number whose lock is free.

Files are written beside their place, synced, renamed, and their folder synced, so a crash leaves one or the other.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.framework.config.dynamic import VALUE_LIMIT, canonical, digest
from wharfinger.process.children import locks

log = logging.getLogger(__name__)

FORMAT = 1
CURRENT, PREVIOUS = "json", "previous.json"
MOST_WORKERS = 256
"""Workers started by hand that may share a folder."""


@dataclass(frozen=True, slots=True)
class Good:
    """A value that was proven; None = as the worker was started."""

    value: Any

    @property
    def digest(self) -> str:
        """Of the value; empty without one."""
        return "" if self.value is None else digest(self.value)


@dataclass(frozen=True, slots=True)
class TriedValue:
    """A value that is tried: which, and the revision at which it was written."""

    digest: str
    revision: int


class LastGood:
    """Remembers; calls may block on a disk and raise OSError.

    This one is of a worker that has no place for files, or cannot write there: it forgets everything.
    """

    def load(self, kind: str) -> Good | None:  # noqa: ARG002 - for those that remember
        """The last good value; None when nothing is known."""
        return None

    def keep(self, kind: str, good: Good) -> None:
        """This one is good; nothing is tried any more."""

    def begin(self, kind: str, trial: TriedValue) -> None:
        """It is about to be taken in: a start that finds this said, and us dead, must not do so again."""

    def end(self, kind: str) -> None:
        """Nothing is tried any more."""

    def failed(self, kind: str) -> list[TriedValue]:  # noqa: ARG002 - for those that remember
        """Trials whose process died."""
        return []

    def forget_failed(self, kind: str) -> None:
        """The value has changed since; what we try ourselves stays marked."""


def of_instance(lock: Path, incarnation: int) -> LastGood:
    """Of an instance that an agent started: beside its lock, for all lives of its slot."""
    return LastGoodFiles(lock.parent / "config", incarnation, alive=_numbered(lock.parent, lock.suffix))


def of_hand_started(folder: Path) -> LastGood:
    """Of a worker that was started by hand; the folder is made where it is missing."""
    try:
        number = next(
            number for number in range(1, MOST_WORKERS + 1) if locks.take(folder / f"{number}.lock") is not None
        )
    except (OSError, StopIteration) as error:
        why = str(error) or f"{MOST_WORKERS} workers use it"
        log.warning("last_good_not_kept effect=bad_value_is_tried_at_each_start folder=%s error=%r", folder, why)
        return LastGood()
    return LastGoodFiles(folder / "config", number, alive=_numbered(folder, ".lock"))


def _numbered(folder: Path, suffix: str) -> Callable[[int], bool]:
    return lambda number: locks.locked(folder / f"{number}{suffix}")


class LastGoodFiles(LastGood):
    """The files of one slot, used by one incarnation."""

    def __init__(self, folder: Path, incarnation: int, alive: Callable[[int], bool]) -> None:
        """`alive`: whether another incarnation of the slot lives on this host."""
        self._folder = folder
        self._incarnation = incarnation
        self._alive = alive

    def load(self, kind: str) -> Good | None:
        """The last good value: of the newest generation that can be read."""
        for path in (self._file(kind, CURRENT), self._file(kind, PREVIOUS)):
            good = _read(path, kind)
            if good is not None:
                return good
        return None

    def keep(self, kind: str, good: Good) -> None:
        """See `LastGood`. Writes only what differs."""
        current = self._file(kind, CURRENT)
        before = _read(current, kind)
        if before != good:
            fresh = _write(self._file(kind, f"fresh.{self._incarnation}"), _document(kind, good))
            if before is not None:  # what cannot be read is no generation
                with suppress(FileNotFoundError):  # another life of the slot has just done so
                    current.replace(self._file(kind, PREVIOUS))
            fresh.replace(current)
            _sync_folder(self._folder)
        self.end(kind)

    def begin(self, kind: str, trial: TriedValue) -> None:
        """See `LastGood`."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        marker = self._file(kind, f"trial.{self._incarnation}")
        content = canonical({"digest": trial.digest, "revision": trial.revision})
        _write(self._file(kind, f"fresh.{self._incarnation}"), content).replace(marker)
        _sync_folder(self._folder)

    def end(self, kind: str) -> None:
        """See `LastGood`."""
        self._remove([self._file(kind, f"trial.{self._incarnation}")])

    def failed(self, kind: str) -> list[TriedValue]:
        """See `LastGood`. One that cannot be read is none: the value is tried again."""
        trials = (_trial(path) for path, _ in self._dead(kind))
        return [trial for trial in trials if trial is not None]

    def forget_failed(self, kind: str) -> None:
        """See `LastGood`."""
        self._remove([path for path, number in self._dead(kind) if number != self._incarnation])

    def _dead(self, kind: str) -> list[tuple[Path, int]]:
        """Markers of others that are dead, and what a former process left under our number."""
        markers = [(path, path.suffix[1:]) for path in self._folder.glob(f"{kind}.trial.*")]
        named = [(path, int(number)) for path, number in markers if number.isascii() and number.isdigit()]
        return [(path, number) for path, number in named if number == self._incarnation or not self._alive(number)]

    def _remove(self, paths: list[Path]) -> None:
        there = [path for path in paths if path.exists()]
        for path in there:
            path.unlink(missing_ok=True)
        if there:
            _sync_folder(self._folder)

    def _file(self, kind: str, name: str) -> Path:
        return self._folder / f"{kind}.{name}"


def _document(kind: str, good: Good) -> bytes:
    said = {"format": FORMAT, "kind": kind, "value": good.value}
    return canonical({**said, "sha256": digest(said)})


def _read(path: Path, kind: str) -> Good | None:
    content = _content(path)
    if content is None:
        return None
    if isinstance(content, dict):
        checksum = content.pop("sha256", None)
        whole = content.keys() == {"format", "kind", "value"} and checksum == digest(content)
        if whole and content["format"] == FORMAT and content["kind"] == kind:
            return Good(content["value"])
    log.warning("last_good_unreadable effect=ignored file=%s", path)
    return None


def _trial(path: Path) -> TriedValue | None:
    content = _content(path)
    if isinstance(content, dict):
        said = content.get("digest"), content.get("revision")
        if isinstance(said[0], str) and isinstance(said[1], int):
            return TriedValue(said[0], said[1])
    return None


def _content(path: Path) -> Any:
    """What is in the file; None without one, False when it cannot be understood."""
    try:
        with path.open("rb") as file:
            return json.loads(file.read(2 * VALUE_LIMIT)) or False
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        return False


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return path


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # not every file system can
        os.fsync(descriptor)
    os.close(descriptor)
