"""Why members of gangs are held back: worked out from what is stored, for people who ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.decode import decode_surrounding
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.documents.kinds import POD_GROUP
from wharfinger.objects.model.gang import GangKey, PodGroup, gang_key, standing
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.stored_objects import StoredObjects


async def held_of(store: Store, pods: Iterable[Pod], namespace: str = "") -> dict[PodKey, str]:
    """Why pending ones of these pods wait for others of their gangs. `pods` holds all members; no gang, no reading."""
    members = [pod for pod in pods if pod.group]
    if not any(pod.pending for pod in members):
        return {}
    return held(members, await pod_groups(store, namespace))


async def pod_groups(store: Store, namespace: str = "") -> dict[GangKey, PodGroup]:
    """The PodGroups that can be read."""
    if not format_of(store.format).has_surroundings:
        return {}
    groups: dict[GangKey, PodGroup] = {}
    _, found = await StoredObjects(store, POD_GROUP, namespace).every()
    for entry in found:
        try:
            group = decode_surrounding(entry.kv.value, POD_GROUP.name, namespace=entry.namespace, name=entry.name)
        except InvalidObject:
            continue  # it counts for no gang
        if isinstance(group, PodGroup):
            groups[GangKey(entry.namespace, entry.name)] = group
    return groups


def held(members: Iterable[Pod], groups: Mapping[GangKey, PodGroup]) -> dict[PodKey, str]:
    """The same of pods that name groups, with the PodGroups that there are."""
    gangs: dict[GangKey, list[Pod]] = {}
    for pod in members:
        key = gang_key(pod)
        if key is not None:
            gangs.setdefault(key, []).append(pod)
    return {
        pod.key: why
        for key, pods in gangs.items()
        if (why := standing(key, pods, groups.get(key)).held)
        for pod in pods
        if pod.pending
    }


class HeldGangs:
    """The same of pods that are followed."""

    def __init__(self, groups: Mapping[GangKey, PodGroup]) -> None:
        self._groups = groups
        self._members: dict[GangKey, dict[str, Pod]] = {}
        self._gang_of: dict[str, GangKey] = {}
        self._why: dict[GangKey, str] = {}
        self._changed = False

    def set_pod(self, key: str, pod: Pod | None) -> None:
        """Take the new state of the pod at this key in etcd; None = it is gone, or cannot be read."""
        before, now = self._gang_of.pop(key, None), gang_key(pod) if pod is not None else None
        if before is not None:
            self._members[before].pop(key)
        if pod is not None and now is not None:
            self._gang_of[key] = now
            self._members.setdefault(now, {})[key] = pod
        for gang in (before, now):
            if gang is not None:
                self._why.pop(gang, None)
                self._changed = True

    def take_changes(self) -> bool:
        """Whether a member changed since the last time."""
        changed, self._changed = self._changed, False
        return changed

    def held(self, key: str, pod: Pod | None) -> str:
        """Why its gang holds back the pod at this key; empty when none does."""
        gang = self._gang_of.get(key)
        if gang is None or pod is None or not pod.pending:
            return ""
        if gang not in self._why:
            self._why[gang] = standing(gang, self._members[gang].values(), self._groups.get(gang)).held
        return self._why[gang]
