"""The plugins of a profile right before a commit and after it: PreBind, Bind, PostBind.

Asynchronous plugins are not called here. `Agreement` says which ones are due; they follow the others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from wharfinger.contracts.plugin_calls import NO_CALLS, CallPoint, CallsMade, PluginStep
from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Code, Status
from wharfinger.model.pod import Pod

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the plugins say of a bind."""

    status: Status = SUCCESS
    """Success, or the first refusal."""
    steps: tuple[PluginStep, ...] = ()
    """Calls of asynchronous plugins that are due before the pod is bound."""


def ask_to_bind(
    profile: Profile, state: CycleState, pod: Pod, node_name: str, calls: CallsMade = NO_CALLS
) -> Agreement:
    """PreBind and Bind: the first refusal, or success. Raises `PluginError`, also for what is neither, as Wait.

    `calls`: what asynchronous plugins have answered so far.
    """
    status = profile.pre_bind(state, pod, node_name)
    if not status.ok:
        return Agreement(_refusal(status, "PreBind"))
    return steps_due(profile, state, pod, node_name, calls)


def steps_due(profile: Profile, state: CycleState, pod: Pod, node_name: str, calls: CallsMade) -> Agreement:
    """The same without PreBind of plugins that are not asynchronous. Raises as `ask_to_bind`."""
    due = [_step(profile, "PreBind", name) for name in profile.called.pre_binds(pod) if not calls.has("PreBind", name)]
    if calls.by_default:
        return Agreement()
    status = profile.bind(state, pod, node_name, after=calls.skipped_binder)
    if status.code is Code.WAIT and profile.called.is_one(status.plugin, "bind"):
        return Agreement(steps=(*due, _step(profile, "Bind", status.plugin)))
    return Agreement(steps=tuple(due)) if status.ok else Agreement(_refusal(status, "Bind"))


def _refusal(status: Status, point: str) -> Status:
    if status.rejected:
        return status
    raise PluginError(status.plugin, point, status.message or f"answered {status.code.name}")


def _step(profile: Profile, point: CallPoint, name: str) -> PluginStep:
    limits = profile.called.limits(name)
    return PluginStep(
        point=point,
        plugin=name,
        timeout=limits.timeout,
        deadline=limits.deadline,
        attempts=limits.attempts,
        heartbeat=limits.heartbeat,
    )


def tell_bound(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> None:
    """PostBind: the pod is bound whatever a plugin makes of it."""
    try:
        profile.post_bind(state, pod, node_name)
    except PluginError as error:
        log.warning("plugin_failed error=%r", str(error))
