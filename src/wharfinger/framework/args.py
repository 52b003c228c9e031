"""What a KubeSchedulerConfiguration's mappings have in common, plugins' arguments (`pluginConfig`) among them.

They are pydantic models: fields are spelled in camelCase, unknown ones are refused, null means absent. Every field of
a plugin's arguments has a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

API_VERSION = "kubescheduler.config.k8s.io/v1"

Integer = Annotated[int, Field(strict=True)]
"""A whole number; text and booleans are none, as in every Kubernetes object."""
Boolean = Annotated[bool, Field(strict=True)]
"""`true` or `false`; text and numbers are neither."""


class ConfigPart(BaseModel):
    """A mapping inside a configuration."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, written: Any) -> Any:
        if isinstance(written, Mapping):
            return {key: value for key, value in written.items() if value is not None}
        return written


class PluginArgs(ConfigPart):
    """Base of a plugin's arguments.

    `apiVersion` and `kind`, which Kubernetes writes beside them, are no fields: the reader of a configuration checks
    and removes them.
    """
