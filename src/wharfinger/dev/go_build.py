"""Programs built with Go, from modules that go.mod pins and go.sum has the checksums of.

A build needs no C compiler. A Go that is older than the modules ask for fetches the newer toolchain.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from wharfinger.dev.progress import ProgressListener


def go_needed(modules: Path) -> str:
    """The Go version that the modules in a folder ask for."""
    found = re.search(r"^go (\S+)", (modules / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    return found.group(1) if found else "of today"


def file_of(package: str) -> str:
    """The name that Go gives to the program of a main package: its last element, without a major version."""
    *path, last = package.split("/")
    return path[-1] if re.fullmatch(r"v\d+", last) else last


def build(
    packages: Sequence[str],
    modules: Path,
    folder: Path,
    progress: ProgressListener,
    *,
    variables: Mapping[str, str] | None = None,
    tags: str = "",
) -> str:
    """Build main packages of one module in one go into a folder; answers why it failed, empty when it did not.

    The folder then has a file for each (`file_of`). `variables` are set when they are linked: `path/of/package.name`
    -> value; `tags` are Go's build tags, with commas. A minute and a half (etcd), two (Temporal) or five
    (kube-apiserver) on two cores with cold caches, once the modules are downloaded.
    """
    go = shutil.which("go")
    if go is None:
        return "no Go on the PATH"
    progress.step(f"building {modules.name} from source with Go (once; a few minutes)")
    with progress.counting(f"downloading the source of {modules.name}", 0):
        listed = _go(go, ["list", "-mod=readonly", f"-tags={tags}", "-deps", *packages], modules)
    if listed.returncode:
        return _last_line(listed.stderr)
    total = len(listed.stdout.split())
    linked = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in (variables or {}).items())])
    shown = ["-v", "-o", f"{folder}{os.sep}"]
    options = ["-mod=readonly", "-trimpath", "-buildvcs=false", f"-tags={tags}", f"-ldflags={linked}", *shown]
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
