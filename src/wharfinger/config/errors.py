"""All that is wrong with a configuration, as one error: each problem with the path of its field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from wharfinger.errors import InvalidConfiguration

Problem = tuple[str, str]
"""Path of the field, and what is wrong with it."""

MOST_PROBLEMS = 100
LONGEST_LINE = 1000
"""Characters of one problem."""


def problems_of(error: ValidationError, prefix: str = "") -> list[Problem]:
    """Pydantic's findings, with paths as people write them."""
    found = error.errors()
    locations = [entry["loc"] for entry in found]
    return [(_path(entry["loc"], prefix), _reason(entry)) for entry in found if not _follows(entry, locations)]


def _follows(entry: ErrorDetails, locations: Sequence[tuple[int | str, ...]]) -> bool:
    """Whether a list is only called too short because pydantic does not count its malformed elements."""
    depth = len(entry["loc"])
    below = (location for location in locations if len(location) > depth)
    return entry["type"] == "too_short" and any(location[:depth] == entry["loc"] for location in below)


def _reason(entry: ErrorDetails) -> str:
    if entry["type"] == "extra_forbidden":
        return "unknown field"
    if entry["type"] == "value_error":  # of our own rules
        return entry["msg"].removeprefix("Value error, ")
    given = entry["input"]
    shown = f", not {json.dumps(given)[:60]}" if isinstance(given, str | int | float) else ""
    return f"{entry['msg'].replace('a valid tuple', 'a list')}{shown}"


def refuse(problems: Iterable[Problem]) -> InvalidConfiguration:
    """The error that names all problems, each once, as text that can be written anywhere.

    Of more than `MOST_PROBLEMS` the rest is only counted.
    """
    lines = list(dict.fromkeys(_line(path, reason) for path, reason in problems))
    more = len(lines) - MOST_PROBLEMS
    return InvalidConfiguration([*lines[:MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])])


def _line(path: str, reason: str) -> str:
    line = " ".join(f"{path}: {reason}".removeprefix(": ").split())
    # A user may write any name of a field: half of a surrogate pair cannot be stored, a megabyte not be read.
    return line.encode(errors="backslashreplace").decode()[:LONGEST_LINE]


def within(path: str, part: str) -> bool:
    """Whether a path is that part, or inside it."""
    return path == part or path.startswith((f"{part}.", f"{part}["))


def _path(location: tuple[int | str, ...], prefix: str) -> str:
    path = prefix
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path
