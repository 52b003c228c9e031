"""Validating what was written without stopping at the first malformed part.

A malformed field would hide what is wrong beside it, for the models of pydantic give no object then. So what is
malformed is reported, taken out, and the rest validated again, until it is well-formed and can be looked at further.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from wharfinger.config.errors import Problem, problems_of
from wharfinger.config.file_fields import SchedulerConfiguration


def understood(written: Mapping[str, Any]) -> tuple[SchedulerConfiguration, list[Problem]]:
    """What is well-formed of a configuration, and what is not."""
    rest: dict[str, Any] = _plain(written)
    problems: list[Problem] | None = None
    while True:
        try:
            return SchedulerConfiguration.model_validate(rest, by_alias=True, by_name=False), problems or []
        except ValidationError as error:
            if problems is None:
                problems = problems_of(error)
            for entry in error.errors():
                _drop(rest, entry["loc"])


def _plain(value: Any) -> Any:
    """A copy made of dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
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
