"""Where the embedded servers come from.

In this order, the first that works: the PATH, when the version there is known to do; the tools folder
(`.tools/` of the checkout, outside of one the user's cache folder), when it holds the pinned version; for
Temporal its release, with a pinned checksum; a build with Go from the modules pinned in `tools/*/go.mod`, whose
checksums are in `go.sum` and enforced. The last two put their result into the tools folder, under a lock, so that it is
made once. A build needs no C compiler. A Go that is older than the modules ask for fetches the newer toolchain.

`python -m wharfinger.dev.binaries` makes sure of the embedded servers and says where they are; with names of
programs, of those: a Temporal cluster's own are made for tests and benchmarks only. Programs of one module that are
lacking are built together: most of what they are made of is the same.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wharfinger.dev import download
from wharfinger.dev.progress import ProgressListener, progress_for
from wharfinger.errors import ServerError
from wharfinger.process.build import checkout


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
    """Module whose version names a release that can be downloaded (`dev.download`); empty = there is none."""
    modules: str = ""
    """Folder of `tools` with its go.mod; empty = the one of its name."""
    asked: str = "--version"
    """How it is asked for its version."""
    stamped: str = ""
    """Package whose `git...` variables have the version; the linker sets them. Empty = the source has it."""


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

KUBE_APISERVER, KUBE_SCHEDULER = (
    Program(
        name,
        r"Kubernetes v(\S+)",
        "k8s.io/kubernetes",
        f"k8s.io/kubernetes/cmd/{name}",
        modules="kube-apiserver",
        stamped="k8s.io/component-base/version",
    )
    for name in ("kube-apiserver", "kube-scheduler")
)
KUBERNETES_PROGRAMS = (KUBE_APISERVER, KUBE_SCHEDULER)
"""The API server whose pods are scheduled, and the scheduler that ours is compared with."""
EVERY_PROGRAM = (*PROGRAMS, *CLUSTER_PROGRAMS, *BACKUP_PROGRAMS, *KUBERNETES_PROGRAMS)


def locate(program: Program, progress: ProgressListener | None = None) -> Path:
    """A program that runs and has a version known to do; made when it must be.

    Takes minutes when it is built (once), else a fraction of a second. Raises `ServerError` with one
    line that says what to install.
    """
    return locate_all((program,), progress)[0]


def locate_all(programs: Sequence[Program], progress: ProgressListener | None = None) -> list[Path]:
    """The same of several programs; those of one module that must be built are built together."""
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
    return on_path(program) or in_tools(program)


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


def _make(programs: Sequence[Program], progress: ProgressListener) -> dict[Program, Path]:
    """Make programs of one module."""
    folder = tools_folder()
    folder.mkdir(parents=True, exist_ok=True)
    modules = modules_folder(programs[0]).name
    with _locked(folder / f"{modules}.lock", modules, progress):
        lacking = [program for program in programs if in_tools(program) is None]  # another process made the others
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{modules}-") as fresh:
            reasons = _obtain(lacking, Path(fresh), progress) if lacking else []
            if reasons:
                raise ServerError(_what_to_install(lacking, reasons))
            for program in lacking:
                (Path(fresh) / program.name).replace(folder / program.name)
    return {program: folder / program.name for program in programs}


def _obtain(programs: Sequence[Program], fresh: Path, progress: ProgressListener) -> list[str]:
    """Try every way to make programs in a folder; answers why none worked, nothing when all are there."""
    reasons = []
    for program in programs:
        if program.downloaded_as:
            reason = download.fetch(_pin(program, program.downloaded_as), fresh / program.name, progress)
            if reason or not _is_there(program, fresh):
                reasons.append(f"download: {reason or 'another version came'}")
    left = [program for program in programs if not _is_there(program, fresh)]
    if not left:
        return []
    built = fresh / "built"
    built.mkdir()
    reason = build_with_go(
        [program.package for program in left],
        modules_folder(left[0]),
        built,
        progress,
        variables={name: value for program in left for name, value in _stamps(program).items()},
    )
    if not reason:
        for program in left:
            (built / file_of(program.package)).replace(fresh / program.name)
        if all(_is_there(program, fresh) for program in left):
            return []
    return [*reasons, f"build: {reason or 'the result does not run or has another version'}"]


def _is_there(program: Program, folder: Path) -> bool:
    return version_of(program, folder / program.name) == pinned(program)


def _stamps(program: Program) -> dict[str, str]:
    """The variables that the linker sets in a program."""
    if not program.stamped:
        return {}
    pin = pinned(program)
    major, minor, _ = pin.split(".", 2)
    values = {"gitVersion": f"v{pin}", "gitMajor": major, "gitMinor": minor}
    return {f"{program.stamped}.{name}": value for name, value in values.items()}


def _what_to_install(programs: Sequence[Program], reasons: Sequence[str]) -> str:
    series = ".".join(pinned(programs[0]).split(".")[:2])
    names = " and ".join(program.name for program in programs)
    return (
        f"{names} cannot be had ({'; '.join(reasons)}). Install {names} {series} on the PATH, "
        f"or Go {go_needed(modules_folder(programs[0]))} or newer, then try again"
    )


def _same_series(version: str | None, pin: str) -> bool:
    if version is None:
        return False
    have, want = (re.findall(r"\d+", text)[:3] for text in (version, pin))
    return have[:2] == want[:2] and "-" not in version and [int(part) for part in have] >= [int(part) for part in want]


@contextmanager
def _locked(path: Path, modules: str, progress: ProgressListener) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step(f"waiting for another process that makes {modules}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def go_needed(modules: Path) -> str:
    """The Go version that the modules in a folder ask for."""
    found = re.search(r"^go (\S+)", (modules / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    return found.group(1) if found else "of today"


def file_of(package: str) -> str:
    """The name that Go gives to the program of a main package: its last element, without a major version."""
    *path, last = package.split("/")
    return path[-1] if re.fullmatch(r"v\d+", last) else last


def build_with_go(
    packages: Sequence[str],
    modules: Path,
    folder: Path,
    progress: ProgressListener,
    *,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Build main packages of one module in one go into a folder; answers why it failed, empty when it did not.

    The folder then has a file for each (`file_of`). `variables` are set when they are linked: `path/of/package.name`
    -> value. A minute and a half (etcd), two (Temporal) or five (kube-apiserver) on two cores with cold caches, once
    the modules are downloaded.
    """
    go = shutil.which("go")
    if go is None:
        return "no Go on the PATH"
    progress.step(f"building {modules.name} from source with Go (once; a few minutes)")
    with progress.counting(f"downloading the source of {modules.name}", 0):
        listed = _go(go, ["list", "-mod=readonly", "-deps", *packages], modules)
    if listed.returncode:
        return _last_line(listed.stderr)
    total = len(listed.stdout.split())
    linked = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in (variables or {}).items())])
    options = ["-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags={linked}", "-v", "-o", f"{folder}{os.sep}"]
    with progress.counting(f"compiling {modules.name}", total) as report, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [go, "build", *options, *packages],
            cwd=modules,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            for done, line in enumerate(process.stderr, start=1):  # -v: a line for each package compiled
                said.write(line)
                report(done)
            code = process.wait()
        finally:
            process.kill()
        said.seek(0)
        return _last_line(said.read()) if code else ""


def _go(go: str, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([go, *arguments], cwd=folder, env=_environment(), capture_output=True, text=True, check=False)


def _environment() -> Mapping[str, str]:
    # A workspace or flags of the user's own would change what is built.
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "go printed nothing"


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
