"""What the Kubernetes API shows of a pod, and what only etcd has yet: its promise, and whether it shows the refusal.

A bind is in etcd before the API has it, and so is a refusal. The copy of a pod has the condition that the API has, so a
record with another text is one that the API does not show yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import CONTENDED
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.contracts.promise_records import promise_in
from wharfinger.scheduling.model.promises import Promise


@dataclass(frozen=True, slots=True)
class PromiseStory:
    """Of one pod."""

    promise: Promise | None
    shown: bool | None
    """Whether the API shows the refusal that the pod waits with; None = it waits with none."""
    condition: tuple[str, str, str] | None = None
    """Status, reason and message of PodScheduled, as the API shows it."""

    def sentences(self) -> Iterator[str]:
        """For people."""
        promise = self.promise
        if promise is not None and promise.withdrawn:
            yield f"Its promise of {promise.node}, made {promise.since}, is being given up: {promise.withdrawn}"
            if promise.told and promise.told != promise.withdrawn:
                yield f"In the words of the Kubernetes API: {promise.told}"
        elif promise is not None:
            waits = f"these plugins agree: {', '.join(promise.calls)}" if promise.calls else "its volumes are prepared"
            why = "has not shown the bind yet" if promise.ready else f"gets the bind when {waits}"
            yield f"Promised to {promise.node} since {promise.since}; the Kubernetes API {why}"
        if self.shown:
            yield "The Kubernetes API shows this refusal"
        elif self.shown is False:
            shows = f"it shows {self.condition[1]}: {self.condition[2]}" if self.condition else "it shows none"
            yield f"The Kubernetes API does not show this refusal yet ({shows}); it is sent again within 30 s"

    def to_plain(self) -> dict[str, Any]:
        """As plain values."""
        promise = asdict(self.promise) if self.promise is not None else None
        if promise is not None:
            del promise["mod_revision"]
        condition = dict(zip(("status", "reason", "message"), self.condition, strict=True)) if self.condition else None
        return {"promise": promise, "refusalShown": self.shown, "condition": condition}


async def promises_of(store: Store, namespace: str = "") -> dict[PodKey, Promise]:
    """All promises, by pod; of one namespace or of all. Raises `StoreError`."""
    rows = keys.promise.rows(store, namespace)
    return {PodKey(*pod): promise_in(kv.value, kv.mod_revision) async for pod, kv in rows}


async def promise_of(store: Store, key: PodKey) -> Promise | None:
    """A pod's promise; None when it has none. Raises `StoreError`."""
    kv = (await store.get(keys.promise(*key))).kv
    return promise_in(kv.value, kv.mod_revision) if kv is not None else None


def promised_pod(key: str) -> PodKey | None:
    """The pod of a promise's key; None for another key."""
    parts = keys.promise.parse(key)
    return PodKey(*parts) if parts is not None else None


def story(pod: Pod, record: AttemptRecord | None, promise: Promise | None) -> PromiseStory:
    """The story of a pod. `record`: the refusal that it waits with."""
    shown = None
    if record is not None and pod.pending and record.reason != CONTENDED:
        shown = pod.condition == ("False", record.reason, record.message)
    return PromiseStory(promise, shown, pod.condition)
