"""Validating what was written without stopping at the first malformed part.

A malformed field would hide what is wrong beside it, for the models of pydantic give no object then. So what is
malformed is reported, taken out, and the rest validated again, until it is well-formed and can be looked at further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from wharfinger.errors import InvalidConfiguration, InvalidObject
from wharfinger.framework.config.errors import Problem, problems_of, refuse

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
    InvalidConfiguration for what is no mapping, or nested too deeply: nothing can be told of it.
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
    for path, told in (*problems, *(together(fields) if together is not None else ())):
        raise InvalidObject(f"{where}{path}: {told}")
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
    # A default that was not written is wrong beside what was. Only the profiles have more to tell.
    for key in [key for key in root if key != "profiles"] or list(root):
        del root[key]
