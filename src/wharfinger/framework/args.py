"""What a KubeSchedulerConfiguration's mappings have in common, plugins' arguments (`pluginConfig`) among them.

They are pydantic models: fields are spelled in camelCase, unknown ones are refused, null means absent. Every field of
a plugin's arguments has a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

API_VERSION = "kubescheduler.config.k8s.io/v1"


class ConfigPart(BaseModel):
    """A mapping inside a configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, written: Any) -> Any:
        if isinstance(written, Mapping):
            return {key: value for key, value in written.items() if value is not None}
        return written


class PluginArgs(ConfigPart):
    """Base of a plugin's arguments; `apiVersion` and `kind` may be written and mean nothing more."""

    api_version: Literal["kubescheduler.config.k8s.io/v1", ""] = Field(default="", exclude=True)
    kind: str = Field(default="", exclude=True)
