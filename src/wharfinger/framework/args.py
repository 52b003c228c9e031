"""What all plugins' arguments have in common.

A plugin's `pluginConfig` args are a pydantic model; fields are spelled as in KubeSchedulerConfiguration (camelCase),
unknown ones are refused, and every field has a default.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

API_VERSION = "kubescheduler.config.k8s.io/v1"


class ArgsPart(BaseModel):
    """A mapping inside the arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class PluginArgs(ArgsPart):
    """Base of a plugin's arguments; `apiVersion` and `kind` may be written and mean nothing more."""

    api_version: Literal["kubescheduler.config.k8s.io/v1", ""] = Field(default="", exclude=True)
    kind: str = Field(default="", exclude=True)
