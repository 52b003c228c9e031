"""What the plugins of one decision keep for later extension points, their own and each other's.

A state belongs to one pod and one attempt. What must reach PreBind, Bind and PostBind, which may run on another
worker, is carried: plain JSON, at most 1 KiB a plugin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wharfinger.errors import PluginError
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.timing import UNMEASURED, Lap

CARRIED_LIMIT = 1024
"""Bytes of JSON a plugin may carry to the binding side."""


class CycleState:
    """Values by key (by custom the plugin's name), and what is carried to the binding side."""

    __slots__ = ("_carried", "_values", "lap", "skipped_filters", "skipped_scores", "snapshot")

    def __init__(self, carried: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        self._carried: dict[str, Any] = dict(carried or {})
        self.lap: Lap = UNMEASURED
        """Measures the extension points of a live decision."""
        self.skipped_filters: set[str] = set()
        """Plugins whose PreFilter answered Skip."""
        self.skipped_scores: set[str] = set()
        """Plugins whose PreScore answered Skip."""
        self.snapshot: Snapshot | None = None
        """What the decision is made on. None in verification, which is no decision, and on the binding side."""

    def write(self, key: str, value: Any) -> None:
        """Keep a value for later points of the same decision."""
        self._values[key] = value

    def read(self, key: str, default: Any = None) -> Any:
        """A value kept earlier in this decision."""
        return self._values.get(key, default)

    def carry(self, plugin: str, data: Any) -> None:
        """Hand JSON data to the plugin's own binding points; PluginError when it is no JSON or over 1 KiB."""
        try:
            size = len(json.dumps(data).encode())
        except (TypeError, ValueError) as error:
            raise PluginError(plugin, "carry", f"data is no JSON: {error}") from error
        if size > CARRIED_LIMIT:
            raise PluginError(plugin, "carry", f"{size} bytes of data, at most {CARRIED_LIMIT} are carried")
        self._carried[plugin] = data

    def carried(self, plugin: str) -> Any:
        """What the plugin carried, None when nothing."""
        return self._carried.get(plugin)

    @property
    def baggage(self) -> dict[str, Any]:
        """Everything carried, by plugin."""
        return dict(self._carried)
