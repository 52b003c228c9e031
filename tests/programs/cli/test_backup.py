"""`wharfinger backup`: what it saves can be restored, and what is not whole gets no name."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.etcd.etcd_process import EtcdProcess
from wharfinger.errors import ServerError, UserWanted
from wharfinger.programs.etcd_backup import prune, save, write


async def streamed(*blobs: bytes) -> AsyncIterator[bytes]:
    for blob in blobs:
        yield blob


@pytest.mark.parametrize("cut", [1, 31, 32, 33, 64])
async def test_sum_is_found_however_the_stream_is_cut(tmp_path: Path, cut: int) -> None:
    whole = b"database" * 9
    whole += hashlib.sha256(whole).digest()
    parts = [whole[at : at + cut] for at in range(0, len(whole), cut)]

    with (tmp_path / "db").open("w+b") as file:
        assert await write(streamed(*parts), file) == len(whole)
        file.seek(0)
        assert file.read() == whole


@pytest.mark.parametrize("damage", ["cut off", "flipped", "empty"])
async def test_snapshot_that_is_not_whole_is_refused(tmp_path: Path, damage: str) -> None:
    whole = b"database" * 9
    whole += hashlib.sha256(whole).digest()
    sent = {"cut off": whole[:-1], "flipped": b"D" + whole[1:], "empty": b""}[damage]

    with (tmp_path / "db").open("wb") as file, pytest.raises(ServerError, match="is not whole"):
        await write(streamed(sent), file)


def test_newest_backups_stay_and_other_files_are_left_alone(tmp_path: Path) -> None:
    names = [f"etcd-2026112{day}T100000Z.db" for day in range(5)]
    for name in (*names, "other.db", "etcd-20261120T100000Z.part"):
        (tmp_path / name).touch()

    assert [path.name for path in prune(tmp_path, 2)] == names[:3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["etcd-20261120T100000Z.part", *names[3:], "other.db"]


@pytest.mark.parametrize("every", ["soon", "1s", "9000h"])
def test_interval_that_makes_no_sense_is_refused(outside: Shell, tmp_path: Path, every: str) -> None:
    answer = outside("backup", str(tmp_path), "--every", every)
    assert (answer.code, answer.out) == (2, "")
    assert f"--every: {every!r}" in answer.err


def test_etcd_that_is_away_is_one_line(outside: Shell, tmp_path: Path) -> None:
    answer = outside("backup", str(tmp_path), "--etcd", "http://127.0.0.1:1")
    assert answer.code == 1
    assert "no snapshot from etcd at http://127.0.0.1:1" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.servers
def test_backup_prints_its_file_and_keeps_the_newest(shell: Shell, url: str, tmp_path: Path) -> None:
    """What it saves is restored in tests/integration/test_restore.py."""
    old = tmp_path / "etcd-20260101T000000Z.db"
    old.touch()
    answer = shell("backup", str(tmp_path), "--keep", "1", "--etcd", url)

    (file,) = tmp_path.glob("etcd-*")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"{file} (")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.servers
async def test_etcd_that_wants_a_user_says_so_and_not_that_root_was_refused(tmp_path: Path) -> None:
    """So that the command can look for root's password on this machine."""
    etcd = EtcdProcess(tmp_path / "etcd").start()
    try:
        for path, body in (
            ("user/add", {"name": "root", "password": "r"}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            etcd.post(f"/v3/auth/{path}", body)
        with pytest.raises(UserWanted):
            await save(etcd.settings, tmp_path / "backups", datetime(2026, 11, 28, tzinfo=UTC))
    finally:
        etcd.kill()
