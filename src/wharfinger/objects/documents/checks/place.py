"""A field of an object, and what is wrong with it in the words of the API server.

The words are those of `k8s.io/apimachinery/pkg/util/validation/field`: the path of the field, the sort of the problem,
the value, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

_LONGEST = 200
"""Characters of a value that are shown."""


class FieldPlace:
    """A field: where it is, its value, and the list that collects what is wrong.

    Values have the types of Kubernetes' fields (`check_types` comes first); a field that is absent has the value None.
    """

    __slots__ = ("_above", "_step", "problems", "value")

    def __init__(self, above: FieldPlace | None, step: str, value: Any, problems: list[str]) -> None:
        self._above = above
        self._step = step
        self.value = value
        self.problems = problems

    @classmethod
    def whole(cls, obj: Mapping[str, Any]) -> FieldPlace:
        """An object, with nothing wrong yet."""
        return cls(None, "", obj, [])

    @property
    def path(self) -> str:
        """Where it is, such as `spec.containers[0].name`."""
        return (self._above.path if self._above is not None else "") + self._step

    def __getitem__(self, field: str) -> FieldPlace:
        """A field below, whether it is there or not."""
        value = self.value.get(field) if isinstance(self.value, dict) else None
        return FieldPlace(self, field if self._above is None and not self._step else f".{field}", value, self.problems)

    def entries(self) -> list[FieldPlace]:
        """The entries of a list; none when it is absent."""
        values = self.value if isinstance(self.value, list) else ()
        return [FieldPlace(self, f"[{index}]", value, self.problems) for index, value in enumerate(values)]

    def pairs(self) -> Iterator[tuple[str, FieldPlace]]:
        """The entries of a map with free keys, sorted; none when it is absent."""
        for key in sorted(self.value) if isinstance(self.value, dict) else ():
            yield key, FieldPlace(self, f"[{key}]", self.value[key], self.problems)

    def at(self, value: Any) -> FieldPlace:
        """The same place with another value, such as one that the API server fills in."""
        return FieldPlace(self._above, self._step, value, self.problems)

    def renamed(self, path: str, value: Any) -> FieldPlace:
        """Another place, whose problems are collected with those of this one."""
        return FieldPlace(None, path, value, self.problems)

    @property
    def text(self) -> str:
        """A text; empty when it is absent."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def map(self) -> Mapping[str, Any]:
        """A mapping; empty when it is absent."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def given(self) -> bool:
        """Whether the field is there."""
        return self.value is not None

    # --- what is wrong ------------------------------------------------------------------------

    def required(self, why: str = "") -> None:
        """It has to be there."""
        self._say("Required value", why)

    def invalid(self, why: str, value: Any = ...) -> None:
        """The value is wrong. `value`: what is shown instead of the field's own."""
        self._say(f"Invalid value: {shown(self.value if value is ... else value)}", why)

    def unsupported(self, supported: Iterable[str], why: str = "") -> None:
        """The value is none of those that there are."""
        words = ", ".join(f'"{word}"' for word in supported)
        self._say(f"Unsupported value: {shown(self.value)}", f"supported values: {words}{why}")

    def forbidden(self, why: str) -> None:
        """It must not be there."""
        self._say("Forbidden", why)

    def duplicate(self, value: Any = ..., why: str = "") -> None:
        """Another one has the value already."""
        self._say(f"Duplicate value: {shown(self.value if value is ... else value)}", why)

    def not_there(self, value: Any = ..., why: str = "") -> None:
        """What the value names is not there."""
        self._say(f"Not found: {shown(self.value if value is ... else value)}", why)

    def _say(self, what: str, why: str) -> None:
        self.problems.append(f"{self.path}: {what}" + (f": {why}" if why else ""))

    # --- rules that many fields have ----------------------------------------------------------

    def one_of(self, *supported: str) -> None:
        """It is one of these words, or absent."""
        if self.given and self.value not in supported:
            self.unsupported(supported)

    def no_less_than(self, least: int, why: str = "") -> None:
        """It is at least that number, or absent."""
        if self.given and self.value < least:
            self.invalid(why or f"must be greater than or equal to {least}")

    def each(self, messages: Iterable[str], value: Any = ...) -> None:
        """The value is wrong for each of these reasons."""
        for message in messages:
            self.invalid(message, value)


def shown(value: object) -> str:
    """A value as messages show it: JSON, bounded."""
    try:
        found = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except (orjson.JSONEncodeError, TypeError):
        found = repr(value)
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]}..."
