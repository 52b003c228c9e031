"""Calls as asynchronous PreBind and Bind plugins get them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.framework.async_plugins import BindCall, PluginCall
from wharfinger.framework.status import SUCCESS, Status


def plugin_call(key: str = "uid/run", attempt: int = 1) -> PluginCall:
    """A call of PreBind."""
    return PluginCall(key, attempt)


def bind_call(
    status: Status = SUCCESS, *, key: str = "uid/run", attempt: int = 1, binding: Mapping[str, Any] | None = None
) -> BindCall:
    """A call of Bind, whose `bind()` answers `status`."""

    async def default() -> Status:
        return status

    return BindCall(key, attempt, binding=binding, default=default)
