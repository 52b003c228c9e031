"""What users write as pydantic models: their base, types of fields, and how they are read.

Fields are spelled in camelCase, unknown ones are refused, and null means absent.

Reading does not stop at the first malformed part, and reports all that is wrong as one error. A malformed field would
hide what is wrong beside it, because pydantic's models give no object then. So what is malformed is reported with the
path of its field, taken out, and the rest validated again, until it is well-formed.

Some problems of a field are there only because of what another field says, such as a type. A type that cannot be read
has its default while the other fields are checked. What is wrong with them only beside that default was not written by
anyone, and is not reported: `placement.spec.placement` leaves it out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from wharfinger.errors import InvalidConfiguration, InvalidObject
from wharfinger.objects.model.durations import parse_duration, written_duration

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


Integer = Annotated[int, Field(strict=True)]
"""A whole number; text and booleans are none, as in every Kubernetes object."""
Boolean = Annotated[bool, Field(strict=True)]
"""`true` or `false`; text and numbers are neither."""
Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(written_duration, return_type=str),
    WithJsonSchema({"type": "string"}),
]
"""A field that is written as text and held in nanoseconds; its default is given in nanoseconds."""


class ConfigPart(BaseModel):
    """A mapping inside a configuration."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, written: Any) -> Any:
        if isinstance(written, Mapping):
            return {key: value for key, value in written.items() if value is not None}
        return written


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

    def __new__(cls, field: str, message: str) -> BecauseOf:
        """`message`: the text itself."""
        made = super().__new__(cls, message)
        made.field = field
        return made


def stands(problem: Problem, malformed: Sequence[str]) -> bool:
    """Whether it is reported beside what is wrong with the fields at these paths by themselves."""
    path, message = problem
    if any(within(path, part) or within(part, path) for part in malformed):
        return False
    return not isinstance(message, BecauseOf) or not any(within(message.field, part) for part in malformed)


STORED = "stored"
"""Context in which what is stored is read: rules that hold only for what users write now are left out."""
DEPTH_LIMIT = 100
"""Levels of what is read, as of YAML: stored JSON may have more than the stack."""

M = TypeVar("M", bound=BaseModel)


def understood(
    written: Mapping[str, Any],
    model: type[M],
    *,
    context: str | None = None,
    harmless: Callable[[ErrorDetails], bool] = lambda _: False,
) -> tuple[M, list[Problem]]:
    """What is well-formed of a configuration, and what is not. Every field of the model has a default.

    `context`: pydantic's, for the model's validators. `harmless`: which findings are no problems. Raises
    InvalidConfiguration for what is no mapping, or nested too deeply.
    """
    rest = _plain(written, DEPTH_LIMIT)
    if not isinstance(rest, dict):
        raise refuse([("", "is not a mapping")])
    problems: list[Problem] | None = None
    while True:
        try:
            return model.model_validate(rest, by_alias=True, by_name=False, context=context), problems or []
        except ValidationError as error:
            if problems is None:
                problems = problems_of(error, model=model, harmless=harmless)
            for entry in error.errors():
                _drop(rest, entry["loc"])


def stored(
    written: object, model: type[M], where: str = "", together: Callable[[M], Iterable[Problem]] | None = None
) -> M:
    """What was stored, perhaps by another release or another client, in the context `STORED`.

    A field that is unknown here counts for nothing, and an empty word is the field's default, as with an API server.
    `where`: path of what is read, with its dot. `together`: finds what is wrong with fields beside each other. Raises
    `InvalidObject`, which names the first field that is wrong.
    """
    if not isinstance(written, Mapping | None):
        raise InvalidObject(f"{where.removesuffix('.')} is no mapping")
    try:
        fields, problems = understood(written or {}, model, context=STORED, harmless=_harmless)
    except InvalidConfiguration as error:
        raise InvalidObject(f"{where}{error}") from error
    for path, message in (*problems, *(together(fields) if together is not None else ())):
        raise InvalidObject(f"{where}{path}: {message}")
    return fields


def _harmless(entry: ErrorDetails) -> bool:
    return entry["type"] == "extra_forbidden" or (entry["type"] == "literal_error" and entry["input"] == "")


def _plain(value: Any, levels: int) -> Any:
    """A copy made of dictionaries and lists, of so many levels at most."""
    if not levels:
        raise refuse([("", f"is nested deeper than {DEPTH_LIMIT} levels")])
    if isinstance(value, Mapping):
        return {key: _plain(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, levels - 1) for inner in value]
    return value


def _drop(root: dict[str, Any], location: tuple[int | str, ...]) -> None:
    """Take out the innermost key on the way to a location; empty an element of a list that is wrong itself.

    Such elements stay where they are, for their numbers stand in the paths of others.
    """
    innermost: tuple[dict[Any, Any], int | str] | None = None
    value: Any = root
    for depth, part in enumerate(location, start=1):
        if isinstance(value, dict) and part in value:
            innermost = (value, part)
        elif not (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            break
        elif depth == len(location) and value[part] != {}:
            value[part] = {}
            return
        value = value[part]
    if innermost is not None:
        inside, key = innermost
        del inside[key]
        return
    # A default that was not written is wrong beside what was. Only the profiles may contain more that is wrong.
    for key in [key for key in root if key != "profiles"] or list(root):
        del root[key]
