"""The asynchronous plugins of a profile: which ones a pod concerns, and how one is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.errors import PluginError
from wharfinger.framework.async_plugins import ASYNCHRONOUS, CallLimits, PluginCall, check, is_async, limits_of
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Plugin, Selective, offers
from wharfinger.framework.status import Code, Status, call
from wharfinger.framework.timing import UNMEASURED, Lap
from wharfinger.objects.model.pod import Pod


class CalledPlugins:
    """Those that serve PreBind or Bind asynchronously; most profiles have none."""

    def __init__(self, plugins: Sequence[Plugin], at: Mapping[str, Sequence[str]]) -> None:
        """`at`: extension point -> names, in order. Raises ConfigurationError for a plugin that cannot be called."""
        for plugin in plugins:
            check(plugin)
        self._by_name: dict[str, Any] = {plugin.name: plugin for plugin in plugins}
        self._at = {
            point: [name for name in at.get(point, ()) if is_async(self._by_name[name], point)]
            for point in ASYNCHRONOUS
        }
        self._any = any(self._at.values())

    def is_one(self, name: str, point: str) -> bool:
        """Whether that plugin serves the point (`preBind` or `bind`) asynchronously."""
        return name in self._at[point]

    def concerns(self, name: str, pod: Pod) -> bool:
        """Whether the plugin is called for the pod. Raises PluginError."""
        plugin = self._by_name[name]
        return not offers(plugin, Selective) or bool(call(name, "concerns", plugin.concerns, pod))

    def concern(self, pod: Pod) -> bool:
        """Whether any is called for the pod: then it is placed alone. Raises PluginError."""
        if not self._any:  # asked of every pod
            return False
        return any(self.concerns(name, pod) for names in self._at.values() for name in names)

    def pre_binds(self, pod: Pod) -> tuple[str, ...]:
        """The PreBind plugins that are called for the pod, in order; most often none. Raises PluginError."""
        return tuple(name for name in self._at["preBind"] if self.concerns(name, pod))

    def limits(self, name: str) -> CallLimits:
        """How long calls of that plugin may take."""
        return limits_of(self._by_name[name])

    @property
    def longest(self) -> float:
        """Seconds that all of them may take together for one pod."""
        return sum(self.limits(name).deadline for names in self._at.values() for name in names)

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
