"""Gives a command a group of options that it shares with others, and its function one value in their place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

OptionTable = Mapping[str, tuple[Any, Any]]
"""Parameter -> annotation (with `typer.Option`) and default."""


def grouped(parameter: str, options: OptionTable, make: Callable[..., Any]) -> Callable[..., Callable[..., None]]:
    """A decorator: the function's `parameter` is what `make` makes of the options, which the command has instead.

    The function's other parameters stay as they are. Their annotations must be importable at run time (not under
    `TYPE_CHECKING`). A parameter with the name of an option takes its place.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            one.replace(annotation=hints.get(one.name, one.annotation))
            for one in inspect.signature(function).parameters.values()
            if one.name != parameter
        ]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in options.items()
            if name not in hints
        ]

        @functools.wraps(function)
        def command(**arguments: Any) -> None:
            chosen = {one.name: arguments.pop(one.name) for one in shared}
            function(**arguments, **{parameter: make(**chosen)})

        command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]  # typer reads it
        command.__annotations__ = {one.name: one.annotation for one in (*own, *shared)}
        return command

    return decorate
