"""Temporal's command line as its project releases it: downloaded in time, and checked before anything runs it.

The SHA-256 of each archive is pinned here. A version, a system or an architecture without a pinned checksum is not
downloaded: the source build, whose modules `go.sum` pins, is the alternative.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import IO

from wharfinger.dev.progress import ProgressListener

RELEASES = "https://github.com/temporalio/cli/releases/download"
DIGESTS: Mapping[tuple[str, str, str], str] = {
    ("v1.8.2", "linux", "amd64"): "d8421bda989e6514b4bdb4d63a9012a8a05a806892e881a5aad8510496349a94",
    ("v1.8.2", "linux", "arm64"): "83600a8fac6e3da54093e5da6918d399f501532b9f1172235603f9606f4ac6e4",
    ("v1.8.2", "darwin", "amd64"): "489d7f5420cae02b559774ac23df035141954c33a51dba96f5759a0ddccdf1b6",
    ("v1.8.2", "darwin", "arm64"): "dacdc3587682c04cf27e67c8878ca2d755230b6ad63c0c6ebddd7348ae90ed94",
}
"""SHA-256 by version, system and architecture, as the release's own list of checksums has them."""
DEADLINE = 20.0
"""Seconds; a source build is the alternative, so there is no point in waiting on a dead network."""
LARGEST = 256 * 2**20
"""Bytes of an archive, and of the program in it."""
PROGRAM = "temporal"
_PIECE = 1 << 18
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class NotDownloaded(Exception):
    """Why there is no program, in words."""


def fetch(
    version: str,
    target: Path,
    progress: ProgressListener,
    *,
    releases: str = RELEASES,
    digests: Mapping[tuple[str, str, str], str] = DIGESTS,
    here: tuple[str, str] | None = None,
) -> str:
    """Download a release (`v1.8.2`) to the file `target`; answers why it failed, empty when it did not.

    `releases`: base URL; `here`: system and architecture, None = this machine's.
    """
    system, architecture = here if here is not None else _here()
    digest = digests.get((version, system, architecture))
    if digest is None:
        return f"no checksum is pinned of Temporal {version} for {system}/{architecture}"
    name = f"temporal_cli_{version.removeprefix('v')}_{system}_{architecture}.tar.gz"
    with tempfile.TemporaryFile(dir=target.parent, prefix=".download-") as archive:
        try:
            with progress.counting(f"downloading Temporal {version}", 0):
                found = _download(f"{releases}/{version}/{name}", archive)
            if found != digest:
                raise NotDownloaded(f"{name} has the SHA-256 {found}, and {digest} is pinned")
            _unpack(archive, target)
        except (NotDownloaded, OSError, HTTPException, tarfile.TarError, EOFError) as error:
            return str(error) or type(error).__name__
    return ""


def _here() -> tuple[str, str]:
    machine = platform.machine().lower()
    return sys.platform, _ARCHITECTURES.get(machine, machine)


def _download(url: str, archive: IO[bytes]) -> str:
    """Read it into the file; its SHA-256."""
    ends, digest, size = time.monotonic() + DEADLINE, hashlib.sha256(), 0
    with urllib.request.urlopen(url, timeout=DEADLINE / 2) as response:  # noqa: S310 - the scheme is ours
        while piece := response.read(_PIECE):
            size += len(piece)
            if size > LARGEST:
                raise NotDownloaded(f"the archive has more than {LARGEST >> 20} MiB")
            if time.monotonic() > ends:
                raise NotDownloaded(f"not done within {DEADLINE:.0f} s")
            digest.update(piece)
            archive.write(piece)
    return digest.hexdigest()


def _unpack(archive: IO[bytes], target: Path) -> None:
    """The program out of the archive, to the file `target`."""
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:gz") as members:
        for member in members:
            if member.name == PROGRAM and member.isreg() and member.size <= LARGEST:
                packed = members.extractfile(member)
                assert packed is not None, "it is a regular file"
                with packed, target.open("wb") as program:
                    shutil.copyfileobj(packed, program)
                target.chmod(0o755)
                return
    raise NotDownloaded(f"the archive has no file {PROGRAM}")
