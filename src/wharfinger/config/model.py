"""KubeSchedulerConfiguration v1 as written: what may stand where.

Plugin arguments stay mappings here; the catalog knows their models (`config.completion`). Fields of the Kubernetes
API that are not honoured are named in `UNSUPPORTED`, so that they are refused with a reason instead of ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, field_validator

from wharfinger.framework.args import API_VERSION, ConfigPart

DEFAULT_SCHEDULER_NAME = "default-scheduler"
MULTI_POINT = "multiPoint"

UNSUPPORTED = frozenset(
    {
        "parallelism", "leaderElection", "clientConnection", "enableProfiling", "enableContentionProfiling",
        "podInitialBackoffSeconds", "podMaxBackoffSeconds", "delayCacheUntilActive", "extenders",
        "percentageOfNodesToScore", "placementGenerate", "placementScore",
    }
)  # fmt: skip
"""Fields that kube-scheduler has and this version does not honour."""


class PluginRef(ConfigPart):
    """A plugin enabled or disabled."""

    name: str = Field(min_length=1)
    weight: int = Field(default=0, ge=0, le=2**31 - 1)
    """Of its score; 0 = the default."""


class PluginSet(ConfigPart):
    """What is enabled and disabled at one extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()

    @field_validator("enabled", "disabled")
    @classmethod
    def _once(cls, refs: tuple[PluginRef, ...]) -> tuple[PluginRef, ...]:
        names = [ref.name for ref in refs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"plugin {name} is named twice")
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

    def points(self) -> Iterator[tuple[str, PluginSet]]:
        """Every extension point by its name in the configuration, `multiPoint` left out."""
        for field, info in type(self).model_fields.items():
            name = info.alias or field
            if name != MULTI_POINT:
                yield name, getattr(self, field)


class PluginConfig(ConfigPart):
    """Arguments of one plugin."""

    name: str = Field(min_length=1)
    args: dict[str, Any] = Field(default_factory=dict)


class ProfileConfiguration(ConfigPart):
    """One profile."""

    scheduler_name: str = ""
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class SchedulerConfiguration(ConfigPart):
    """The whole file."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["KubeSchedulerConfiguration"] = "KubeSchedulerConfiguration"
    profiles: tuple[ProfileConfiguration, ...] = (ProfileConfiguration(),)

    @field_validator("profiles")
    @classmethod
    def _at_least_one(cls, profiles: tuple[ProfileConfiguration, ...]) -> tuple[ProfileConfiguration, ...]:
        if not profiles:
            raise ValueError("at least one profile is needed")
        return profiles
