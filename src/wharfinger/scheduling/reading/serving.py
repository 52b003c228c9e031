"""Why nothing is tried for a pod: no instance takes it, or it is held back; computed on request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.objects.model.ownership import Ownership
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER, Pod, PodKey
from wharfinger.objects.model.priority import missing
from wharfinger.process.names import COMMON
from wharfinger.process.records import InstanceRecord, served_names

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
    ready = {pool for pool, records in pools.items() if any(_takes_pods(record) for record in records)}
    found = ((pod.key, _why(pod, Ownership(frozenset()).tenant_of(pod, tenants), names, ready)) for pod in asked)
    return {key: why for key, why in found if why is not None}


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


def _takes_pods(record: InstanceRecord) -> bool:
    return record.state == "ready" and record.dispatches


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
