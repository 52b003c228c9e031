"""An archive's file: a line that says what it is, then blocks that are compressed and have a checksum each.

::

    M  meta          cluster, format of its objects
    S  state         keys at one revision; the first block of a state begins a segment
    E  events        changes, revision by revision, up to a revision
    R  runs          what was decided
    C  checkpoint    up to where all of the above is complete

A file is only appended to. A block that was not written whole, at the end, is cut off when it is written on; a block
whose checksum is wrong ends reading with an error that names the place.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from wharfinger.errors import InvalidObject
from wharfinger.registry.store import Event, KeyValue

HEADER = b"wharfinger replay archive 1\n"
META, STATE, EVENTS, RUNS, CHECKPOINT = b"M", b"S", b"E", b"R", b"C"
KINDS = (META, STATE, EVENTS, RUNS, CHECKPOINT)
BLOCK = 2 << 20
"""Bytes of a block before it is compressed, about."""
MOST_RAW = 64 << 20
"""Bytes of a block that is read, at most: one object has up to 1.5 MiB, one cohort's decisions about as much."""
LEVEL = 6
"""Of compression."""

_FRAME = struct.Struct(">cIII")
"""Kind, bytes of the content, bytes as compressed, CRC-32 of those."""


class Block(NamedTuple):
    """One block, read."""

    kind: bytes
    content: Any
    end: int
    """Where the next one begins."""


def packed(kind: bytes, content: Any) -> bytes:
    """A block as it is written."""
    raw = json.dumps(content, separators=(",", ":")).encode()
    data = zlib.compress(raw, LEVEL)
    return _FRAME.pack(kind, len(raw), len(data), zlib.crc32(data)) + data


def blocks(path: Path, *, torn: bool = False) -> Iterator[Block]:
    """The blocks of a file, in order. Raises `InvalidObject`.

    `torn`: a last block that is not whole ends the file; else that is an error, too.
    """
    with path.open("rb") as file:
        if file.read(len(HEADER)) != HEADER:
            raise InvalidObject(f"{path} is no archive of replay that this version can read")
        while (block := _block(file, path, torn=torn)) is not None:
            yield block


def _block(file: IO[bytes], path: Path, *, torn: bool) -> Block | None:
    begin = file.tell()
    frame = file.read(_FRAME.size)
    if not frame:
        return None
    data = b""
    if len(frame) == _FRAME.size:
        kind, length, size, checksum = _FRAME.unpack(frame)
        if kind not in KINDS or length > MOST_RAW or size > MOST_RAW:
            raise InvalidObject(f"{path} is damaged at byte {begin}: what stands there is no block")
        data = file.read(size)
        if len(data) == size:
            if zlib.crc32(data) != checksum:
                raise InvalidObject(f"{path} is damaged at byte {begin}: the checksum is another one")
            return Block(kind, _content(data, length, path, begin), file.tell())
    if torn:
        return None
    raise InvalidObject(f"{path} ends in the middle of a block, at byte {begin}: `wharfinger archive` writes it on")


def _content(data: bytes, length: int, path: Path, begin: int) -> Any:
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(data, length + 1)
        if len(raw) != length:
            raise InvalidObject(f"{path} is damaged at byte {begin}: the block has another length than it says")
        return json.loads(raw)
    except (zlib.error, ValueError) as error:
        raise InvalidObject(f"{path} is damaged at byte {begin}: {error}") from error


# --- keys and their values ------------------------------------------------------------------------


def plain_key(kv: KeyValue) -> list[Any]:
    """A key as it is kept."""
    return [kv.key, _plain(kv.value), kv.create_revision, kv.mod_revision, kv.lease]


def plain_event(event: Event) -> list[Any]:
    """A change as it is kept."""
    return [event.kv.key, None, 0, event.kv.mod_revision, 0] if event.deleted else plain_key(event.kv)


def event_of(plain: list[Any]) -> Event:
    """The change."""
    key, value, create_revision, mod_revision, lease = plain
    if value is None:
        return Event(KeyValue(key, b"", 0, mod_revision), deleted=True)
    return Event(KeyValue(key, _bytes(value), create_revision, mod_revision, lease))


def _plain(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _bytes(value: str | dict[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])
