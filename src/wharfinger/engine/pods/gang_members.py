"""Looking a gang up in this worker's cache: who its members are, and whether they are to be placed as one now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wharfinger.cache.cache import Cache
from wharfinger.engine.pods.eligibility import Eligibility, Life
from wharfinger.errors import PluginError
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import Status, unschedulable
from wharfinger.model.gang import (
    GANG_SCHEDULING,
    Gang,
    GangKey,
    Standing,
    counts,
    gang_key,
    gang_of,
    in_order,
    standing,
)
from wharfinger.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Found:
    """A gang whose members may be placed."""

    gang: Gang
    pending: tuple[Pod, ...]
    """In the order in which they are placed."""
    bound: tuple[Pod, ...]


class GangMembers:
    """Asks the cache on behalf of one pool."""

    def __init__(self, *, cache: Cache, profiles: Mapping[str, Profile], eligibility: Eligibility) -> None:
        self._cache = cache
        self._profiles = profiles
        self._eligibility = eligibility

    def find(self, key: GangKey) -> Found | str:
        """The gang, or why nobody of it is to be placed now."""
        members = self._members(key)
        held = self._standing(key, members).held
        gang = gang_of(key, members, self._cache.surroundings.pod_group(*key))
        if held or isinstance(gang, str):
            return held or str(gang)
        pending = in_order(pod for pod in members if not pod.bound and not self._gated(pod))
        if not pending:
            return "none of its members is to be placed"
        return Found(gang, pending, tuple(pod for pod in members if pod.bound))

    def keeps(self, pod: Pod) -> Status | None:
        """The refusal of a pod that is placed with its gang only, for whoever would place it by itself; else None."""
        key = gang_key(pod)
        if key is None:
            return None
        found = self._standing(key, self._members(key))
        if found.held:
            return unschedulable(found.held).by(GANG_SCHEDULING)
        return unschedulable(f"PodGroup: placed with gang {key} only").by(GANG_SCHEDULING) if found.gang else None

    def _standing(self, key: GangKey, members: list[Pod]) -> Standing:
        return standing(key, members, self._cache.surroundings.pod_group(*key), gated=self._gated)

    def _members(self, key: GangKey) -> list[Pod]:
        return [pod for pod in self._cache.gangs.of(key) if counts(pod) and (pod.bound or self._ours(pod))]

    def _ours(self, pod: Pod) -> bool:
        return self._eligibility.verdict(Life(pod.key), pod) is None

    def _gated(self, pod: Pod) -> bool:
        try:
            return not self._profiles[pod.scheduler_name].gate(pod).ok
        except PluginError:
            return False  # its placement will meet it again, and say so
