"""A Kubernetes API and an etcd, both in memory, with what stands between them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from wharfinger.apiserver.client import NODES, PODS
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.kubernetes.effects.adopting import Adopter, rewrite
from wharfinger.kubernetes.effects.copying import Copying
from wharfinger.kubernetes.effects.promising import Promises
from wharfinger.objects.documents.copies import copy_of_promised, state_of
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.effects.binding.right_to_bind import RightToBind
from wharfinger.scheduling.model.promises import Importer, MayBind, Promise
from wharfinger.testing import MemoryStore
from wharfinger.testing.memory_upstream import MemoryUpstream

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ATTEMPT = "pod-default-a@run-1"
POD = PodKey("default", "a")


def pod_object(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def node_object(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}


@dataclass
class Between:
    """Both sides, and the parts of one worker."""

    store: MemoryStore = field(default_factory=MemoryStore)
    api: MemoryUpstream = field(default_factory=MemoryUpstream)
    seconds: float = 1000.0
    epoch: int = 0

    def __post_init__(self) -> None:
        self.adopter = Adopter(self.store, utc_now=lambda: NOW)
        self.right = RightToBind(self.store, clock=lambda: self.seconds)
        self.promises = Promises(self.api, self.adopter, self.right)
        self.rng = random.Random(1)

    async def begin(self) -> None:
        """There is an importer, and the right to bind."""
        importer = promise_records.stored(Importer("here"))
        self.epoch = await self.store.put(keys.IMPORTER, importer)
        await self.store.put(keys.ACTIVE, promise_records.stored(MayBind("here")))

    def copying(self, **changes: Any) -> Copying:
        kept = {name: changes.pop(name) for name in ("whole", "anew") if name in changes}
        options = {"limits": Limits(), "epoch": self.epoch, **changes}
        return Copying(Adopter(self.store, utc_now=lambda: NOW, **kept), **options)

    async def copy_of(self, key: str) -> dict[str, Any] | None:
        import orjson

        kv = (await self.store.get(key)).kv
        return None if kv is None else orjson.loads(kv.value)

    async def promise(self, pod: PodKey = POD) -> Promise | None:
        return await self.promises.promise_of(pod)

    async def mark(self, promise: Promise) -> None:
        """The pod's promise as it is now is this one, written as our own transactions do."""
        assert (await rewrite(self.store, POD, lambda _: promise)).written

    async def add(self, name: str = "a", **spec: Any) -> dict[str, Any]:
        """A pod in the API, and its copy."""
        from wharfinger.objects.documents.copies import copy_of

        stored = self.api.put(PODS, pod_object(name, **spec))
        await self.store.put(keys.pod("default", name), copy_of(stored, "pods"))
        return stored

    async def promised(self, name: str = "a", node: str = "n1", attempt: str = ATTEMPT) -> Promise:
        """A pod in the API that is bound and promised in etcd, by the transaction of `commit.together`."""
        stored = await self.add(name)
        if self.api.find(NODES, node) is None:
            self.api.put(NODES, node_object(node))
        value = copy_of_promised(stored, node=node, attempt=attempt, now="2026-03-01T12:00:00Z")
        uid, revision, _ = state_of(value)
        promise = Promise(uid, revision, node, attempt, "2026-03-01T12:00:00Z")
        await self.store.txn(
            [],
            [
                Put(keys.pod("default", name), value),
                Put(keys.promise("default", name), promise_records.stored(promise)),
            ],
        )
        return promise
