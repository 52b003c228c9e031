"""All that is wrong with a configuration, as one error: each problem with the path of its field."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from wharfinger.config.model import UNSUPPORTED
from wharfinger.errors import ConfigurationError

Problem = tuple[str, str]
"""Path of the field, and what is wrong with it."""


def problems_of(error: ValidationError, prefix: str = "") -> list[Problem]:
    """Pydantic's findings, with paths as people write them."""
    found: list[Problem] = []
    for entry in error.errors():
        path = _path(entry["loc"], prefix)
        last = entry["loc"][-1] if entry["loc"] else ""
        if entry["type"] != "extra_forbidden":
            found.append((path, entry["msg"].removeprefix("Value error, ")))
        elif last in UNSUPPORTED:
            found.append((path, "is not supported by this version"))
        else:
            found.append((path, "unknown field"))
    return found


def refuse(problems: Iterable[Problem]) -> ConfigurationError:
    """The error that names all problems, in the order of the file."""
    return ConfigurationError("; ".join(f"{path}: {reason}" if path else reason for path, reason in problems))


def _path(location: tuple[int | str, ...], prefix: str) -> str:
    path = prefix
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path
