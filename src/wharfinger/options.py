"""Declares that fields of a settings class are options of the command line, and hands their values on to a process.

`cli.options` makes a command's options of them. The name, the help, the default and the environment variable of
an option stand at the field, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, get_origin, get_type_hints

_OPTION = "option"
"""In the metadata of a field: its `Option`, or of a `nested` one the readers of its options."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a field. It is an environment variable, too, unless it is hidden or `variable` is false."""

    help: str
    metavar: str | None = None
    name: str = ""
    """`etcd-user` for `--etcd-user`; empty = of the field."""
    short: str = ""
    """`n` for `-n`; empty = none."""
    shown: str | bool = True
    """What help shows of the default, or whether."""
    panel: str | None = None
    min: int | None = None
    max: int | None = None
    kind: Any = None
    """The type of what is given, where that is not the field's."""
    given: Any = None
    """What help shows and a command takes as the default, where that is not the field's."""
    words: Mapping[str, Any] | None = None
    """The words that may be given, and the values for which they stand."""
    negatable: bool = False
    """Whether there is a `--no-<name>`."""
    variable: bool = True
    """Whether the option is an environment variable, too."""
    hidden: bool = False
    exists: bool = False
    """Whether the file that is given must exist."""
    read: Callable[[Any], Any] | None = None
    """Makes the field's value from what is given; raises `UsageError`."""


def setting(default: Any, help: str, metavar: str | None = None, **how: Any) -> Any:
    """A field that is an option of the command line (`Option`)."""
    return field(default=default, metadata={_OPTION: Option(help, metavar, **how)})


def nested(settings: type[Any], **readers: Callable[[Any], Any]) -> Any:
    """A field whose own fields are options of the command line; `readers` by the name of such a field."""
    return field(default_factory=settings, metadata={_OPTION: readers})


@dataclass(frozen=True, slots=True)
class Declared:
    """A field of a settings class that is an option, or whose own fields are some."""

    field: Field[Any]
    hint: Any
    """Its type."""

    @property
    def option(self) -> Option | None:
        """None = its own fields are options."""
        found = self.field.metadata[_OPTION]
        return found if isinstance(found, Option) else None

    @property
    def readers(self) -> Mapping[str, Callable[[Any], Any]]:
        """By the names of its own fields."""
        return {} if self.option is not None else self.field.metadata[_OPTION]

    @property
    def name(self) -> str:
        """`etcd-user` for `--etcd-user`."""
        return (self.option and self.option.name) or self.field.name.replace("_", "-")

    @property
    def listed(self) -> bool:
        """Whether the option may be repeated."""
        return get_origin(self.hint) in (tuple, frozenset)

    def word(self, value: Any) -> Any:
        """What is given on the command line for the value."""
        words = (self.option and self.option.words) or {}
        return next((word for word, meant in words.items() if meant == value), value)


def declared(settings: type[Any]) -> tuple[Declared, ...]:
    """The fields of a class that are options, or have some, in order."""
    found = [field for field in fields(settings) if _OPTION in field.metadata]
    hints = get_type_hints(settings) if found else {}
    return tuple(Declared(field, hints[field.name]) for field in found)


def arguments(settings: Any) -> tuple[str, ...]:
    """The options by which another process gets the settings, in whatever folder it runs.

    It may be of an earlier release: defaults are left out.
    """
    found: list[str] = []
    for one in declared(type(settings)):
        value = getattr(settings, one.field.name)
        if one.option is None:
            found += arguments(value)
        elif value != one.field.default:
            found += _arguments(one, value)
    return tuple(found)


def _arguments(declared: Declared, value: Any) -> Iterator[str]:
    flag, value = f"--{declared.name}", declared.word(value)
    if declared.listed:
        for one in sorted(value) if isinstance(value, frozenset) else value:
            yield f"{flag}={'='.join(map(str, one)) if isinstance(one, tuple) else one}"
    elif isinstance(value, bool):
        yield flag if value else f"--no-{declared.name}"
    elif isinstance(value, Path):
        yield f"{flag}={value.resolve()}"
    else:
        yield f"{flag}={value:g}" if isinstance(value, float) else f"{flag}={value}"
