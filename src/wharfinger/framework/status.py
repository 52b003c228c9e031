"""What a plugin answers (a code and the reasons, as values), and calls that turn what it raises into PluginError.

Codes and their meaning are kube-scheduler's (`framework.Code`). A plugin that is broken raises; a plugin
that refuses returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import ParamSpec, TypeVar

from wharfinger.errors import PluginError


class Code(IntEnum):
    """Kinds of answers."""

    SUCCESS = 0
    ERROR = 1
    """The plugin could not tell; the attempt fails with it."""
    UNSCHEDULABLE = 2
    """Refused now; evicting pods might help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Refused, and evicting pods cannot help."""
    WAIT = 4
    """Permit only: hold the pod before it is bound."""
    SKIP = 5
    """The plugin has nothing to say about this pod: its Filter or Score is left out."""
    PENDING = 6
    """Refused until an event from the plugin itself."""


_REJECTING = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Status:
    """One answer of one plugin."""

    code: Code
    reasons: tuple[str, ...] = ()
    """Observable text: it is counted per node in the FailedScheduling message."""
    plugin: str = ""
    """Who answered; the runner fills it in."""

    def __post_init__(self) -> None:
        if not isinstance(self.reasons, tuple) or not all(isinstance(reason, str) for reason in self.reasons):
            raise TypeError(f"reasons of a status are a tuple of texts, not {self.reasons!r}")

    @property
    def ok(self) -> bool:
        """Success; Skip is not."""
        return self.code is Code.SUCCESS

    @property
    def rejected(self) -> bool:
        """A refusal, as opposed to success, Skip, Wait and errors."""
        return self.code in _REJECTING

    @property
    def message(self) -> str:
        """The reasons as one text."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same answer, saying whose it is."""
        return self if self.plugin == plugin else replace(self, plugin=plugin)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """A refusal that evicting pods might resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A refusal that evicting pods cannot resolve."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


P = ParamSpec("P")
R = TypeVar("R")
_NAMELESS = (Code.SUCCESS, Code.SKIP)


def call(plugin: str, point: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The function's answer; PluginError (chained) when it raises."""
    try:
        return function(*args, **kwargs)
    except PluginError:
        raise
    except Exception as error:  # a plugin may raise anything
        raise PluginError(plugin, point, f"{type(error).__name__}: {error}") from error


def ask(plugin: str, point: str, function: Callable[P, Status], *args: P.args, **kwargs: P.kwargs) -> Status:
    """The status the function answers, marked as the plugin's; PluginError when it is none."""
    status = call(plugin, point, function, *args, **kwargs)
    if not isinstance(status, Status):
        raise PluginError(plugin, point, f"answered {status!r}, not a Status")
    return status if status.code in _NAMELESS else status.by(plugin)
