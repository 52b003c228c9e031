"""Problems of a field that are there only because of what another field says, such as a type.

A type that cannot be read has its default while the other fields are checked. What is wrong with them only beside that
default was not written by anyone, and is not told: `config.placement` leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.config.errors import Problem, within


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
