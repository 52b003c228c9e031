"""Where the servers that we run come from.

In this order, the first that works: the PATH, when the version there is known to do; the user's cache, with the pinned
version; the archive of its project's release (`dev.releases`); a build with Go (`dev.go_build`) from the modules pinned
in `tools/*/go.mod`. The last two put their result into the cache, under a lock, so that it is made once. Programs lie
there under a hash of their modules, so all checkouts and installations with the same pins share them. Programs that
were put into `.tools/` of a checkout are found, too.

`python -m wharfinger.dev.binaries` makes sure of the embedded servers and reports where they are; with names of
programs, of those: a Temporal cluster's own are made for tests and benchmarks only. Programs of one module that are
lacking are made together: they come in one archive, or most of what they are made of is the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wharfinger.dev import download, go_build, releases
from wharfinger.dev.progress import ProgressListener, progress_for
from wharfinger.errors import ServerError
from wharfinger.process.build import checkout, shipped

LONGEST_WAIT = 1800.0
"""Seconds for which another process that makes the same programs is waited for: five times what a build takes."""


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
    modules: str = ""
    """Folder of `tools` with its go.mod; empty = the one of its name."""
    asked: str = "--version"
    """How it is asked for its version."""
    stamped: tuple[tuple[str, str], ...] = ()
    """Variables that the linker sets, and their values with `{version}`, `{major}`, `{minor}`; empty = none."""
    renumbered: tuple[str, str] = ("", "")
    """Pattern and replacement that make the version of its release from that of the module."""
    tags: str = ""
    """Of the build."""


ETCD = Program("etcd", r"etcd Version: (\S+)", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")
TEMPORAL = Program(
    "temporal",
    r"\(Server ([^,)\s]+)",
    "go.temporal.io/server",
    "github.com/temporalio/cli/cmd/temporal",
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

KUBE_APISERVER, KUBE_SCHEDULER = (
    Program(
        name,
        r"Kubernetes v(\S+)",
        "k8s.io/kubernetes",
        f"k8s.io/kubernetes/cmd/{name}",
        modules="kube-apiserver",
        stamped=tuple(
            (f"k8s.io/component-base/version.{name}", value)
            for name, value in (("gitVersion", "v{version}"), ("gitMajor", "{major}"), ("gitMinor", "{minor}"))
        ),
    )
    for name in ("kube-apiserver", "kube-scheduler")
)
KUBERNETES_PROGRAMS = (KUBE_APISERVER, KUBE_SCHEDULER)
"""The API server whose pods are scheduled, and the scheduler that ours is compared with."""
PROMTOOL = Program(
    "promtool",
    r"promtool, version (\S+)",
    "github.com/prometheus/prometheus",
    "github.com/prometheus/prometheus/cmd/promtool",
    stamped=(("github.com/prometheus/common/version.Version", "{version}"),),
    renumbered=(r"^0\.(\d)0?", r"\1."),
    tags="remove_all_sd",
)
"""Tests the rules for alerts before a release; without the service discoveries, which double the build."""
EVERY_PROGRAM = (*PROGRAMS, *CLUSTER_PROGRAMS, *BACKUP_PROGRAMS, *KUBERNETES_PROGRAMS, PROMTOOL)


def locate(program: Program, progress: ProgressListener | None = None) -> Path:
    """A program that runs and has a version known to do; downloaded or built when it must be.

    Takes seconds when it is downloaded, minutes when it is built (both once), else a fraction of a second. Raises
    `ServerError` with one line that names what to install.
    """
    return locate_all((program,), progress)[0]


def locate_all(programs: Sequence[Program], progress: ProgressListener | None = None) -> list[Path]:
    """The same of several programs; those of one module that must be made are made together."""
    found = {program: path for program in programs if (path := at_hand(program)) is not None}
    lacking: dict[Path, list[Program]] = {}
    for program in programs:
        if program not in found:
            lacking.setdefault(modules_folder(program), []).append(program)
    for group in lacking.values():
        found |= _make(group, progress or progress_for(sys.stderr))
    return [found[program] for program in programs]


def at_hand(program: Program) -> Path | None:
    """The program, where it is there already; None when it would have to be made."""
    return on_path(program) or kept(program)


def on_path(program: Program) -> Path | None:
    """The program on PATH, when its version is of the pinned minor series and not older."""
    found = shutil.which(program.name)
    if found is None or not _same_series(version_of(program, Path(found)), pinned(program)):
        return None
    return Path(found)


def kept(program: Program) -> Path | None:
    """The program in the cache or in the checkout's `.tools/`, when it is exactly the pinned version."""
    root = checkout()
    folders = [_made_in(program), *([root / ".tools"] if root is not None else ())]
    candidates = [folder / program.name for folder in folders]
    return next((path for path in candidates if version_of(program, path) == pinned(program)), None)


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
    return re.sub(*program.renumbered, _pin(program.modules or program.name, program.pinned_by))


def released(project: releases.ReleasedProject) -> str:
    """The version (without `v`) of a project's release that our go.mod pins."""
    return _pin(project.name, project.module)


def _pin(modules: str, module: str) -> str:
    file = _tools() / modules / "go.mod"
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ServerError(f"{file} does not pin {module}")
    return found.group(1)


def examples() -> Path:
    """The folder of examples: of the checkout, or packed in the wheel."""
    return shipped("examples")


def cache_folder() -> Path:
    """Where the programs of all checkouts and installations of this user are kept."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "wharfinger"
    except RuntimeError as error:
        raise ServerError("this user has no home folder: name a cache in XDG_CACHE_HOME") from error


def modules_folder(program: Program) -> Path:
    """The folder with the program's go.mod and go.sum: of the checkout, or packed in the wheel."""
    return _tools() / (program.modules or program.name)


def _tools() -> Path:
    return shipped("tools")


def _made_in(program: Program) -> Path:
    """The folder of programs that are made from the same modules, for this machine."""
    modules, here = modules_folder(program), releases.this_platform()
    pins = hashlib.sha256(b"\0".join((modules / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()
    return cache_folder() / "programs" / f"{modules.name}-{pins[:12]}-{here.system}-{here.architecture}"


def _make(programs: Sequence[Program], progress: ProgressListener) -> dict[Program, Path]:
    """Make programs of one module."""
    folder = _made_in(programs[0])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            _locked(folder.with_suffix(".lock"), programs[0], progress),
            tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as fresh,
        ):
            found = {program: path for program in programs if (path := kept(program)) is not None}
            lacking = [program for program in programs if program not in found]  # another process made the others
            if reasons := _obtain(lacking, Path(fresh), progress):
                raise ServerError(_what_to_install(lacking, reasons))
            for program in lacking:
                (Path(fresh) / program.name).replace(folder / program.name)
    except OSError as error:
        raise ServerError(
            f"programs cannot be kept in {folder}: {error}; XDG_CACHE_HOME names another cache"
        ) from error
    return {program: folder / program.name for program in programs}


def _obtain(programs: Sequence[Program], fresh: Path, progress: ProgressListener) -> list[str]:
    """Try every way to make programs in a folder; answers why none worked, nothing when all are there."""
    reasons, left = [], programs
    for way, make in (("download", _download), ("build", _build)):
        if not left:
            break
        reason = make(left, fresh, progress)
        left = [program for program in left if version_of(program, fresh / program.name) != pinned(program)]
        reasons.append(f"{way}: {reason or 'the result does not run or has another version'}")
    return reasons if left else []


def _download(programs: Sequence[Program], fresh: Path, progress: ProgressListener) -> str:
    """Take the programs from their project's release; answers why that failed."""
    modules = modules_folder(programs[0]).name
    project = next((project for project in releases.PROJECTS if project.name == modules), None)
    if project is None:
        return "there are no archives"
    archive = releases.ReleaseArchive(project, released(project), releases.this_platform())
    partial = cache_folder() / "downloads" / _made_in(programs[0]).name  # one starter at a time is in there
    try:
        releases.obtain(archive, [one.name for one in programs], fresh, partial, progress)
    except download.NotDownloaded as error:
        return str(error)
    return ""


def _build(programs: Sequence[Program], fresh: Path, progress: ProgressListener) -> str:
    """Build the programs with Go; answers why that failed."""
    built = fresh / "built"
    built.mkdir()
    reason = go_build.build(
        [program.package for program in programs],
        modules_folder(programs[0]),
        built,
        progress,
        variables={name: value for program in programs for name, value in _stamps(program).items()},
        tags=programs[0].tags,
    )
    if not reason:
        for program in programs:
            (built / go_build.file_of(program.package)).replace(fresh / program.name)
    return reason


def _stamps(program: Program) -> dict[str, str]:
    """The variables that the linker sets in a program."""
    pin = pinned(program)
    major, minor, _ = pin.split(".", 2)
    return {name: value.format(version=pin, major=major, minor=minor) for name, value in program.stamped}


def _what_to_install(programs: Sequence[Program], reasons: Sequence[str]) -> str:
    series = ".".join(pinned(programs[0]).split(".")[:2])
    names = " and ".join(program.name for program in programs)
    return (
        f"{names} cannot be had ({'; '.join(reasons)}). Install {names} {series} on the PATH, "
        f"or Go {go_build.go_needed(modules_folder(programs[0]))} or newer, "
        f"or let {releases.MIRROR} name a mirror of the releases, then try again"
    )


def _same_series(version: str | None, pin: str) -> bool:
    if version is None:
        return False
    have, want = (re.findall(r"\d+", text)[:3] for text in (version, pin))
    return have[:2] == want[:2] and "-" not in version and [int(part) for part in have] >= [int(part) for part in want]


@contextmanager
def _locked(path: Path, program: Program, progress: ProgressListener) -> Iterator[None]:
    """Hold the lock of programs of one module. Raises `ServerError` if another process holds it for too long."""
    ends, told = time.monotonic() + LONGEST_WAIT, False
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    progress.step(f"waiting for another process that downloads or builds {program.name}")
                told = True
                if time.monotonic() > ends:
                    raise ServerError(f"another process has held {path} for {LONGEST_WAIT / 60:.0f} minutes") from None
                time.sleep(0.1)
        yield


def main(names: Sequence[str]) -> int:
    """Make sure of the programs of these names, or of the embedded servers; the door for make."""
    known = {program.name: program for program in EVERY_PROGRAM}
    if not known.keys() >= set(names):
        print(f"error: no program of ours: {', '.join(sorted(set(names) - known.keys()))}", file=sys.stderr)
        return 2
    programs = [known[name] for name in names] or PROGRAMS
    try:
        for program, path in zip(programs, locate_all(programs), strict=True):
            print(f"{program.name} {pinned(program)}: {path}", flush=True)
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
