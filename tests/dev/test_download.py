"""The download of Temporal's command line: nothing becomes a program whose checksum is not the pinned one."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from wharfinger.dev import download
from wharfinger.dev.binaries import TEMPORAL, _pin
from wharfinger.dev.progress import Lines

HERE = ("linux", "amd64")
NAME = "temporal_cli_1.8.2_linux_amd64.tar.gz"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def releases(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A base URL, and the folder of version v1.8.2 below it."""
    folder = tmp_path / "releases" / "v1.8.2"
    folder.mkdir(parents=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder.parent)))
    Thread(target=partial(server.serve_forever, 0.01), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", folder
    finally:
        server.shutdown()
        server.server_close()


def archive(
    name: str = "temporal", content: bytes = b"#!/bin/sh\necho hello\n", kind: bytes = tarfile.REGTYPE
) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        info = tarfile.TarInfo(name)
        info.size, info.type, info.linkname = len(content) if kind == tarfile.REGTYPE else 0, kind, "/etc/passwd"
        members.addfile(info, io.BytesIO(content) if kind == tarfile.REGTYPE else None)
    return packed.getvalue()


def fetched(releases: tuple[str, Path], target: Path, pinned: bytes) -> str:
    digests = {("v1.8.2", *HERE): hashlib.sha256(pinned).hexdigest()}
    return download.fetch("v1.8.2", target, Lines(lambda _: None), releases=releases[0], digests=digests, here=HERE)


def test_a_release_with_the_pinned_checksum_becomes_the_program(releases: tuple[str, Path], tmp_path: Path) -> None:
    (releases[1] / NAME).write_bytes(archive())
    target = tmp_path / "temporal"
    assert fetched(releases, target, archive()) == ""
    assert target.read_bytes() == b"#!/bin/sh\necho hello\n"
    assert target.stat().st_mode & 0o777 == 0o755


def test_another_checksum_leaves_no_program(releases: tuple[str, Path], tmp_path: Path) -> None:
    (releases[1] / NAME).write_bytes(archive(content=b"#!/bin/sh\necho other\n"))
    target = tmp_path / "temporal"
    assert "is pinned" in fetched(releases, target, archive())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["releases"]


@pytest.mark.parametrize("content", [archive("other"), archive(kind=tarfile.SYMTYPE), b"no archive"])
def test_what_has_no_program_in_it_is_refused(releases: tuple[str, Path], tmp_path: Path, content: bytes) -> None:
    (releases[1] / NAME).write_bytes(content)
    target = tmp_path / "temporal"
    assert fetched(releases, target, content)
    assert not target.exists()


def test_nothing_is_asked_for_without_a_pinned_checksum(tmp_path: Path) -> None:
    why = download.fetch(
        "v9.9.9", tmp_path / "temporal", Lines(lambda _: None), releases="http://127.0.0.1:1", here=HERE
    )
    assert why == "no checksum is pinned of Temporal v9.9.9 for linux/amd64"


def test_a_release_that_is_away_is_said(releases: tuple[str, Path], tmp_path: Path) -> None:
    assert "404" in fetched(releases, tmp_path / "temporal", archive())


@pytest.mark.parametrize("system", ["linux", "darwin"])
@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_the_version_that_go_mod_pins_has_a_checksum(system: str, architecture: str) -> None:
    digest = download.DIGESTS[_pin(TEMPORAL, TEMPORAL.downloaded_as), system, architecture]
    assert len(bytes.fromhex(digest)) == 32
