"""Credentials in files: tokens that are read again, and any reading that blocks, done in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wharfinger.apiserver.credentials import HeldIdentity
from wharfinger.apiserver.files import read_small, shown_path
from wharfinger.errors import ConfigurationError, UpstreamDenied

REREAD = 60.0
"""Seconds after which files are read again. The kubelet writes a new token at 80 % of the life of the old one, which
is 10 minutes at least."""


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
