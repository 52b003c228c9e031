"""Saves etcd's snapshot into a file, as `etcdctl snapshot save` does, and removes the oldest files.

etcd streams its database and, as the last 32 bytes, a SHA-256 over it, which `etcdutl snapshot restore` checks. A file
gets its name only when that sum is right and its bytes are on the disk.
"""

from __future__ import annotations

import hashlib
import os
import re
from binascii import a2b_base64
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import BinaryIO

from wharfinger.errors import AccessDenied, ServerError, Unavailable, UserWanted
from wharfinger.etcd.etcd_connection import Connection
from wharfinger.etcd.etcd_gateway import CertificateRefused, NotSent, TokenRefused, Unanswered
from wharfinger.etcd.etcd_json import JsonGateway
from wharfinger.etcd.etcd_wire import Method
from wharfinger.settings import EtcdSettings

SUM = hashlib.sha256().digest_size
IDLE = 60.0
"""Seconds without a byte after which a backup has failed."""
_NAME = re.compile(r"etcd-\d{8}T\d{6}Z\.db")


@dataclass(frozen=True, slots=True)
class SavedSnapshot:
    """A saved snapshot."""

    path: Path
    size: int
    """Bytes, the sum included."""


async def save(settings: EtcdSettings, folder: Path, now: datetime) -> SavedSnapshot:
    """Save a snapshot of the member that answers; its name has the time.

    Raises `AccessDenied`, `UserWanted`, `Unavailable`, and `ServerError` where the file cannot be written or its sum
    is wrong.
    """
    path = folder / f"etcd-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}.db"
    part = path.with_suffix(".part")
    connection = Connection(replace(settings, protocol="json"), JsonGateway, Random())  # noqa: S311 - spreads retries
    try:
        with _created(part) as file:
            size = await write(_blobs(connection), file)
        _name(part, path)
    except UserWanted:  # the caller may know one
        raise
    except AccessDenied as error:
        raise AccessDenied(f"{error}; only etcd's root may save it: --etcd-user root and its password file") from error
    except OSError as error:
        raise ServerError(f"cannot write the backup {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        await connection.close()
    return SavedSnapshot(path, size)


def prune(folder: Path, keep: int) -> list[Path]:
    """Remove all but the newest backups; returns those removed. Raises OSError."""
    found = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    oldest = found[: max(len(found) - keep, 0)]
    for path in oldest:
        path.unlink()
    return oldest


async def _blobs(connection: Connection) -> AsyncIterator[bytes]:
    try:
        async with connection.stream(Method.SNAPSHOT, {}, idle=IDLE) as messages:
            async for message in messages:
                yield a2b_base64(message.get("blob", ""))
    except (NotSent, Unanswered, TokenRefused, CertificateRefused) as error:
        if isinstance(error, TokenRefused) and not connection.settings.user:
            raise UserWanted(f"etcd at {connection.endpoint} wants its user root, and none is named") from error
        raise Unavailable(f"no snapshot from etcd at {connection.endpoint}: {error}") from error


async def write(blobs: AsyncIterator[bytes], file: BinaryIO) -> int:
    """Write what comes to the disk and check its sum; returns the bytes.

    Blocks the event loop while it writes. Raises OSError, and `ServerError` for a wrong sum.
    """
    digest, size, tail = hashlib.sha256(), 0, b""
    async for blob in blobs:
        file.write(blob)
        size += len(blob)
        tail += blob
        digest.update(tail[:-SUM])
        tail = tail[-SUM:]
    if size <= SUM or digest.digest() != tail:
        raise ServerError(f"the snapshot is not whole: its SHA-256 does not fit its {size} bytes")
    file.flush()
    os.fsync(file.fileno())
    return size


def _created(part: Path) -> BinaryIO:
    part.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")


def _name(part: Path, path: Path) -> None:
    """Give it its name, so that it has that after a crash, too."""
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
