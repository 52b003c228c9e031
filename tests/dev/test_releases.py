"""Which archive is downloaded from where, and with which digest; on a mirror of archives made here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dev.release_server import ReleaseServer, serving, tar_gz, zipped
from wharfinger.dev import releases
from wharfinger.dev.download import NotDownloaded
from wharfinger.dev.progress import Lines
from wharfinger.dev.releases import ETCD, PLATFORMS, TEMPORAL, Platform, ReleaseArchive, ReleaseSource
from wharfinger.errors import ServerError

LINUX, MAC = Platform("linux", "amd64"), Platform("darwin", "arm64")
ARCHIVE = ReleaseArchive(ETCD, "3.6.99", LINUX)
CONTENT = tar_gz({"etcd-v3.6.99-linux-amd64/etcd": b"etcd", "etcd-v3.6.99-linux-amd64/etcdctl": b"ctl"})


@pytest.fixture
def server() -> Iterator[ReleaseServer]:
    with serving() as served:
        yield served


def obtain(archive: ReleaseArchive, folder: Path, source: ReleaseSource, *programs: str) -> list[str]:
    """The lines that were reported."""
    lines: list[str] = []
    releases.obtain(archive, programs or ("etcd",), folder, folder / "partial", Lines(lines.append), source=source)
    return lines


def test_archives_are_named_as_their_projects_name_them() -> None:
    source, mirror = ReleaseSource({}), ReleaseSource({}, "http://mirror")
    mac = ReleaseArchive(ETCD, "3.6.16", MAC)
    temporal = ReleaseArchive(TEMPORAL, "1.8.2", MAC)

    assert mac.name == "etcd-v3.6.16-darwin-arm64.zip"
    assert mac.member("etcd") == "etcd-v3.6.16-darwin-arm64/etcd"
    assert ReleaseArchive(ETCD, "3.6.16", LINUX).name == "etcd-v3.6.16-linux-amd64.tar.gz"
    assert temporal.name == "temporal_cli_1.8.2_darwin_arm64.tar.gz"
    assert temporal.member("temporal") == "temporal"
    assert source.folder(mac) == "https://github.com/etcd-io/etcd/releases/download/v3.6.16"
    assert source.folder(temporal) == "https://github.com/temporalio/cli/releases/download/v1.8.2"
    assert mirror.folder(mac) == "http://mirror/etcd/v3.6.16"
    assert mirror.folder(temporal) == "http://mirror/temporal/v1.8.2"


def test_programs_of_a_pinned_archive_are_taken_in_one_download(server: ReleaseServer, tmp_path: Path) -> None:
    digest = server.put(f"/etcd/v3.6.99/{ARCHIVE.name}", CONTENT)

    lines = obtain(ARCHIVE, tmp_path, ReleaseSource({ARCHIVE.name: digest}, server.url), "etcd", "etcdctl")

    assert [(tmp_path / name).read_bytes() for name in ("etcd", "etcdctl")] == [b"etcd", b"ctl"]
    assert len(server.asked) == 1
    assert lines[0] == f"downloading {ARCHIVE.name}"
    assert list((tmp_path / "partial").iterdir()) == []


def test_archive_for_macos_is_unzipped(server: ReleaseServer, tmp_path: Path) -> None:
    archive = ReleaseArchive(ETCD, "3.6.99", MAC)
    digest = server.put(f"/etcd/v3.6.99/{archive.name}", zipped({archive.member("etcd"): b"for a Mac"}))

    obtain(archive, tmp_path, ReleaseSource({archive.name: digest}, server.url))

    assert (tmp_path / "etcd").read_bytes() == b"for a Mac"


def test_pin_goes_before_the_list_of_the_mirror(server: ReleaseServer, tmp_path: Path) -> None:
    digest = server.put(f"/etcd/v3.6.99/{ARCHIVE.name}", CONTENT)
    server.put("/etcd/v3.6.99/SHA256SUMS", f"{digest}  {ARCHIVE.name}\n".encode())

    with pytest.raises(NotDownloaded, match=f"has the SHA-256 {digest}, expected 00"):
        obtain(ARCHIVE, tmp_path, ReleaseSource({ARCHIVE.name: "0" * 64}, server.url))

    assert not (tmp_path / "etcd").exists()


def test_without_a_pin_the_list_of_the_mirror_counts_and_that_is_reported(
    server: ReleaseServer, tmp_path: Path
) -> None:
    digest = server.put(f"/etcd/v3.6.99/{ARCHIVE.name}", CONTENT)
    server.put("/etcd/v3.6.99/SHA256SUMS", f"{digest}  {ARCHIVE.name}\n".encode())

    lines = obtain(ARCHIVE, tmp_path, ReleaseSource({}, server.url))

    assert lines[0] == (
        f"no digest of {ARCHIVE.name} is pinned: it is checked with SHA256SUMS of the mirror that "
        "WHARFINGER_DOWNLOADS names"
    )
    assert (tmp_path / "etcd").read_bytes() == b"etcd"


def test_without_a_pin_the_official_list_is_asked_for_over_tls(server: ReleaseServer, tmp_path: Path) -> None:
    lines: list[str] = []

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("https_proxy", server.url)  # it takes no CONNECT
        environment.delenv("no_proxy", raising=False)
        with pytest.raises(NotDownloaded, match="SHA256SUMS"):
            releases.obtain(ARCHIVE, ["etcd"], tmp_path, tmp_path, Lines(lines.append), source=ReleaseSource({}))

    assert lines == [f"no digest of {ARCHIVE.name} is pinned: it is checked with SHA256SUMS of the release, over TLS"]
    assert server.asked == []


@pytest.mark.parametrize("listed", ["", f"{'0' * 64}  another.tar.gz\n", "<html>\n"])
def test_archive_without_any_digest_is_not_downloaded(listed: str, server: ReleaseServer, tmp_path: Path) -> None:
    server.put(f"/etcd/v3.6.99/{ARCHIVE.name}", CONTENT)
    if listed:
        server.put("/etcd/v3.6.99/SHA256SUMS", listed.encode())

    with pytest.raises(NotDownloaded, match="SHA256SUMS"):
        obtain(ARCHIVE, tmp_path, ReleaseSource({}, server.url))

    assert [path for path, _ in server.asked] == ["/etcd/v3.6.99/SHA256SUMS"]


def test_system_without_archives_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotDownloaded, match="etcd is not released for freebsd on amd64"):
        obtain(ReleaseArchive(ETCD, "3.6.99", Platform("freebsd", "amd64")), tmp_path, ReleaseSource({}))


def test_variables_name_the_mirror_and_replace_the_pins(tmp_path: Path) -> None:
    pins = tmp_path / "pins"
    pins.write_text(f"{'a' * 64}  x.zip\n")

    source = ReleaseSource.from_environment(
        {"WHARFINGER_DOWNLOADS": "http://m/x/", "WHARFINGER_DOWNLOADS_SHA256": str(pins)}
    )

    assert source == ReleaseSource({"x.zip": "a" * 64}, "http://m/x")
    assert ReleaseSource.from_environment({}).mirror == ""


@pytest.mark.parametrize("mirror", ["ftp://host/x", "/srv/mirror", "http://", "https://me:secret@host/x"])
def test_wrong_mirror_is_refused_without_naming_its_password(mirror: str) -> None:
    with pytest.raises(ServerError, match="WHARFINGER_DOWNLOADS must be") as raised:
        ReleaseSource.from_environment({"WHARFINGER_DOWNLOADS": mirror})

    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("content", [None, "no digest\n"])
def test_wrong_file_of_pins_is_named(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "pins").write_text(content)

    with pytest.raises(ServerError, match=f"WHARFINGER_DOWNLOADS_SHA256={tmp_path}/pins: "):
        ReleaseSource.from_environment({"WHARFINGER_DOWNLOADS_SHA256": str(tmp_path / "pins")})


def test_release_check_names_each_archive_without_a_pin(capsys: pytest.CaptureFixture[str]) -> None:
    names = [ReleaseArchive(TEMPORAL, "9.9", one).name for one in PLATFORMS]

    assert releases.main([], lambda _: "9.9", ReleaseSource(dict.fromkeys(names, "0" * 64))) == 1

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("no digest is pinned of etcd-v9.9-linux-amd64.tar.gz: ")


def test_release_check_passes_with_all_pins(capsys: pytest.CaptureFixture[str]) -> None:
    names = [ReleaseArchive(project, "9.9", one).name for project in releases.PROJECTS for one in PLATFORMS]

    assert releases.main([], lambda _: "9.9", ReleaseSource(dict.fromkeys(names, "0" * 64))) == 0
    assert capsys.readouterr().out == ""


def test_pins_are_printed_as_the_lists_of_the_releases_have_them(
    server: ReleaseServer, capsys: pytest.CaptureFixture[str]
) -> None:
    archives = [ReleaseArchive(project, "9.9", one) for project in releases.PROJECTS for one in PLATFORMS]
    for project in releases.PROJECTS:
        lines = [f"{'b' * 64}  {one.name}\n" for one in archives if one.project is project]
        server.put(f"/{project.name}/v9.9/{project.sums}", "".join(lines).encode())

    assert releases.main(["--fetch"], lambda _: "9.9", ReleaseSource({}, server.url)) == 0
    assert capsys.readouterr().out.splitlines() == [f"{'b' * 64}  {one.name}" for one in archives]


@pytest.mark.parametrize("here", PLATFORMS)
def test_temporal_of_go_mod_has_a_pin(here: Platform) -> None:
    from wharfinger.dev.binaries import released

    assert ReleaseArchive(TEMPORAL, released(TEMPORAL), here).name in ReleaseSource.from_environment({}).pins
