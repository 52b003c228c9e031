"""The extension points as configurations name them: which of them a plugin serves, and where it takes part.

`interface` has the protocols, `profile` runs the plugins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.framework import interface
from wharfinger.framework.interface import Plugin, offers

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
