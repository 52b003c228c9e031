"""Where the embedded servers come from.

In this order, the first that works: the PATH, when the version there is known to do; the tools folder
(`.tools/` of the checkout, outside of one the user's cache folder), when it holds the pinned version; for
Temporal the download of its SDK; a build with Go from the modules pinned in `tools/*/go.mod`. The last two
put their result into the tools folder, under a lock, so that it is made once.

`python -m wharfinger.dev.binaries` makes sure of the embedded servers and says where they are; with names of
programs, of those: a Temporal cluster's own are made for tests and benchmarks only.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wharfinger.dev import download, golang
from wharfinger.dev.progress import ProgressListener, progress_for
from wharfinger.errors import ServerError


@dataclass(frozen=True, slots=True)
class Program:
    """A server we run: how to recognise its version, and what it is built from."""

    name: str
    version_pattern: str
    """Finds the version in what `--version` prints."""
    pinned_by: str
    """Module in go.mod whose version the program must report."""
    package: str
    """Go main package."""
    downloaded_as: str = ""
    """Module whose version names a release that the Temporal SDK can download; empty = it cannot."""
    modules: str = ""
    """Folder of `tools` with its go.mod; empty = the one of its name."""
    asked: str = "--version"
    """How it is asked for its version."""


ETCD = Program("etcd", r"etcd Version: (\S+)", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")
TEMPORAL = Program(
    "temporal",
    r"\(Server ([^,)\s]+)",
    "go.temporal.io/server",
    "github.com/temporalio/cli/cmd/temporal",
    downloaded_as="github.com/temporalio/cli",
)
PROGRAMS = (ETCD, TEMPORAL)
"""What `wharfinger dev` embeds."""

TEMPORAL_SERVER = Program(
    "temporal-server", r"temporal version (\S+)", "go.temporal.io/server", "go.temporal.io/server/cmd/server"
)
TEMPORAL_SQL_TOOL = Program(
    "temporal-sql-tool",
    r"temporal-sql-tool version (\S+)",
    "go.temporal.io/server",
    "go.temporal.io/server/cmd/tools/sql",
    modules="temporal-server",
)
CLUSTER_PROGRAMS = (TEMPORAL_SERVER, TEMPORAL_SQL_TOOL)
"""A Temporal on PostgreSQL. After `temporal` was built, the build cache leaves little to do for them."""

ETCDCTL, ETCDUTL = (
    Program(
        name,
        rf"{name} version: (\S+)",
        "go.etcd.io/etcd/server/v3",
        f"go.etcd.io/etcd/{name}/v3",
        modules="etcd",
        asked="version",
    )
    for name in ("etcdctl", "etcdutl")
)
BACKUP_PROGRAMS = (ETCDCTL, ETCDUTL)
"""Save and restore etcd; seconds to build after etcd was."""


def locate(program: Program, progress: ProgressListener | None = None) -> Path:
    """A program that runs and has a version known to do; made when it must be.

    Takes minutes when it is built (once), else a fraction of a second. Raises `ServerError` with one
    line that says what to install.
    """
    return on_path(program) or in_tools(program) or _make(program, progress or progress_for(sys.stderr))


def on_path(program: Program) -> Path | None:
    """The program on PATH, when its version is of the pinned minor series and not older."""
    found = shutil.which(program.name)
    if found is None or not _same_series(version_of(program, Path(found)), pinned(program)):
        return None
    return Path(found)


def in_tools(program: Program) -> Path | None:
    """The program in the tools folder, when it is exactly the pinned version."""
    candidate = tools_folder() / program.name
    return candidate if version_of(program, candidate) == pinned(program) else None


def version_of(program: Program, executable: Path) -> str | None:
    """What the executable says its version is; None when it does not run or says nothing we know."""
    if not os.access(executable, os.X_OK):
        return None
    try:
        answer = subprocess.run([executable, program.asked], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(program.version_pattern, answer.stdout)
    return found.group(1) if found else None


def pinned(program: Program) -> str:
    """The version (without `v`) that our go.mod pins for the program."""
    return _pin(program, program.pinned_by).removeprefix("v")


def _pin(program: Program, module: str) -> str:
    text = (modules_folder(program) / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ServerError(f"{modules_folder(program) / 'go.mod'} does not pin {module}")
    return found.group(1)


def checkout() -> Path | None:
    """The root of the checkout this code runs from; None when it was installed from a wheel."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "pyproject.toml").is_file() and (root / "tools").is_dir() else None


def examples() -> Path:
    """The folder of examples: of the checkout, or packed in the wheel."""
    return (checkout() or Path(__file__).resolve().parents[1]) / "examples"


def tools_folder() -> Path:
    """Where servers that we made are kept."""
    root = checkout()
    if root is not None:
        return root / ".tools"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wharfinger" / "tools"


def modules_folder(program: Program) -> Path:
    """The folder with the program's go.mod and go.sum: of the checkout, or packed in the wheel."""
    root = checkout()
    tools = root / "tools" if root is not None else Path(__file__).resolve().parents[1] / "tools"
    return tools / (program.modules or program.name)


def _make(program: Program, progress: ProgressListener) -> Path:
    folder = tools_folder()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / program.name
    with _locked(folder / f"{program.name}.lock", program, progress):
        if in_tools(program) is not None:  # another process made it while we waited for the lock
            return target
        fresh = folder / f".{program.name}.{os.getpid()}"
        try:
            reasons = _obtain(program, fresh, progress)
            if reasons:
                raise ServerError(_what_to_install(program, reasons))
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
    return target


def _obtain(program: Program, fresh: Path, progress: ProgressListener) -> list[str]:
    """Try every way to make the program; answers why none worked, nothing when one did."""
    reasons = []
    if program.downloaded_as:
        reason = download.fetch(_pin(program, program.downloaded_as), fresh, progress)
        if not reason and version_of(program, fresh) == pinned(program):
            return []
        reasons.append(f"download: {reason or 'another version came'}")
    reason = golang.build(program.package, modules_folder(program), fresh, progress)
    if not reason and version_of(program, fresh) == pinned(program):
        return []
    return [*reasons, f"build: {reason or 'the result does not run or has another version'}"]


def _what_to_install(program: Program, reasons: Sequence[str]) -> str:
    series = ".".join(pinned(program).split(".")[:2])
    return (
        f"{program.name} cannot be had ({'; '.join(reasons)}). Install {program.name} {series} on the PATH, "
        f"or Go {golang.needed(modules_folder(program))} or newer, then try again"
    )


def _same_series(version: str | None, pin: str) -> bool:
    if version is None:
        return False
    have, want = (re.findall(r"\d+", text)[:3] for text in (version, pin))
    return have[:2] == want[:2] and "-" not in version and [int(part) for part in have] >= [int(part) for part in want]


@contextmanager
def _locked(path: Path, program: Program, progress: ProgressListener) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step(f"waiting for another process that makes {program.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(names: Sequence[str]) -> int:
    """Make sure of the programs of these names, or of the embedded servers; the door for make."""
    known = {program.name: program for program in (*PROGRAMS, *CLUSTER_PROGRAMS, *BACKUP_PROGRAMS)}
    if not known.keys() >= set(names):
        print(f"error: no program of ours: {', '.join(sorted(set(names) - known.keys()))}", file=sys.stderr)
        return 2
    try:
        for program in [known[name] for name in names] or PROGRAMS:
            print(f"{program.name} {pinned(program)}: {locate(program)}", flush=True)
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
