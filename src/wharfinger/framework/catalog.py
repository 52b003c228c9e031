"""Which plugins there are: name, how to make one, the model of its arguments.

Built-in plugins are listed by `plugins.builtin`; those of other distributions are found through the entry-point
group `wharfinger.plugins` (entry point name = plugin name, value = a class or a function that makes the plugin).
Nothing registers itself by being imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from pydantic import BaseModel

from wharfinger.errors import ConfigurationError
from wharfinger.framework.interface import Plugin

ENTRY_POINTS = "wharfinger.plugins"


@dataclass(frozen=True, slots=True)
class Entry:
    """A plugin that can be enabled."""

    name: str
    factory: Callable[..., Plugin]
    """Called with the arguments when there is a model of them, else with nothing."""
    args: type[BaseModel] | None = None
    """Model of the plugin's `pluginConfig` args; every field has a default."""
    weight: int = 1
    """Of its score in the default profile."""
    origin: str = ""
    """The distribution a found plugin comes from, empty for built-in ones."""
    essential: bool = False
    """Whether it is part of every profile that does not disable it by its own name: `*` leaves it."""

    def make(self, args: BaseModel | None = None) -> Plugin:
        """A plugin with these arguments, or the defaults. ConfigurationError when it cannot be made."""
        try:
            plugin = self.factory() if self.args is None else self.factory(args or self.args())
        except Exception as error:
            raise ConfigurationError(f"plugin {self._title} cannot be made: {error}") from error
        if getattr(plugin, "name", None) != self.name:
            said = getattr(plugin, "name", "nothing")
            raise ConfigurationError(f"plugin {self._title} calls itself {said}; both names must be the same")
        return plugin

    @property
    def _title(self) -> str:
        return f"{self.name} (of {self.origin})" if self.origin else self.name


class Catalog:
    """Plugins by name, in the order of the default profile; all of them are enabled by default."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            if entry.name in self._entries:
                raise ConfigurationError(f"two plugins are called {entry.name}")
            self._entries[entry.name] = entry

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def get(self, name: str) -> Entry | None:
        """The plugin of this name."""
        return self._entries.get(name)

    def with_installed(self) -> Catalog:
        """Also the plugins of installed distributions, in name order behind the others."""
        return Catalog([*self, *sorted(_installed(), key=lambda entry: entry.name)])


def _installed() -> Iterator[Entry]:
    for point in metadata.entry_points(group=ENTRY_POINTS):
        origin = point.dist.name if point.dist is not None else "an unknown distribution"
        try:
            factory = point.load()
        except Exception as error:
            raise ConfigurationError(f"plugin {point.name} (of {origin}) cannot be loaded: {error}") from error
        yield Entry(point.name, factory, _args_model(factory), origin=origin, weight=_weight(factory))


def _args_model(factory: Any) -> type[BaseModel] | None:
    model = getattr(factory, "Args", None)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _weight(factory: Any) -> int:
    weight = getattr(factory, "weight", 1)
    return weight if isinstance(weight, int) and weight > 0 else 1
