"""What the queue needs from profiles and gangs: which pods are held back, which go first, which go together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wharfinger.errors import PluginError
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.gang import Gang, GangKey, Standing, standing
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.pool import Ownership
from wharfinger.scheduling.state.queue.active_queue import by_priority
from wharfinger.scheduling.state.queue.turns import Share, by_namespace, one_share

log = logging.getLogger(__name__)


def gate_by(profiles: Mapping[str, Profile]) -> Callable[[Pod], str]:
    """The plugin that holds a pod back, empty for none.

    A plugin that raises holds no pod back: the attempt meets the error again, and its record reports it.
    """

    def gate(pod: Pod) -> str:
        try:
            status = profiles[pod.scheduler_name].gate(pod)
        except PluginError as error:
            log.warning("pre_enqueue_failed effect=not_gated pod=%s error=%r", pod.key, str(error))
            return ""
        return "" if status.ok else status.plugin or "PreEnqueue"

    return gate


def alone_by(profiles: Mapping[str, Profile]) -> Callable[[Pod], bool]:
    """Whether a pod is never placed with others: a Permit plugin may keep it waiting, extenders are asked, or
    asynchronous plugins are called.
    """

    def alone(pod: Pod) -> bool:
        profile = profiles.get(pod.scheduler_name)
        if profile is None:
            return False
        if profile.at.get("permit") or profile.extenders_of(pod):
            return True
        try:
            return profile.called.any and profile.called.concern(pod)
        except PluginError as error:
            log.warning("concerns_failed effect=placed_alone pod=%s error=%r", pod.key, str(error))
            return True

    return alone


def order_by(profiles: Mapping[str, Profile]) -> Callable[[Pod, float], Any]:
    """The queue's order, smallest first: the profile's QueueSort, by priority where that raises."""

    def order(pod: Pod, arrival: float) -> Any:
        try:
            return profiles[pod.scheduler_name].queue_key(pod, arrival)
        except PluginError as error:
            log.warning("queue_sort_failed effect=ordered_by_priority pod=%s error=%r", pod.key, str(error))
            return by_priority(pod, arrival)

    return order


SORTS_BY_PRIORITY = ("PrioritySort",)
"""The QueueSort plugins of a profile whose namespaces take turns."""


def shares_by(profiles: Mapping[str, Profile]) -> Callable[[Pod], Share]:
    """Whose pods take turns: namespaces, where PrioritySort orders the queue; another QueueSort orders it alone."""

    def share_of(pod: Pod) -> Share:
        return (
            by_namespace(pod) if profiles[pod.scheduler_name].at["queueSort"] == SORTS_BY_PRIORITY else one_share(pod)
        )

    return share_of


OF_ITS_OWN = Standing()
"""A pod without a gang."""


class Gangs:
    """The standing of each gang of this pool, computed on demand.

    When a member appears, is bound or is deleted, or when a PodGroup changes, all members of the gang may be held or
    released at once.
    """

    def __init__(self, cache: Cache, ownership: Ownership, *, gate: Callable[[Pod], str]) -> None:
        """`gate` names the plugin that holds a pod back for a reason of its own; empty: none does."""
        self._cache = cache
        self._ownership = ownership
        self._gate = gate
        self._known: dict[GangKey, Standing] = {}
        self._groups = cache.surroundings.pod_groups

    def placed_with(self, pod: Pod) -> tuple[str, Gang | None]:
        """Why the pod has to wait for other members (empty: it does not), and the gang that it is placed with."""
        found = self.standing(GangKey(pod.namespace, pod.group)) if pod.group else OF_ITS_OWN
        return found.held, found.gang

    def standing(self, key: GangKey) -> Standing:
        """How the gang stands now."""
        found = self._known.get(key)
        if found is None:
            members = [pod for pod in self._cache.gangs.of(key) if pod.bound or self._ours(pod)]
            group = self._cache.surroundings.pod_group(*key)
            found = self._known[key] = standing(key, members, group, gated=lambda pod: bool(self._gate(pod)))
        return found

    def changed(self, changes: Changes) -> list[PodKey]:
        """The pending members of all gangs that stand otherwise since these changes."""
        touched = {key: self._known.pop(key, OF_ITS_OWN) for key in dict.fromkeys(self._touched(changes))}
        return [key for gang, before in touched.items() for key in self._pending(gang) if self.standing(gang) != before]

    def reowned(self) -> list[PodKey]:
        """Whose pods are ours is another question now: every pending member of any gang."""
        self._known.clear()
        return [key for gang in self._cache.gangs for key in self._pending(gang)]

    def forget(self) -> None:
        """Other gates are in force: every gang may stand otherwise."""
        self._known.clear()

    def _touched(self, changes: Changes) -> Iterator[GangKey]:
        for change in (*changes.pods, *changes.reclassified):
            for pod in (change.old, change.new):
                if pod is not None and pod.group:
                    yield GangKey(pod.namespace, pod.group)
        groups = changes.surroundings.pod_groups
        if groups is not self._groups:
            for space in groups.keys() | self._groups.keys():
                before, now = self._groups.get(space, ()), groups.get(space, ())
                for group in {*before} ^ {*now}:
                    yield GangKey(space, group.name)
            self._groups = groups

    def _pending(self, key: GangKey) -> Iterator[PodKey]:
        return (pod.key for pod in self._cache.gangs.of(key) if pod.pending)

    def _ours(self, pod: Pod) -> bool:
        return self._ownership.owns(pod, self._cache.tenants)
