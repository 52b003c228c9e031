"""What the queue asks of the profiles: who is held back, and who goes first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from wharfinger.errors import PluginError
from wharfinger.framework.profile import Profile
from wharfinger.model.pod import Pod
from wharfinger.queue.active import by_priority

log = logging.getLogger(__name__)


def gate_by(profiles: Mapping[str, Profile]) -> Callable[[Pod], str]:
    """The plugin that holds a pod back, empty for none.

    A plugin that raises holds nobody back: the attempt will meet it again, and its record say so.
    """

    def gate(pod: Pod) -> str:
        try:
            status = profiles[pod.scheduler_name].gate(pod)
        except PluginError as error:
            log.warning("pod=%s not gated error=%r", pod.key, str(error))
            return ""
        return "" if status.ok else status.plugin or "PreEnqueue"

    return gate


def alone_by(profiles: Mapping[str, Profile]) -> Callable[[Pod], bool]:
    """Whether a pod is never placed with others: a Permit plugin may keep it waiting, and it alone."""

    def alone(pod: Pod) -> bool:
        profile = profiles.get(pod.scheduler_name)
        return profile is not None and bool(profile.at.get("permit"))

    return alone


def order_by(profiles: Mapping[str, Profile]) -> Callable[[Pod, float], Any]:
    """The queue's order, smallest first: the profile's QueueSort, by priority where that raises."""

    def order(pod: Pod, arrival: float) -> Any:
        try:
            return profiles[pod.scheduler_name].queue_key(pod, arrival)
        except PluginError as error:
            log.warning("pod=%s ordered by priority error=%r", pod.key, str(error))
            return by_priority(pod, arrival)

    return order
