"""Small files that other programs write: read whole, with a limit, and errors that name the file.

Kubeconfigs, certificates, keys and tokens are read with it. `ConfigurationError` never has any of a file's content.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from wharfinger.errors import ConfigurationError

FILE_LIMIT = 1024 * 1024
"""Bytes of one file. Certificates, tokens and kubeconfigs have some kilobytes."""
SHOWN = 200
"""Characters of a name that a message repeats."""


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
        raise ConfigurationError(f"file {shown} cannot be read: {_reason(error)}; check the path") from error
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


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
