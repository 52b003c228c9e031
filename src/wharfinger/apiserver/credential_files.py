"""Files that other programs write for us: kubeconfigs, certificates, keys, and tokens, which are read again.

A file is read whole, up to a limit, and in a thread where the event loop runs. `ConfigurationError` names the file and
never has any of its content.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wharfinger.apiserver.credentials import HeldIdentity
from wharfinger.errors import ConfigurationError, UpstreamDenied

FILE_LIMIT = 1024 * 1024
"""Bytes of one file. Certificates, tokens and kubeconfigs have some kilobytes."""
SHOWN = 200
"""Characters of a name that a message repeats."""
REREAD = 60.0
"""Seconds after which files are read again. The kubelet writes a new token at 80 % of the life of the old one, which
is 10 minutes at least."""


def read_small(path: Path) -> bytes:
    """The content of a file of at most `FILE_LIMIT` bytes. Blocks. Raises `ConfigurationError`."""
    shown = shown_path(path)
    try:
        with path.open("rb") as file:
            content = file.read(FILE_LIMIT + 1)
    except FileNotFoundError:
        raise ConfigurationError(f"file {shown} does not exist; correct the path, or create it") from None
    except IsADirectoryError:
        raise ConfigurationError(f"{shown} is a directory; name a file in it") from None
    except PermissionError as error:
        raise ConfigurationError(f"file {shown} may not be read by user id {os.geteuid()}; change its owner") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigurationError(
            f"file {shown} cannot be read: {getattr(error, 'strerror', None) or error}; check the path"
        ) from error
    if len(content) > FILE_LIMIT:
        raise ConfigurationError(f"file {shown} is larger than {FILE_LIMIT} bytes; is it the right file?")
    return content


def open_to_all(path: Path) -> bool:
    """Whether every user of this machine may read the file; False when that cannot be seen."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def shown_path(path: Path) -> str:
    """A path for one line of a message."""
    text = str(path)
    return text if text.isprintable() else quoted(text)


def quoted(text: str) -> str:
    """A name from a file for one line of a message: in quotes, bounded, controls spelt out."""
    return json.dumps(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


@dataclass(frozen=True, slots=True)
class FileSource:
    """A `Source` that reads files."""

    title: str
    reading: Callable[[], HeldIdentity]
    """Blocks. Raises `ConfigurationError`."""

    async def read(self) -> HeldIdentity:
        """What the files have now. Raises `UpstreamDenied`."""
        try:
            return await asyncio.to_thread(self.reading)
        except ConfigurationError as error:
            raise UpstreamDenied(str(error)) from error


def read_token(path: Path) -> str:
    """The bearer token in a file. Blocks. Raises `ConfigurationError`."""
    shown = shown_path(path)
    try:
        text = read_small(path).decode("ascii")
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"file {shown} has no bearer token: it is no ASCII text; name the right file"
        ) from None
    if not text.strip():
        raise ConfigurationError(f"file {shown} is empty; whoever writes the token must write it there")
    try:
        return checked_token(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"file {shown} {error}") from None


def checked_token(text: str) -> str:
    """The token without the space around it.

    Raises `ConfigurationError`, whose text follows the name of a field or a file, for what no HTTP header can carry.
    """
    token = text.strip()
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigurationError("has no bearer token: there are spaces or control characters in it; copy it again")
    return token
