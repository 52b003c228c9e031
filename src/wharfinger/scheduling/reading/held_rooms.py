"""Pods whose room is held while asynchronous plugins are called for them, for people who ask what a pod waits for.

Where a Kubernetes API is the store, promises hold rooms (`reading.upstream_pods`), and none is found here.
"""

from __future__ import annotations

from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.model.held_places import HeldPlace
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.records import HoldRecord


async def held_rooms(store: Store, namespace: str = "") -> dict[PodKey, HeldPlace]:
    """All records of held rooms, of one namespace or of all; some may be of earlier pods. Raises `StoreError`."""
    rows = keys.hold.rows(store, namespace)
    return {PodKey(*pod): place async for pod, kv in rows if (place := _place(kv)) is not None}


async def held_room(store: Store, pod: Pod) -> HeldPlace | None:
    """The room that is held for this very pod; None for none. Raises `StoreError`."""
    kv = (await store.get(keys.hold(*pod.key))).kv if pod.pending else None
    place = _place(kv) if kv is not None else None
    return place if place is not None and place.is_for(pod) else None


def _place(kv: KeyValue) -> HeldPlace | None:
    record = HoldRecord.from_bytes(kv.value)
    return record.place(kv.mod_revision) if record is not None else None
