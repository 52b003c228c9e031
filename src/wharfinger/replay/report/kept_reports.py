"""Reports of replay as files in a folder: written once and whole, listed and read with limits.

`wharfinger replay --keep-in` writes, the web page reads; `kept_form` has what is in them. Names begin with the time,
so they sort by it. Nobody but the user removes them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from wharfinger.errors import UsageError
from wharfinger.replay.kept_form import KIND, VERSION, KeptHead, KeptReport

SUFFIX = ".json"
MOST_BYTES = 16 << 20
"""Of a report that is read."""
MOST_REPORTS = 200
"""That are listed, the newest ones."""
MOST_ENTRIES = 5000
"""Of the folder that are looked at."""
_LONGEST_CHANGE = 80
"""Characters of a name that are about the change."""


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A file of the folder, as it was when it was listed."""

    name: str
    """Without the suffix."""
    size: int
    stamp: tuple[int, int, int]
    """Another one where the file is another, or was changed."""
    modified: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class ReportListing:
    """The newest files, and how many were left out."""

    files: tuple[ReportFile, ...] = ()
    omitted: int = 0
    problem: str = ""
    """Why the folder cannot be read; empty where it can, and where it is not there yet."""


@dataclass(frozen=True, slots=True)
class NoReport:
    """A file that is no report."""

    why: str


def report_name(made: datetime, mode: str, change: tuple[str, ...]) -> str:
    """The name of a report, without the suffix: when, how, and under which change."""
    told = re.sub(r"[^A-Za-z0-9._-]+", "-", ",".join(change)).strip("-.")[:_LONGEST_CHANGE].rstrip("-.")
    return f"{made.astimezone(UTC):%Y%m%dT%H%M%SZ}-{mode}-{told or 'unchanged'}"


def folder_for(folder: Path) -> Path:
    """Make sure that reports can be kept there, before one is made. Raises `UsageError`."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"--keep-in {folder}: {error.strerror or error}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--keep-in {folder}: nothing can be written there")
    return folder


def keep(folder: Path, name: str, kept: Mapping[str, Any]) -> Path:
    """Write a report (as in `KeptReport`); answers its file. Two of one name are both kept. Raises `UsageError`.

    Where all of it would be too large to be read again, it goes without where each pod ended.
    """
    whole = {"kind": KIND, "version": VERSION, **kept}
    content = orjson.dumps(_readable(whole))
    if len(content) > MOST_BYTES:
        content = orjson.dumps(_readable(whole | {"ends": None}))
    beside = folder / f".{name}.{os.getpid()}"
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            return _named(folder, name, beside)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"--keep-in {folder}: {error.strerror or error}") from error


def _named(folder: Path, name: str, written: Path) -> Path:
    """Give the file its name, whole: another one where that is taken already."""
    number = 1
    while True:
        path = folder / f"{name}{f'-{number}' if number > 1 else ''}{SUFFIX}"
        try:
            os.link(written, path)
        except FileExistsError:
            number += 1
        except PermissionError:  # a file system without links
            if not path.exists():
                return written.rename(path)
            number += 1
        else:
            return path


def _readable(value: Any) -> Any:
    """The same with bytes that are no text, which names in etcd may have, spelt out."""
    match value:
        case str() if not value.isascii():
            return value.encode("utf-8", "backslashreplace").decode()
        case Mapping():
            return {_readable(name): _readable(one) for name, one in value.items()}
        case list() | tuple():
            return [_readable(one) for one in value]
    return value


def listed(folder: Path) -> ReportListing:
    """The reports of the folder, the newest first: regular files only. Blocks."""
    found: list[ReportFile] = []
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= MOST_ENTRIES:
                    break
                if entry.name.endswith(SUFFIX) and not entry.name.startswith(".") and entry.name.isprintable():
                    with suppress(OSError):
                        seen = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(seen.st_mode):
                            found.append(_file(entry.name.removesuffix(SUFFIX), seen))
    except FileNotFoundError:
        return ReportListing()
    except OSError as error:
        return ReportListing(problem=f"the folder of reports cannot be read: {error.strerror or error}")
    found.sort(key=lambda one: (one.modified, one.name), reverse=True)
    return ReportListing(tuple(found[:MOST_REPORTS]), len(found[MOST_REPORTS:]))


def _file(name: str, seen: os.stat_result) -> ReportFile:
    return ReportFile(name, seen.st_size, (seen.st_ino, seen.st_mtime_ns, seen.st_size), seen.st_mtime)


def read_report(folder: Path, file: ReportFile) -> KeptReport | NoReport:
    """Read one that was listed. Blocks."""
    if file.size > MOST_BYTES:
        return NoReport(f"larger than {MOST_BYTES >> 20} MiB")
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(folder / f"{file.name}{SUFFIX}", flags), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return NoReport("no regular file")
            content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        return NoReport(f"cannot be read: {error.strerror or error}")
    return report_of(content)


def report_of(content: bytes) -> KeptReport | NoReport:
    """A report out of a file's content."""
    if len(content) > MOST_BYTES:
        return NoReport(f"larger than {MOST_BYTES >> 20} MiB")
    try:
        return KeptReport.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    try:
        head = KeptHead.model_validate_json(content)
    except ValidationError:
        return NoReport("not a report that `wharfinger replay --keep-in` wrote")
    if head.version > VERSION:
        return NoReport(f"written by a later release (form {head.version}, this one reads up to {VERSION})")
    place = ".".join(map(str, first["loc"]))
    return NoReport(f"damaged at {place[:120]}: {first['msg'][:200]}")
