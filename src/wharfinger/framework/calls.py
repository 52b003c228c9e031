"""Calling a plugin: whatever it raises comes out as a PluginError that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from wharfinger.errors import PluginError
from wharfinger.framework.status import Code, Status

P = ParamSpec("P")
R = TypeVar("R")
_NAMELESS = (Code.SUCCESS, Code.SKIP)


def call(plugin: str, point: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The function's answer; PluginError (chained) when it raises."""
    try:
        return function(*args, **kwargs)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(plugin, point, f"{type(error).__name__}: {error}") from error


def ask(plugin: str, point: str, function: Callable[P, Status], *args: P.args, **kwargs: P.kwargs) -> Status:
    """The status the function answers, marked as the plugin's; PluginError when it is none."""
    status = call(plugin, point, function, *args, **kwargs)
    if not isinstance(status, Status):
        raise PluginError(plugin, point, f"answered {status!r}, not a Status")
    return status if status.code in _NAMELESS else status.by(plugin)
