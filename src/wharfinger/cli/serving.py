"""Whether anybody takes a pod that nothing has tried: worked out from what is stored, for people who ask."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from wharfinger.contracts.names import COMMON
from wharfinger.contracts.records import InstanceRecord
from wharfinger.model.ownership import Ownership
from wharfinger.model.pod import Pod, PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import Store


async def unserved(store: Store, pods: Iterable[Pod]) -> dict[PodKey, str]:
    """Of these pods those that no worker takes now, and why; no pod, no reading.

    Pools go by the usual label: which one workers were told is written nowhere.
    """
    asked = list(pods)
    if not asked:
        return {}
    tenants = {kv.key.removeprefix(keys.TENANTS) async for page in store.list(keys.TENANTS) for kv in page.items}
    serving = set[str]()
    async for page in store.list(keys.INSTANCES):
        for kv in page.items:
            try:
                record = InstanceRecord.model_validate_json(kv.value)
            except ValidationError:
                continue  # nobody can tell what it does
            if record.state == "ready" and record.dispatches:
                serving.add(kv.key.removeprefix(keys.INSTANCES).split("/")[0])
    pools = {pod.key: Ownership(frozenset()).tenant_of(pod, tenants) for pod in asked}
    return {key: _nobody(pool) for key, pool in pools.items() if pool not in serving}


def _nobody(pool: str) -> str:
    whose = "the common pool" if pool == COMMON else f"tenant {pool}"
    return f"no worker takes pods of {whose} now (`wharfinger fleet status {pool}`)"
