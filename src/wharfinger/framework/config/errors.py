"""All that is wrong with a configuration, as one error: each problem with the path of its field.

Some problems of a field are there only because of what another field says, such as a type. A type that cannot be read
has its default while the other fields are checked. What is wrong with them only beside that default was not written by
anyone, and is not reported: `placement.spec.placement` leaves it out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from wharfinger.errors import InvalidConfiguration

Problem = tuple[str, str]
"""Path of the field, and what is wrong with it."""

MOST_PROBLEMS = 100
LONGEST_LINE = 1000
"""Characters of one problem."""
LONGEST_FIELD = 100
"""Characters of an unknown field by which the one that is meant is looked for."""
_MAPPING = re.compile("a valid dictionary( or instance of [A-Za-z]+)?")
_SIMILAR = 0.75
"""From 0 to 1, as `difflib` measures it: from here on a word is taken for a misspelt field."""


def problems_of(
    error: ValidationError,
    prefix: str = "",
    model: type[BaseModel] | None = None,
    harmless: Callable[[ErrorDetails], bool] = lambda _: False,
) -> list[Problem]:
    """Pydantic's findings, with paths as people write them, without the `harmless` ones.

    `model`: what was validated; then an unknown field is answered with the one that is meant.
    """
    found = [entry for entry in error.errors() if not harmless(entry)]
    locations = [entry["loc"] for entry in found]
    return [(_path(entry["loc"], prefix), _reason(entry, model)) for entry in found if not _follows(entry, locations)]


def _follows(entry: ErrorDetails, locations: Sequence[tuple[int | str, ...]]) -> bool:
    """Whether a list is only called too short because pydantic does not count its malformed elements."""
    depth = len(entry["loc"])
    below = (location for location in locations if len(location) > depth)
    return entry["type"] == "too_short" and any(location[:depth] == entry["loc"] for location in below)


def _reason(entry: ErrorDetails, model: type[BaseModel] | None) -> str:
    if entry["type"] == "extra_forbidden":
        meant = _meant(entry["loc"], model) if model is not None else ""
        return "unknown field" + (f"; did you mean {meant}?" if meant else "")
    if entry["type"] == "value_error":  # of our own rules
        return entry["msg"].removeprefix("Value error, ")
    given = entry["input"]
    shown = f", not {json.dumps(given)[:60]}" if isinstance(given, str | int | float) else ""
    return f"{_MAPPING.sub('a mapping', entry['msg'].replace('a valid tuple', 'a list'))}{shown}"


def _meant(location: Sequence[int | str], model: type[BaseModel]) -> str:
    """The field of the innermost model on the way to a location that its last part may stand for; empty for none."""
    models = [model]
    for part in location[:-1]:
        if isinstance(part, str):
            fields = (_aliases(each).get(part) for each in models)
            models = [below for field in fields if field is not None for below in _models_in(field.annotation)]
    known = {alias.lower(): alias for each in models for alias in _aliases(each)}
    close = get_close_matches(str(location[-1]).lower()[:LONGEST_FIELD], known, n=1, cutoff=_SIMILAR)
    return known[close[0]] if close else ""


def _aliases(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field's annotation is made of: its own, its elements', its values'."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


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


class BecauseOf(str):
    """What is wrong with a field because of another one."""

    field: str
    """Path of the other one."""

    __slots__ = ("field",)

    def __new__(cls, field: str, told: str) -> BecauseOf:
        """`told`: the text itself."""
        made = super().__new__(cls, told)
        made.field = field
        return made


def stands(problem: Problem, malformed: Sequence[str]) -> bool:
    """Whether it is to be told beside what is wrong with the fields at these paths by themselves."""
    path, told = problem
    if any(within(path, part) or within(part, path) for part in malformed):
        return False
    return not isinstance(told, BecauseOf) or not any(within(told.field, part) for part in malformed)
