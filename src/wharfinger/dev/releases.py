"""The archives in which etcd and Temporal are released, and how one is known to be the right one.

`SHA256SUMS` beside this module pins the digests of the releases that go.mod names, and
`WHARFINGER_DOWNLOADS_SHA256=FILE` replaces it. Without a pin the release's own list of digests counts, because it comes
over TLS from the project. If `WHARFINGER_DOWNLOADS=URL` names a mirror, its list counts, because the user named it.
Both are reported. No archive is used without a digest.

`python -m wharfinger.dev.releases` reports the pins that are lacking; with `--fetch` it prints all, as the
projects' own lists have them.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wharfinger.dev import download
from wharfinger.dev.progress import ProgressListener
from wharfinger.errors import ServerError

MIRROR = "WHARFINGER_DOWNLOADS"
PINS = "WHARFINGER_DOWNLOADS_SHA256"
PINNED = Path(__file__).with_name("SHA256SUMS")
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Platform:
    """What a program runs on, in Go's words."""

    system: str
    """`linux` or `darwin`."""
    architecture: str
    """`amd64` or `arm64`."""


PLATFORMS = tuple(Platform(system, machine) for system in ("linux", "darwin") for machine in ("amd64", "arm64"))
"""Those with archives."""


def this_platform() -> Platform:
    """The machine that this process runs on."""
    machine = platform.machine().lower()
    return Platform(sys.platform, _ARCHITECTURES.get(machine, machine))


@dataclass(frozen=True, slots=True)
class ReleasedProject:
    """How a project names what it releases. `{}` stands for the version, the system and the architecture."""

    name: str
    """Its folder on a mirror."""
    module: str
    """The module of go.mod whose version is that of the release."""
    address: str
    """Base URL of its releases."""
    archive: str
    """An archive's name without its ending."""
    sums: str
    """The file of digests beside the archives."""
    zip_for: str = ""
    """The system whose archive is a `.zip`; all others are `.tar.gz`."""
    in_folder: bool = False
    """Whether the programs lie in a folder with the archive's name."""


ETCD = ReleasedProject(
    "etcd",
    "go.etcd.io/etcd/server/v3",
    "https://github.com/etcd-io/etcd/releases/download",
    "etcd-v{}-{}-{}",
    "SHA256SUMS",
    zip_for="darwin",
    in_folder=True,
)
TEMPORAL = ReleasedProject(
    "temporal",
    "github.com/temporalio/cli",
    "https://github.com/temporalio/cli/releases/download",
    "temporal_cli_{}_{}_{}",
    "checksums.txt",
)
PROJECTS = (ETCD, TEMPORAL)


@dataclass(frozen=True, slots=True)
class ReleaseArchive:
    """One file of a release."""

    project: ReleasedProject
    version: str
    """Without `v`."""
    platform: Platform

    @property
    def stem(self) -> str:
        """Its name without the ending."""
        return self.project.archive.format(self.version, self.platform.system, self.platform.architecture)

    @property
    def name(self) -> str:
        """Its name, which no other release has."""
        return self.stem + (".zip" if self.platform.system == self.project.zip_for else ".tar.gz")

    def member(self, program: str) -> str:
        """The name of a program in it."""
        return f"{self.stem}/{program}" if self.project.in_folder else program


@dataclass(frozen=True, slots=True)
class ReleaseSource:
    """Where archives are downloaded from, and which digests they must have."""

    pins: Mapping[str, str]
    """SHA-256 by the archive's name."""
    mirror: str = ""
    """Base URL; empty = the projects' own addresses."""

    @staticmethod
    def from_environment(environment: Mapping[str, str] = os.environ) -> ReleaseSource:
        """As the user's variables have it. Raises `ServerError`."""
        mirror, named = environment.get(MIRROR, "").rstrip("/"), environment.get(PINS, "")
        if mirror:
            try:
                parts = urlsplit(mirror)
                well_formed = parts.scheme in ("http", "https") and bool(parts.netloc) and "@" not in parts.netloc
            except ValueError:
                well_formed = False
            if not well_formed:
                raise ServerError(f"{MIRROR} must be an http or https address without a user: it is not used")
        try:
            return ReleaseSource(
                download.sums_in((Path(named) if named else PINNED).read_text(encoding="utf-8")), mirror
            )
        except (OSError, ValueError) as error:
            raise ServerError(f"{f'{PINS}={named}' if named else PINNED}: {error}") from error

    def folder(self, archive: ReleaseArchive) -> str:
        """The URL in which the archive and the list of digests lie."""
        return (
            f"{f'{self.mirror}/{archive.project.name}' if self.mirror else archive.project.address}/v{archive.version}"
        )

    def digest(self, archive: ReleaseArchive, progress: ProgressListener, limits: download.DownloadLimits) -> str:
        """What the archive must have: its pin, else what the list beside it names. Raises `NotDownloaded`."""
        if pin := self.pins.get(archive.name):
            return pin
        sums = archive.project.sums
        whose = f"of the mirror that {MIRROR} names" if self.mirror else "of the release, over TLS"
        progress.step(f"no digest of {archive.name} is pinned: it is checked with {sums} {whose}")
        try:
            listed = download.sums_in(download.text_of(f"{self.folder(archive)}/{sums}", limits))
        except ValueError as error:
            raise download.NotDownloaded(f"{sums}: {error}") from error
        if archive.name not in listed:
            raise download.NotDownloaded(f"{sums} has no digest of {archive.name}")
        return listed[archive.name]


def obtain(
    archive: ReleaseArchive,
    programs: Sequence[str],
    folder: Path,
    partial: Path,
    progress: ProgressListener,
    *,
    source: ReleaseSource | None = None,
    limits: download.DownloadLimits = download.LIMITS,
) -> None:
    """Put programs of an archive into a folder; `partial` keeps what a broken download has brought.

    Raises `NotDownloaded`.
    """
    if archive.platform not in PLATFORMS:
        here = f"{archive.platform.system} on {archive.platform.architecture}"
        raise download.NotDownloaded(f"{archive.project.name} is not released for {here}")
    source = source or ReleaseSource.from_environment()
    file = partial / archive.name
    digest = source.digest(archive, progress, limits)
    partial.mkdir(parents=True, exist_ok=True)
    download.fetch(f"{source.folder(archive)}/{archive.name}", file, digest, progress, limits)
    for program in programs:
        download.unpack(file, archive.member(program), folder / program, limits)
    file.unlink()


def main(
    arguments: Sequence[str],
    version_of: Callable[[ReleasedProject], str] | None = None,
    source: ReleaseSource | None = None,
) -> int:
    """Report archives without a pin, a line each; the exit code is 1 if there are any. `--fetch`: print all pins."""
    from wharfinger.dev import binaries
    from wharfinger.dev.progress import progress_for

    version_of = version_of or binaries.released
    archives = [ReleaseArchive(project, version_of(project), one) for project in PROJECTS for one in PLATFORMS]
    try:
        source = source or ReleaseSource.from_environment()
        if "--fetch" in arguments:
            unpinned, progress = ReleaseSource({}, source.mirror), progress_for(sys.stderr)
            for archive in archives:
                print(f"{unpinned.digest(archive, progress, download.LIMITS)}  {archive.name}")
            return 0
    except (ServerError, download.NotDownloaded) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    lacking = [archive.name for archive in archives if archive.name not in source.pins]
    for name in lacking:
        print(f"no digest is pinned of {name}: add its line to src/wharfinger/dev/SHA256SUMS (`make pins`)")
    return 1 if lacking else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
