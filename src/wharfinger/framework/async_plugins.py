"""Asynchronous PreBind and Bind: what such a plugin is called with, how long it may take, and what it must look like.

::

    class Volumes:
        name = "Volumes"
        call_limits = CallLimits(timeout=20, deadline=600)

        async def pre_bind(self, state, pod, node_name, call):
            ...

A plugin becomes one by defining `pre_bind` or `bind` with `async def` and a fourth argument, the call. Such a method
may do I/O and may wait. It is called in an activity of its own, while the pod's place on the node is held, and again
after a crash. `CalledPlugins` has those of a profile, and `scheduling.effects.binding.calling` calls them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from wharfinger.errors import ConfigurationError, PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Plugin, Selective, offers
from wharfinger.framework.status import Code, Status, call
from wharfinger.framework.timing import UNMEASURED, Lap
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


@runtime_checkable
class AsyncBind(Protocol):
    """Bind that may wait, and binds the pod itself, or by `call.bind()`."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str, call: BindCall) -> Status:
        """Success: the pod is bound, which is verified. Skip: the next Bind plugin is asked. Else as PreBind."""


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


class CalledPlugins:
    """Those that serve PreBind or Bind asynchronously; most profiles have none."""

    def __init__(self, plugins: Sequence[Plugin], at: Mapping[str, Sequence[str]]) -> None:
        """`at`: extension point -> names, in order. Raises ConfigurationError for a plugin that cannot be called."""
        for plugin in plugins:
            check(plugin)
        self._by_name: dict[str, Any] = {plugin.name: plugin for plugin in plugins}
        self.at = {
            point: tuple(name for name in at.get(point, ()) if is_async(self._by_name[name], point))
            for point in ASYNCHRONOUS
        }
        """Those that serve each point (`preBind` or `bind`) asynchronously, in order."""
        self.any = any(self.at.values())
        """Whether there is one: without, no pod need be asked about."""

    def concerns(self, name: str, pod: Pod) -> bool:
        """Whether the plugin is called for the pod. Raises PluginError."""
        plugin = self._by_name[name]
        return not offers(plugin, Selective) or bool(call(name, "concerns", plugin.concerns, pod))

    def concern(self, pod: Pod) -> bool:
        """Whether any is called for the pod: then it is placed alone. Raises PluginError."""
        return any(self.concerns(name, pod) for names in self.at.values() for name in names)

    def pre_binds(self, pod: Pod) -> tuple[str, ...]:
        """The PreBind plugins that are called for the pod, in order; most often none. Raises PluginError."""
        return tuple(name for name in self.at["preBind"] if self.concerns(name, pod))

    def limits(self, name: str) -> CallLimits:
        """How long calls of that plugin may take."""
        return limits_of(self._by_name[name])

    @property
    def longest(self) -> float:
        """Seconds that all of them may take together for one pod."""
        return sum(self.limits(name).deadline for names in self.at.values() for name in names)

    async def call(
        self,
        point: str,
        name: str,
        *,
        state: CycleState,
        pod: Pod,
        node_name: str,
        plugin_call: PluginCall,
        lap: Lap = UNMEASURED,
    ) -> Status:
        """Call one; `point`: `PreBind` or `Bind`. Raises PluginError for what is no Status.

        Whatever the plugin itself raises passes, because that is tried again.
        """
        plugin = self._by_name[name]
        method = plugin.pre_bind if point == "PreBind" else plugin.bind
        try:
            status = await method(state, pod, node_name, plugin_call)
        except Exception:  # a plugin may raise anything: its time counts
            lap.done(point, Code.ERROR)
            raise
        if not isinstance(status, Status):
            lap.done(point, Code.ERROR)
            raise PluginError(name, point, f"answered {status!r}, not a Status")
        lap.done(point, status.code)
        return status.by(name)
