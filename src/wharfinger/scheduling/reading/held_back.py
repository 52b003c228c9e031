"""Why nothing is tried for a pod: no instance takes it, or gates or its gang hold it back. Computed on request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.decode import decode_surrounding
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.documents.kinds import POD_GROUP
from wharfinger.objects.model.gang import GangKey, PodGroup, gang_key, standing
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER, Pod, PodKey
from wharfinger.objects.model.priority import missing
from wharfinger.process.names import COMMON, TENANT_LABEL, pool_of
from wharfinger.process.records import InstanceRecord, served_names
from wharfinger.process.stored_objects import StoredObjects

WITHOUT_INSTANCES = frozenset({DEFAULT_SCHEDULER})
"""What counts as served in a pool without any instance: its pods of the usual name wait for a worker, for no name."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """Why no instance takes a pod now."""

    sentence: str
    by_name: bool = False
    """Whether the pod's scheduler name is the reason: then another scheduler may place it."""


async def unserved(store: Store, pods: Iterable[Pod]) -> dict[PodKey, Unserved]:
    """The pods that no instance takes now, and why; without pods, nothing is read.

    Pools are found by the default tenant label, because no key stores the label that the workers use.
    """
    asked = list(pods)
    if not asked:
        return {}
    tenants = {name async for (name,), _ in keys.tenant.rows(store)}
    pools = await _instances(store)
    names = {pool: served_names(records) for pool, records in pools.items()}
    ready = {pool for pool, records in pools.items() if any(one.state == "ready" and one.dispatches for one in records)}
    found = ((pod.key, _why(pod, pool_of(pod.labels.get(TENANT_LABEL, ""), tenants), names, ready)) for pod in asked)
    return {key: why for key, why in found if why is not None}


async def tenant_of(store: Store, pod: Pod, label: str) -> str:
    """The tenant whose workers schedule the pod: the one that its label names, while that tenant exists."""
    tenant = pod.labels.get(label, "")
    return tenant if tenant and (await store.get(keys.tenant(tenant))).kv is not None else COMMON


async def served_profiles(store: Store) -> frozenset[str]:
    """The profiles that live instances serve; the default one while none does."""
    found = keys.instance.records(store, InstanceRecord.model_validate_json)  # none of another release
    return served_names([record async for _, record in found]) or frozenset({DEFAULT_SCHEDULER})


async def _instances(store: Store) -> dict[str, list[InstanceRecord]]:
    """The readable registrations by pool."""
    pools: dict[str, list[InstanceRecord]] = {}
    unknown = InstanceRecord(state="withdrawn", host="", pid=0)  # live, and its names are unknown
    async for (pool, *_), kv in keys.instance.rows(store):
        pools.setdefault(pool, []).append(InstanceRecord.from_bytes(kv.value) or unknown)
    return pools


def _why(pod: Pod, pool: str, names: Mapping[str, frozenset[str] | None], ready: set[str]) -> Unserved | None:
    served = names.get(pool, WITHOUT_INSTANCES)
    if served is not None and pod.scheduler_name not in served:
        whose = "" if pool == COMMON else f" of tenant {pool}"
        sentence = f"no live wharfinger instance{whose} serves {pod.scheduler_name}; another scheduler may"
        return Unserved(sentence, by_name=True)
    if pool in ready:
        return None
    whose = "the common pool" if pool == COMMON else f"tenant {pool}"
    return Unserved(f"no worker takes pods of {whose} now (`wharfinger fleet status {pool}`)")


def gates(pod: Pod) -> str:
    """What holds the pod back: its class that does not exist, or its scheduling gates; empty for neither."""
    lack = missing(pod)
    if lack:
        return f"held back: {lack}"
    return f"held back by its scheduling gates: {', '.join(pod.scheduling_gates)}" if pod.scheduling_gates else ""


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
