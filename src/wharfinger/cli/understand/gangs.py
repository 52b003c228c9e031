"""Why members of gangs are held back: worked out from what is stored, for people who ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wharfinger.cli.objects.stored import every
from wharfinger.errors import InvalidObject
from wharfinger.manifests.decode import decode_surrounding
from wharfinger.manifests.formats import format_of
from wharfinger.manifests.kinds import POD, POD_GROUP
from wharfinger.model.gang import GangKey, PodGroup, gang_key, standing
from wharfinger.model.pod import Pod, PodKey
from wharfinger.registry.store import Store


async def held_of(store: Store, pods: Iterable[Pod], namespace: str = "") -> dict[PodKey, str]:
    """Why pending ones of these pods wait for others of their gangs. `pods` holds all members; no gang, no reading."""
    members = [pod for pod in pods if pod.group]
    if not any(pod.pending for pod in members):
        return {}
    return held(members, await pod_groups(store, namespace))


async def pod_groups(store: Store, namespace: str = "") -> dict[GangKey, PodGroup]:
    """The PodGroups that can be read."""
    _, found = await every(store, POD_GROUP, namespace) if format_of(store.format).has_surroundings else (0, [])
    groups: dict[GangKey, PodGroup] = {}
    for entry in found:
        try:
            group = decode_surrounding(entry.kv.value, POD_GROUP.name, namespace=entry.namespace, name=entry.name)
        except InvalidObject:
            continue  # it counts for no gang
        if isinstance(group, PodGroup):
            groups[GangKey(entry.namespace, entry.name)] = group
    return groups


async def held_member(store: Store, pod: Pod) -> str:
    """Why this pod waits for others of its gang; empty when it does not."""
    if not pod.group or not pod.pending:
        return ""
    _, found = await every(store, POD, pod.namespace)
    pods = [entry.pod for entry in found if entry.pod is not None and entry.pod.group == pod.group]
    return (await held_of(store, pods, pod.namespace)).get(pod.key, "")


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
