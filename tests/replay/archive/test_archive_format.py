"""An archive's blocks: whatever is damaged in them, too much or wrong, is one error that names the byte."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from tests.replay.archive.test_archive import a_pass, some_decisions
from tests.replay.replay_stage import Stage
from tests.scheduling.world import CLUSTER
from wharfinger.errors import InvalidObject
from wharfinger.replay.archive import archive_format
from wharfinger.replay.archive.archived import Archive
from wharfinger.replay.archive.archiving import ArchiveFile
from wharfinger.replay.histories import RunName


async def test_every_flipped_bit_is_an_error_and_nothing_is_cut_off(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)
    await a_pass(stage, file, [], until=2.0)
    whole = file.read_bytes()
    frames = {at for block in archive_format.blocks(file, wanted=()) for at in range(block.begin, block.begin + 17)}
    places = sorted(frames | {*range(len(archive_format.HEADER))} | {*range(0, len(whole), 29)})
    for place in places:
        flipped = whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
        file.write_bytes(flipped)
        for opened in (lambda: Archive.open(file), lambda: ArchiveFile(file, CLUSTER)):
            with pytest.raises(InvalidObject, match=r"damaged at byte \d+|no archive|of version") as caught:
                opened()
            assert str(file) in str(caught.value)
        assert file.read_bytes() == flipped


def test_blocks_stand_where_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "archive"
    block = archive_format.packed(archive_format.RUNS, {"runs": []})
    file.write_bytes(archive_format.HEADER + block + block)

    with pytest.raises(InvalidObject, match=f"damaged at byte {len(archive_format.HEADER + block)}"):
        list(archive_format.blocks(file))


def framed(kind: bytes, raw: bytes, length: int | None = None) -> bytes:
    """A block whose checksums are right, whatever is in it."""
    data = zlib.compress(raw, 9)
    length = len(raw) if length is None else length
    frame = struct.pack(">cIII", kind, length, len(data), zlib.crc32(data))
    own = zlib.crc32(len(archive_format.HEADER).to_bytes(8, "big"), zlib.crc32(frame))
    return archive_format.HEADER + frame + own.to_bytes(4, "big") + data


@pytest.mark.parametrize(
    ("kind", "raw", "length", "said"),
    [
        (b"R", b"x" * 10_000, 100, "another length"),
        (b"R", b"{}", archive_format.MOST_RAW + 1, "no block"),
        (b"X", b"{}", None, "no block"),
        (b"M", b"[" * 200_000 + b"]" * 200_000, None, "recursion limit"),
        (b"M", b"[" + b"[]," * 1_100_000 + b"1]", None, "more than 2,000,000 parts"),
        (b"M", b'["' + b'\\"' * 1_100_000, None, "EOF"),
        (b"M", b"[1]", None, "object"),
        (b"M", b'{"cluster":["c"],"since":0}', None, "cluster"),
        (b"M", b"1" * 6000, None, "number out of range"),
        (b"C", b'{"revision":"1","until":1,"waiting":[],"done":[],"lost":0,"last":null}', None, "revision"),
        (b"C", b'{"revision":NaN,"until":1,"waiting":[],"done":[],"lost":0,"last":null}', None, "revision"),
        (b"C", b'{"revision":1,"until":Infinity,"waiting":[],"done":[],"lost":0,"last":null}', None, "until"),
        (b"S", b'{"revision":1,"first":true,"restored":false,"keys":[["/k",null,1]]}', None, r"keys\.0"),
        (b"S", b'{"revision":1,"first":true,"restored":false,"keys":[["/k",{"base64":"*"},1,1,1]]}', None, r"keys\.0"),
        (b"E", b'{"batches":[[-1,[]]]}', None, r"batches\.0"),
        (b"R", b'{"runs":[1]}', None, r"runs\.0"),
    ],
)
def test_what_a_block_may_not_hold_is_one_error(
    tmp_path: Path, kind: bytes, raw: bytes, length: int | None, said: str
) -> None:
    file = tmp_path / "archive"
    file.write_bytes(framed(kind, raw, length))

    with pytest.raises(InvalidObject, match=f"is damaged at byte 28: .*{said}"):
        list(archive_format.blocks(file))


@pytest.mark.parametrize("started", [float("nan"), "soon"])
async def test_a_run_that_cannot_be_read_is_told_with_its_place(stage: Stage, tmp_path: Path, started: object) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)
    made, place = archive_format.HEADER, 0
    for block in list(archive_format.blocks(file)):
        content = block.content.model_dump(mode="json")
        if block.kind == archive_format.RUNS:
            place, content = len(made), {"runs": [content["runs"][0] | {"started": started}]}
        made += archive_format.packed(block.kind, content, len(made))
    file.write_bytes(made)

    with pytest.raises(InvalidObject, match=f"has a run that .* at byte {place}"):
        list(Archive.open(file).runs())
    assert not ArchiveFile(file, CLUSTER).has(RunName("pod/one", "run-0"))


def test_a_block_that_nobody_would_read_is_not_written() -> None:
    with pytest.raises(InvalidObject, match="too large for an archive"):
        archive_format.packed(archive_format.RUNS, {"runs": [{"name": "x" * archive_format.MOST_RAW}]})


@pytest.mark.parametrize("version", [1, 3])
def test_an_archive_of_another_version_says_what_to_do(tmp_path: Path, version: int) -> None:
    file = tmp_path / "archive"
    file.write_bytes(b"wharfinger replay archive %d\nmore" % version)
    said = f"of version {version}, and this release reads version 2: read it with the release that wrote it"

    for opened in (Archive.open, lambda path: ArchiveFile(path, CLUSTER)):
        with pytest.raises(InvalidObject, match=said):
            opened(file)


def test_values_that_are_no_text_are_kept_as_they_are() -> None:
    kv = archive_format.KeyValue("/registry/pods/default/a\udcff\u00e4", b"\xff\x00", 1, 2, 3)
    event = archive_format.Event(kv)
    gone = archive_format.Event(archive_format.KeyValue("k", b"", 0, 9), deleted=True)

    assert archive_format.event_of(archive_format.plain_event(event)) == event
    assert archive_format.event_of(archive_format.plain_event(gone)) == gone
