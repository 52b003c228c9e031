"""The plugins of a profile right before a commit and after it: PreBind, Bind, PostBind."""

from __future__ import annotations

import logging

from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import Status
from wharfinger.model.pod import Pod

log = logging.getLogger(__name__)


def ask_to_bind(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status:
    """PreBind and Bind: the first refusal, or success. Raises `PluginError`, also for what is neither, as Wait."""
    point, status = "PreBind", profile.pre_bind(state, pod, node_name)
    if status.ok:
        point, status = "Bind", profile.bind(state, pod, node_name)
    if status.ok or status.rejected:
        return status
    raise PluginError(status.plugin, point, status.message or f"answered {status.code.name}")


def tell_bound(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> None:
    """PostBind: the pod is bound whatever a plugin makes of it."""
    try:
        profile.post_bind(state, pod, node_name)
    except PluginError as error:
        log.warning("plugin_failed error=%r", str(error))
