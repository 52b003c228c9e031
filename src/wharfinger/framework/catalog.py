"""Which plugins there are (name, factory, model of the arguments), and the extension points that they serve.

Built-in plugins are listed by `plugins.builtin`; those of other distributions are found through the entry-point
group `wharfinger.plugins` (entry point name = plugin name, value = a class or a function that makes the plugin).
Nothing registers itself by being imported. A plugin of another distribution is imported, and takes part, only when a
configuration names it.

A configuration that was written for kube-scheduler can be taken as it is: a plugin may be named at every point where
kube-scheduler's own takes part, even where ours has nothing to do, and one that does not exist here may be disabled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import metadata
from typing import Any

from pydantic import BaseModel

from wharfinger.errors import ConfigurationError
from wharfinger.framework import interface
from wharfinger.framework.interface import Plugin, offers

ENTRY_POINTS = "wharfinger.plugins"
_UNKNOWN = "an unknown distribution"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A plugin that can be enabled."""

    name: str
    factory: Callable[..., Plugin]
    """Called with the arguments when there is a model of them, else with nothing."""
    args: type[BaseModel] | None = None
    """Model of the plugin's `pluginConfig` args; every field has a default."""
    weight: int = 1
    """Of its score in the default profile."""
    origin: str = ""
    """The distribution an installed plugin comes from, empty for built-in ones."""
    version: str = ""
    """Of that distribution."""
    essential: bool = False
    """Whether it is part of every profile that does not disable it by its own name: `*` leaves it."""
    by_default: bool = True
    """Whether it is part of every profile that does not disable it; if not, of those that name it."""
    manages: tuple[str, ...] = ()
    """Resources that its filter judges instead of NodeResourcesFit, as kube-scheduler's extenders may."""
    leave_out: Callable[[BaseModel, frozenset[str]], BaseModel] | None = None
    """Of a plugin that judges all resources: its arguments, such that it leaves out those that others manage."""

    def make(self, args: BaseModel | None = None, managed: frozenset[str] = frozenset()) -> Plugin:
        """A plugin with these arguments, or the defaults. ConfigurationError when it cannot be made.

        `managed`: resources that other plugins of the profile manage.
        """
        try:
            plugin = self.factory() if self.args is None else self.factory(self._given(args or self.args(), managed))
        except Exception as error:  # a factory of another package may raise anything
            raise ConfigurationError(f"plugin {self._title} cannot be made: {error}") from error
        if getattr(plugin, "name", None) != self.name:
            said = getattr(plugin, "name", "nothing")
            raise ConfigurationError(f"plugin {self._title} calls itself {said}; both names must be the same")
        return plugin

    def _given(self, args: BaseModel, managed: frozenset[str]) -> BaseModel:
        return self.leave_out(args, managed) if self.leave_out is not None and managed else args

    @property
    def _title(self) -> str:
        return f"{self.name} (of {self.origin})" if self.origin else self.name


@dataclass(frozen=True, slots=True)
class Installed:
    """A plugin of an installed distribution, not imported yet."""

    name: str
    origin: str
    """The distribution."""
    version: str
    point: metadata.EntryPoint

    def load(self) -> CatalogEntry:
        """Import it. Raises `ConfigurationError`."""
        try:
            factory = self.point.load()
        except Exception as error:  # the import of another package may raise anything
            raise ConfigurationError(f"plugin {self.name} (of {self.origin}) cannot be loaded: {error}") from error
        return CatalogEntry(
            self.name,
            factory,
            _args_model(factory),
            origin=self.origin,
            version=self.version,
            weight=_weight(factory),
        )


class Catalog:
    """Plugins by name.

    The entries are enabled in their order, by default or where a configuration names them. Installed plugins stand
    behind them and are enabled where a configuration names them.
    """

    def __init__(self, entries: Iterable[CatalogEntry], installed: Iterable[Installed] = ()) -> None:
        self._entries: dict[str, CatalogEntry] = {}
        self._installed: dict[str, Installed] = {}
        self._loaded: dict[str, CatalogEntry] = {}
        for entry in entries:
            self._check_new(entry.name)
            self._entries[entry.name] = entry
        for found in installed:
            self._check_new(found.name)
            self._installed[found.name] = found

    def _check_new(self, name: str) -> None:
        if name in self:
            raise ConfigurationError(f"two plugins are called {name}")

    def __iter__(self) -> Iterator[CatalogEntry]:
        """The plugins that are enabled by default."""
        return (entry for entry in self._entries.values() if entry.by_default)

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._installed

    @property
    def names(self) -> tuple[str, ...]:
        """Of all plugins."""
        return (*self._entries, *self._installed)

    @property
    def installed(self) -> tuple[Installed, ...]:
        """The plugins that are enabled only where a configuration names them."""
        return tuple(self._installed.values())

    def get(self, name: str) -> CatalogEntry | None:
        """The plugin of this name; an installed one is imported. Raises `ConfigurationError` when that fails."""
        entry = self._entries.get(name) or self._loaded.get(name)
        if entry is None and name in self._installed:
            entry = self._loaded[name] = self._installed[name].load()
        return entry

    def with_installed(self, *, enabled: bool = False) -> Catalog:
        """Also the plugins of installed distributions, in name order behind the others.

        `enabled`: by default too, as the built-in ones. Raises `ConfigurationError` for two plugins of one name, and
        when one cannot be loaded that is enabled.
        """
        found = sorted(_installed(), key=lambda plugin: plugin.name)
        own = self._entries.values()
        return Catalog([*own, *(plugin.load() for plugin in found)]) if enabled else Catalog(own, found)


def _installed() -> Iterator[Installed]:
    for point in _entry_points(tuple(sys.path)):
        origin, version = (point.dist.name, point.dist.version) if point.dist is not None else (_UNKNOWN, "")
        yield Installed(point.name, origin, version, point)


@lru_cache(maxsize=8)
def _entry_points(_path: tuple[str, ...]) -> tuple[metadata.EntryPoint, ...]:
    """Those of the distributions on the path. To find them is to open a file of each distribution: 5 ms for ninety."""
    return tuple(metadata.entry_points(group=ENTRY_POINTS))


def _args_model(factory: Any) -> type[BaseModel] | None:
    model = getattr(factory, "Args", None)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _weight(factory: Any) -> int:
    weight = getattr(factory, "weight", 1)
    return weight if isinstance(weight, int) and weight > 0 else 1


POINTS: Mapping[str, tuple[type[Any], ...]] = {
    "preEnqueue": (interface.PreEnqueue,),
    "queueSort": (interface.QueueSort,),
    "preFilter": (interface.PreFilter,),
    "filter": (interface.Filter, interface.NodeFilter),
    "postFilter": (interface.PostFilter,),
    "preScore": (interface.PreScore,),
    "score": (interface.Score, interface.NodeScore),
    "reserve": (interface.Reserve,),
    "permit": (interface.Permit,),
    "preBind": (interface.PreBind,),
    "bind": (interface.Bind,),
    "postBind": (interface.PostBind,),
}
"""Extension points as configurations name them, and the protocols that serve them."""


def points_of(plugin: Plugin) -> tuple[str, ...]:
    """The extension points a plugin serves."""
    return tuple(point for point, protocols in POINTS.items() if any(offers(plugin, one) for one in protocols))


@dataclass(frozen=True, slots=True)
class Enabled:
    """The plugins of a profile and where each takes part."""

    plugins: tuple[Plugin, ...]
    """All of them, in profile order."""
    at: Mapping[str, tuple[str, ...]]
    """Extension point -> names, in the order in which they run."""
    weights: Mapping[str, int]
    """Score weights; 1 for plugins not named here."""

    @classmethod
    def everywhere(cls, plugins: Sequence[Plugin], weights: Mapping[str, int]) -> Enabled:
        """Every plugin takes part at every point it serves, in the given order."""
        points = {plugin.name: points_of(plugin) for plugin in plugins}
        at = {point: tuple(p.name for p in plugins if point in points[p.name]) for point in POINTS}
        return cls(tuple(plugins), at, weights)


KUBE_SCHEDULER_POINTS: Mapping[str, tuple[str, ...]] = {
    "SchedulingGates": ("preEnqueue",),
    "PrioritySort": ("queueSort",),
    "NodeUnschedulable": ("filter",),
    "NodeName": ("filter",),
    "TaintToleration": ("filter", "preScore", "score"),
    "NodeAffinity": ("preFilter", "filter", "preScore", "score"),
    "NodePorts": ("preFilter", "filter"),
    "NodeResourcesFit": ("preFilter", "filter", "preScore", "score", "placementScore"),
    "VolumeRestrictions": ("preFilter", "filter"),
    "NodeVolumeLimits": ("preFilter", "filter"),
    "VolumeBinding": ("preFilter", "filter", "preScore", "score", "reserve", "preBind"),
    "VolumeZone": ("preFilter", "filter"),
    "PodTopologySpread": ("preFilter", "filter", "preScore", "score"),
    "InterPodAffinity": ("preFilter", "filter", "preScore", "score"),
    "DynamicResources": ("preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"),
    "DefaultPreemption": ("preEnqueue", "postFilter"),
    "NodeResourcesBalancedAllocation": ("preScore", "score"),
    "ImageLocality": ("score",),
    "DefaultBinder": ("bind",),
    "NodeDeclaredFeatures": ("preFilter", "filter"),
    "GangScheduling": ("preEnqueue", "permit"),
    "TopologyPlacementGenerator": ("placementGenerate",),
    "PodGroupPodsCount": ("placementScore",),
}
"""Plugins of kube-scheduler 1.36 and their extension points."""

REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins that kube-scheduler had once; NodeVolumeLimits does their work."""


def why_unknown(name: str, catalog: Catalog) -> str:
    """Why a plugin cannot be named where it counts."""
    if name in REMOVED_PLUGINS:
        return f"plugin {name} was removed from Kubernetes: NodeVolumeLimits took its place"
    if name in KUBE_SCHEDULER_POINTS:
        return f"plugin {name} of kube-scheduler does not exist here: leave it out (it may be named under disabled)"
    close = get_close_matches(name[:80], catalog.names, n=1)
    if close:
        return f"there is no plugin {name[:80]}; did you mean {close[0]}?"
    return f"there is no plugin {name[:80]} (known are {', '.join(catalog.names)})"
