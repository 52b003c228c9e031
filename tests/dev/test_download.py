"""Downloads are resumed, limited, and checked before anything reads them."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dev.release_server import ReleaseServer, serving, tar_gz, zipped
from tests.etcd.certificates import Authority
from wharfinger.dev.download import LIMITS, DownloadLimits, NotDownloaded, fetch, sums_in, text_of, unpack
from wharfinger.dev.progress import Lines

CONTENT = random.Random(7).randbytes(300_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()
QUIET = Lines(lambda _: None)


@pytest.fixture
def server() -> Iterator[ReleaseServer]:
    with serving() as served:
        served.put("/a.tar.gz", CONTENT)
        yield served


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where downloads go."""
    return tmp_path / "a.tar.gz"


def download(server: ReleaseServer, file: Path, limits: DownloadLimits = LIMITS, digest: str = DIGEST) -> None:
    fetch(f"{server.url}/a.tar.gz", file, digest, QUIET, limits)


def test_file_with_the_digest_is_kept(server: ReleaseServer, file: Path) -> None:
    download(server, file)

    assert file.read_bytes() == CONTENT


def test_wrong_digest_leaves_no_file(server: ReleaseServer, file: Path) -> None:
    with pytest.raises(NotDownloaded, match=f"has the SHA-256 {DIGEST}, expected 00"):
        download(server, file, digest="0" * 64)

    assert not file.exists()
    assert len(server.asked) == 1


def test_missing_file_is_reported(server: ReleaseServer, file: Path) -> None:
    server.files.clear()

    with pytest.raises(NotDownloaded, match=r"a\.tar\.gz: HTTP Error 404"):
        download(server, file)

    assert not file.exists()


def test_broken_connection_is_resumed_at_once(server: ReleaseServer, file: Path) -> None:
    server.cut_to, server.cuts = 100_000, 2

    download(server, file)

    assert file.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=100000-", "bytes=200000-"]


def test_half_a_file_is_completed_by_the_next_call(server: ReleaseServer, file: Path) -> None:
    server.cut_to = 100_000
    with pytest.raises(NotDownloaded, match="the connection ended after 100000 of 300000 bytes"):
        download(server, file, replace(LIMITS, tries=1))

    download(server, file)

    assert file.read_bytes() == CONTENT
    assert server.asked[1] == ("/a.tar.gz", "bytes=100000-")


def test_complete_file_of_an_earlier_call_is_not_asked_for(server: ReleaseServer, file: Path) -> None:
    file.write_bytes(CONTENT)

    download(server, file)

    assert server.asked == []


@pytest.mark.parametrize("beginning", [b"of another file", CONTENT + b"and more", CONTENT[::-1]])
def test_beginning_of_another_file_is_given_up(server: ReleaseServer, file: Path, beginning: bytes) -> None:
    file.write_bytes(beginning)

    download(server, file)

    assert file.read_bytes() == CONTENT


def test_server_without_ranges_sends_the_file_anew(server: ReleaseServer, file: Path) -> None:
    server.ranges = False
    file.write_bytes(CONTENT[:1000])

    download(server, file)

    assert file.read_bytes() == CONTENT


@pytest.mark.parametrize("says_length", [True, False])
def test_file_that_is_too_large_is_given_up(server: ReleaseServer, file: Path, says_length: bool) -> None:
    server.says_length = says_length

    with pytest.raises(NotDownloaded, match="more than 0 MiB are not taken"):
        download(server, file, replace(LIMITS, bytes=1000))

    assert not file.exists() or file.stat().st_size <= 1000


def test_server_that_falls_silent_is_given_up(server: ReleaseServer, file: Path) -> None:
    server.silence = 5.0

    with pytest.raises(NotDownloaded, match="timed out"):
        download(server, file, replace(LIMITS, silence=0.05))


def test_slow_server_is_given_up_at_the_deadline_and_resumed(server: ReleaseServer, file: Path) -> None:
    seconds = itertools.count()
    with pytest.raises(NotDownloaded, match="not done in time"):
        fetch(
            f"{server.url}/a.tar.gz",
            file,
            DIGEST,
            QUIET,
            replace(LIMITS, whole=1.0),
            clock=lambda: float(next(seconds)),
        )
    begun = file.stat().st_size

    download(server, file)

    assert 0 < begun < len(CONTENT)
    assert file.read_bytes() == CONTENT


def test_proxy_of_the_environment_is_used(server: ReleaseServer, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)

    fetch("http://releases.invalid/a.tar.gz", file, DIGEST, QUIET)

    assert server.asked == [("http://releases.invalid/a.tar.gz", None)]


def test_authority_of_the_environment_is_trusted(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path, "downloads")
    with serving(authority.sign("server", host="127.0.0.1")) as server:
        server.put("/a.tar.gz", CONTENT)
        with pytest.raises(NotDownloaded, match="CERTIFICATE_VERIFY_FAILED"):
            download(server, file)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.pem))

        download(server, file)

    assert file.read_bytes() == CONTENT


def test_redirect_away_from_tls_is_refused(
    server: ReleaseServer, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "downloads")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pem))
    with serving(authority.sign("server", host="127.0.0.1")) as secure:
        secure.redirects["/a.tar.gz"] = f"{server.url}/a.tar.gz"
        with pytest.raises(NotDownloaded, match="redirected to an address without TLS"):
            download(secure, file)

    assert server.asked == []


def test_redirect_is_followed_with_the_range(server: ReleaseServer, file: Path) -> None:
    server.put("/elsewhere", CONTENT)
    server.redirects["/a.tar.gz"] = f"{server.url}/elsewhere"
    file.write_bytes(CONTENT[:1000])

    download(server, file)

    assert server.asked[-1] == ("/elsewhere", "bytes=1000-")


def test_list_of_digests_may_have_comments_and_signs_of_binary_files(server: ReleaseServer) -> None:
    server.put("/SHA256SUMS", f"# of a release\n\n{DIGEST.upper()} *a.tar.gz\n{'1' * 64}  ./b.zip\n".encode())

    assert sums_in(text_of(f"{server.url}/SHA256SUMS")) == {"a.tar.gz": DIGEST, "b.zip": "1" * 64}


@pytest.mark.parametrize("line", ["<html>", f"{DIGEST[:-1]}  a", DIGEST, f"{DIGEST}  a b"])
def test_list_with_another_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is no SHA-256"):
        sums_in(f"{DIGEST}  a\n{line}\n")


def test_list_that_is_too_large_or_no_text_is_refused(server: ReleaseServer) -> None:
    server.put("/large", b"0" * (1 << 21))
    server.put("/bytes", b"\xff\xfe")

    for name in ("large", "bytes"):
        with pytest.raises(NotDownloaded, match=name):
            text_of(f"{server.url}/{name}")


@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", tar_gz), ("a.zip", zipped)])
def test_only_the_named_file_is_unpacked(name: str, pack: type, tmp_path: Path) -> None:
    archive = tmp_path / name
    archive.write_bytes(pack({"../../evil": b"evil", "a/etcdctl": b"no", "a/etcd": b"yes", "a/etcd/x": b"no"}))
    target = tmp_path / "unpacked" / "etcd"
    target.parent.mkdir()

    unpack(archive, "a/etcd", target)

    assert target.read_bytes() == b"yes"
    assert target.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted([name, "unpacked", "etcd"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tar.gz", tar_gz({"other": b""})),
        ("a.tar.gz", tar_gz({}, links={"etcd": "/etc/passwd"})),
        ("a.tar.gz", tar_gz({"etcd": bytes(2000)})),
        ("a.tar.gz", tar_gz({"etcd": CONTENT[:900]})[:-300]),
        ("a.tar.gz", b"no archive"),
        ("a.zip", zipped({"other": b""})),
        ("a.zip", zipped({"etcd": bytes(2000)})),
        ("a.zip", b"no archive"),
    ],
)
def test_archive_without_the_program_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(NotDownloaded, match=name):
        unpack(tmp_path / name, "etcd", tmp_path / "etcd", replace(LIMITS, bytes=1000))
