"""A profile as it is written: what may stand where.

Plugin arguments stay mappings here; the catalog has their models (`config.completion`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, field_validator

from wharfinger.framework.args import ConfigPart, Integer

DEFAULT_SCHEDULER_NAME = "default-scheduler"
MULTI_POINT = "multiPoint"
_UNSUPPORTED = ("placement_generate", "placement_score")

Percentage = Annotated[Integer, Field(ge=0, le=100)]
"""Of the nodes: 0 = fewer per cent the larger the cluster; absent = every node is examined."""


class PluginRef(ConfigPart):
    """A plugin enabled or disabled."""

    name: str = Field(min_length=1)
    """Of the plugin; `*` under `disabled` means all."""
    weight: Integer = Field(default=0, ge=0, le=2**31 - 1)
    """Of its score; 0 counts as 1."""


class PluginSet(ConfigPart):
    """What is enabled and disabled at one extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()

    @field_validator("enabled")
    @classmethod
    def _once(cls, refs: tuple[PluginRef, ...]) -> tuple[PluginRef, ...]:
        names = [ref.name for ref in refs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"named more than once: {', '.join(twice)}")
        return refs

    @property
    def disables_all(self) -> bool:
        """Whether `*` is disabled."""
        return any(ref.name == "*" for ref in self.disabled)


class Plugins(ConfigPart):
    """Plugins by extension point; `multiPoint` means every point a plugin serves."""

    multi_point: PluginSet = PluginSet()
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    @field_validator(*_UNSUPPORTED)
    @classmethod
    def _nothing_places_groups(cls, plugins: PluginSet) -> PluginSet:
        if plugins.enabled:
            raise ValueError("placement of pod groups is not supported: no plugin can be enabled here")
        return PluginSet()

    def points(self) -> Iterator[tuple[str, PluginSet]]:
        """Every extension point that exists here, by its name in the configuration; `multiPoint` is left out."""
        for field, info in type(self).model_fields.items():
            name = info.alias or field
            if name != MULTI_POINT and field not in _UNSUPPORTED:
                yield name, getattr(self, field)


class PluginConfig(ConfigPart):
    """Arguments of one plugin."""

    name: str = Field(min_length=1)
    """Of the plugin."""
    args: dict[str, Any] = Field(default_factory=dict)
    """What it takes, by its own fields."""


class ProfileConfiguration(ConfigPart):
    """One profile."""

    scheduler_name: str = ""
    """Of the pods that it places. Absent: `default-scheduler`, where there is one profile."""
    percentage_of_nodes_to_score: Percentage | None = None
    """Absent: what the whole file says."""
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()
