"""Asynchronous PreBind and Bind: what such a plugin is called with, how long it may take, and what it must look like.

::

    class Volumes:
        name = "Volumes"
        call_limits = CallLimits(timeout=20, deadline=600)

        async def pre_bind(self, state, pod, node_name, call):
            ...

A plugin becomes one by defining `pre_bind` or `bind` with `async def` and a fourth argument, the call. Such a method
may do I/O and may wait. It is called in an activity of its own, while the room is held, and again after a crash.
`called_plugins` knows those of a profile, and `scheduling.effects.binding.calling` calls them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from wharfinger.errors import ConfigurationError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.status import Status
from wharfinger.objects.model.pod import Pod

LONGEST = 86_400.0
"""Seconds that a call, or all calls for one pod, may take at most."""
ASYNCHRONOUS: Mapping[str, str] = {"preBind": "pre_bind", "bind": "bind"}
"""The extension points that may be asynchronous, as configurations name them, and their methods."""
_ARGUMENTS = 4
_METHODS = [
    "pre_enqueue",
    "queue_key",
    "pre_filter",
    "filter",
    "filter_node",
    "concerns",
    "signature",
    "post_filter",
    "pre_score",
    "score",
    "score_node",
    "normalize",
    "reserve",
    "unreserve",
    "permit",
    "post_bind",
    "queueing_hints",
]
"""Methods of plugins that may not be asynchronous."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long the asynchronous methods of a plugin may take: its attribute `call_limits`. All are seconds but one."""

    timeout: float = 30.0
    """Of one call. A call that takes longer is cancelled, and made again."""
    deadline: float = 300.0
    """Of all calls of one method for one pod in one attempt, with the pauses between them. Then the attempt fails."""
    attempts: int = 0
    """How many calls may raise, time out or be lost; 0 = as many as the deadline permits."""
    heartbeat: float = 10.0
    """After how long without a sign of life a worker counts as dead, and another one makes the call."""

    def __post_init__(self) -> None:
        for name in ("timeout", "deadline", "heartbeat"):
            if not 0 < getattr(self, name) <= LONGEST:
                raise ValueError(f"{name} of CallLimits is {getattr(self, name)!r}: 0 < {name} <= {LONGEST:g} seconds")
        if self.attempts < 0:
            raise ValueError(f"attempts of CallLimits is {self.attempts!r}: 0 = no limit")


USUAL_LIMITS = CallLimits()


@dataclass(frozen=True, slots=True)
class PluginCall:
    """One call of an asynchronous method."""

    key: str
    """The idempotency key: `<uid of the pod>/<run id of the attempt>`. Each call of one attempt has the same one."""
    attempt: int = 1
    """Counts calls that raised, timed out or were lost with their worker, this one included."""


async def _no_default() -> Status:
    raise NotImplementedError("this call has no default binder")


@dataclass(frozen=True, slots=True)
class BindCall(PluginCall):
    """A call of an asynchronous Bind."""

    binding: Mapping[str, Any] | None = None
    """The body of `POST pods/<name>/binding`, where a Kubernetes API is the store; None where etcd itself is."""
    default: Callable[[], Awaitable[Status]] = field(default=_no_default, compare=False)

    async def bind(self) -> Status:
        """Bind the pod as the default binder does: success when it is bound, else a refusal. May be called again."""
        return await self.default()


@runtime_checkable
class AsyncPreBind(Protocol):
    """PreBind that may wait."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, call: PluginCall) -> Status:
        """Success, Skip, Wait (it is called again after a pause), a refusal, or an error.

        What it raises is tried again, within the limits.
        """
        ...


@runtime_checkable
class AsyncBind(Protocol):
    """Bind that may wait, and binds the pod itself, or by `call.bind()`."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str, call: BindCall) -> Status:
        """Success: the pod is bound, which is verified. Skip: the next Bind plugin is asked. Else as PreBind."""
        ...


def is_async(plugin: object, point: str) -> bool:
    """Whether the plugin serves that point asynchronously; `point` is spelled as configurations do."""
    method = ASYNCHRONOUS.get(point)
    return method is not None and inspect.iscoroutinefunction(getattr(plugin, method, None))


def limits_of(plugin: object) -> CallLimits:
    """The plugin's limits, or the usual ones."""
    limits = getattr(plugin, "call_limits", USUAL_LIMITS)
    return limits if isinstance(limits, CallLimits) else USUAL_LIMITS


def check(plugin: object) -> None:
    """Raise `ConfigurationError` for an asynchronous method that could never be called."""
    for problem in _mistakes(plugin):
        raise ConfigurationError(f"plugin {getattr(plugin, 'name', plugin)}: {problem}")


def _mistakes(plugin: object) -> Iterator[str]:
    for name in _METHODS:
        method = getattr(plugin, name, None)
        if method is not None and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)):
            yield f"{name} is asynchronous, and only pre_bind and bind may be"
    found = False
    for name in ASYNCHRONOUS.values():
        method = getattr(plugin, name, None)
        if inspect.isasyncgenfunction(method):
            yield f"{name} yields, and must return one Status"
        if not callable(method) or not inspect.iscoroutinefunction(method):
            continue
        found = True
        try:
            inspect.signature(method).bind(*range(_ARGUMENTS))
        except TypeError:
            yield f"{name} is asynchronous, so its arguments are state, pod, node_name and call"
    if found and not isinstance(getattr(plugin, "call_limits", USUAL_LIMITS), CallLimits):
        yield f"call_limits is {plugin.call_limits!r}, not a CallLimits"  # type: ignore[attr-defined]
