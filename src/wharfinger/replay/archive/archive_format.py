"""An archive's file: a line that says what it is, then blocks that are compressed and have checksums.

::

    M  meta          cluster, and where it begins
    S  state         keys at one revision; the first block of a state begins a segment
    E  events        changes, revision by revision, up to a revision
    R  runs          what was decided
    C  checkpoint    up to where all of the above is complete

A file is only appended to. Each block begins with a frame: its kind, its lengths, a checksum of its data, and one of
the frame itself and of its place in the file. So a block that was not written whole, at the end, is told from one that
is damaged: the former is cut off when the file is written on, the latter is always an error that names the place.
What a block may hold (`CONTENTS`) is checked as it is read.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import Event, KeyValue

VERSION = 2
HEADER = b"wharfinger replay archive 2\n"
META, STATE, EVENTS, RUNS, CHECKPOINT = b"M", b"S", b"E", b"R", b"C"
KINDS = (META, STATE, EVENTS, RUNS, CHECKPOINT)
BLOCK = 2 << 20
"""Bytes of a block before it is compressed, about."""
MOST_RAW = 64 << 20
"""Bytes of a block, at most: one object has up to 1.5 MiB, one cohort's decisions about as much."""
MOST_PARTS = 2_000_000
"""Strings, commas and opening brackets of a block that is read, at most: each takes memory of its own."""
LEVEL = 6
"""Of compression."""

_FRAME = struct.Struct(">cIIII")
"""Kind, bytes of the content, bytes as compressed, CRC-32 of those, CRC-32 of this and of where the block begins."""
_PARTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,]', re.DOTALL)
_VERSION = re.compile(rb"wharfinger replay archive ([0-9]{1,9})\n")


class Block(NamedTuple):
    """One block, read."""

    kind: bytes
    content: Any
    end: int
    """Where the next one begins."""
    begin: int


def packed(kind: bytes, content: Any, at: int = len(HEADER)) -> bytes:
    """A block as it is written, at this byte of the file. Raises `InvalidObject` for one that nobody would read."""
    raw = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    if len(raw) > MOST_RAW:
        raise InvalidObject(f"a block of {len(raw) >> 20} MiB is too large for an archive")
    data = zlib.compress(raw, LEVEL)
    frame = _FRAME.pack(kind, len(raw), len(data), zlib.crc32(data), 0)
    return frame[:-4] + _checksum(frame, at).to_bytes(4, "big") + data


def _checksum(frame: bytes, at: int) -> int:
    return zlib.crc32(at.to_bytes(8, "big"), zlib.crc32(frame[:-4]))


def blocks(
    path: Path, *, torn: bool = False, wanted: Collection[bytes] = KINDS, most: int = MOST_RAW, begin: int = 0
) -> Iterator[Block]:
    """The blocks of a file, in order. Raises `InvalidObject`.

    `torn`: a last block that is not whole ends the file; else that is an error, too. `wanted`: kinds whose content is
    read; others are only checked, and have None. `most`: bytes of a block, at most. `begin`: where a block begins;
    0: the first one.
    """
    with path.open("rb") as file:
        _check_header(file.read(len(HEADER)), path)
        if begin:
            file.seek(begin)
        while (block := _block(file, path, wanted, most, torn=torn)) is not None:
            yield block


def _check_header(line: bytes, path: Path) -> None:
    if line == HEADER:
        return
    other = _VERSION.match(line)
    if other is not None:
        raise InvalidObject(
            f"{path} is an archive of version {int(other[1])}, and this release reads version {VERSION}: read it with "
            "the release that wrote it, or write another archive"
        )
    raise InvalidObject(f"{path} is no archive of replay")


def _block(file: IO[bytes], path: Path, wanted: Collection[bytes], most: int, *, torn: bool) -> Block | None:
    begin = file.tell()
    frame = file.read(_FRAME.size)
    if not frame:
        return None
    if len(frame) == _FRAME.size:
        kind, length, size, checksum, own = _FRAME.unpack(frame)
        if own != _checksum(frame, begin):
            raise _damaged(path, begin, "the checksum of what stands there is another one")
        if kind not in KINDS or length > MOST_RAW or size > MOST_RAW:
            raise _damaged(path, begin, "what stands there is no block")
        if max(length, size) > most:
            raise InvalidObject(
                f"{path} has a block of {length >> 20} MiB at byte {begin}, for which --memory-limit is too little"
            )
        if size <= os.fstat(file.fileno()).st_size - file.tell():
            data = file.read(size)
            if zlib.crc32(data) != checksum:
                raise _damaged(path, begin, "the checksum is another one")
            content = _content(kind, data, length, (path, begin)) if kind in wanted else None
            return Block(kind, content, file.tell(), begin)
    if torn:
        return None
    raise InvalidObject(f"{path} ends in the middle of a block, at byte {begin}: `wharfinger archive` writes it on")


def _damaged(path: Path, begin: int, why: str) -> InvalidObject:
    cut = f"`truncate --size {begin}` keeps what is before it"
    return InvalidObject(f"{path} is damaged at byte {begin}: {why}; {cut}, if there is no better copy")


def _content(kind: bytes, data: bytes, length: int, place: tuple[Path, int]) -> Any:
    """Checked before it is made: its length as it is decompressed, then how much is in it, then what."""
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(data, length + 1)
    except zlib.error as error:
        raise _damaged(*place, str(error)) from error
    if len(raw) != length:
        raise _damaged(*place, "the block has another length than it says")
    if _too_many(raw):
        raise _damaged(*place, f"the block has more than {MOST_PARTS:,} parts")
    try:
        return CONTENTS[kind].model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise _damaged(*place, f"{f'{where}: ' if where else ''}{first['msg']}") from error


def _too_many(raw: bytes) -> bool:
    if sum(map(raw.count, (b",", b"[", b"{", b'"'))) <= MOST_PARTS:
        return False
    return any(count > MOST_PARTS for count, _ in enumerate(_PARTS.finditer(raw), start=1))


# --- what blocks hold -----------------------------------------------------------------------------


def _is_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    return text


_Base64 = Annotated[dict[Literal["base64"], Annotated[str, AfterValidator(_is_base64)]], Field(min_length=1)]
_Text = str | _Base64
_Revision = Annotated[int, Field(ge=0, lt=1 << 63)]
_Key = tuple[_Text, _Text | None, _Revision, _Revision, Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]]
_Kept = tuple[_Text, _Text, _Revision, _Revision, Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]]


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True)


class MetaBlock(_Checked):
    """Of the first block."""

    cluster: str
    since: Annotated[FiniteFloat, Field(ge=0)]
    """Runs that began before are not in it; seconds since 1970."""


class StateBlock(_Checked):
    """Some keys at one revision."""

    revision: _Revision
    first: bool
    """Whether a segment begins."""
    restored: bool
    """Whether it begins because etcd was restored from a backup, or is another one."""
    keys: list[_Kept]


class EventsBlock(_Checked):
    """Changes by revision."""

    batches: list[tuple[_Revision, list[_Key]]]


class RunsBlock(_Checked):
    """What was decided: `recorded.DecidedRun`."""

    runs: list[dict[str, Any]]


class CheckpointBlock(_Checked):
    """A pass is complete."""

    revision: _Revision
    until: Annotated[FiniteFloat, Field(ge=0)]
    waiting: list[tuple[str, str]]
    """Workflow and run ids of runs that have not decided, and were not waited for already."""
    done: list[str]
    """Run ids that are not waited for any more."""
    lost: Annotated[int, Field(ge=0)]
    """Runs that were taken before they were read, of all passes so far."""
    last: tuple[_Text, _Revision, _Revision, int] | None
    """By which etcd is known again: a key, a revision at which it is read, its mod revision, the value's CRC-32."""


CONTENTS: dict[bytes, type[BaseModel]] = {
    META: MetaBlock,
    STATE: StateBlock,
    EVENTS: EventsBlock,
    RUNS: RunsBlock,
    CHECKPOINT: CheckpointBlock,
}


# --- keys and their values ------------------------------------------------------------------------


def plain_key(kv: KeyValue) -> list[Any]:
    """A key as it is kept."""
    return [plain_text(kv.key), _plain(kv.value), kv.create_revision, kv.mod_revision, kv.lease]


def plain_event(event: Event) -> list[Any]:
    """A change as it is kept."""
    return [plain_text(event.kv.key), None, 0, event.kv.mod_revision, 0] if event.deleted else plain_key(event.kv)


def event_of(plain: list[Any]) -> Event:
    """The change."""
    key, value, create_revision, mod_revision, lease = plain
    if value is None:
        return Event(KeyValue(text_of(key), b"", 0, mod_revision), deleted=True)
    return Event(KeyValue(text_of(key), _bytes(value), create_revision, mod_revision, lease))


def plain_text(key: str) -> str | dict[str, str]:
    """A key's name as it is kept; it may have bytes that are no text."""
    return key if key.isascii() else _plain(key.encode(errors="surrogateescape"))


def text_of(key: str | dict[str, str]) -> str:
    """The key's name."""
    return key if isinstance(key, str) else _bytes(key).decode(errors="surrogateescape")


def _plain(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _bytes(value: str | dict[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])
