"""Several workers' activities on one store in memory, as a cluster of rk8s keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.rk8s import rk8s_documents as docs
from tests.scheduling.world import World
from wharfinger.etcd import keys
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.testing import MemoryStore


@dataclass
class Rk8sWorld(World):
    """`store` has the keys as they are stored, as rk8s' own programs see them."""

    store: MemoryStore = field(default_factory=MemoryStore)
    format: ClusterFormat = ClusterFormat.RK8S

    async def put(self, *documents: Mapping[str, Any]) -> None:
        """Put pods and nodes, one after the other."""
        for one in documents:
            await self.store.put(f"/registry/{one['kind'].lower()}s/{one['metadata']['name']}", docs.document(one))

    async def value(self, name: str) -> bytes | None:
        """The pod's document as it is stored."""
        kv = (await self.store.get(f"/registry/pods/{name}")).kv
        return None if kv is None else kv.value

    async def node_of(self, name: str) -> str:
        value = await self.value(name)
        return "" if value is None else docs.read(value)["spec"]["node_name"] or ""

    async def bind_as_libscheduler(self, name: str, node: str) -> None:
        """Write the pod's node without a compare, as rk8s' own scheduler does: read, change, put."""
        value = await self.value(name)
        assert value is not None
        found = docs.read(value)
        await self.put({**found, "spec": {**found["spec"], "node_name": node}})

    async def bound_by(self, name: str) -> Mapping[str, Any]:
        """The record of what bound the pod; empty when there is none."""
        kv = (await self.store.get(keys.bound_by("default", name))).kv
        return {} if kv is None else json.loads(kv.value)

    async def judge(self, *names: str) -> None:
        """Each of these pods got one node, and differs in nothing else; each record of a bind matches its pod."""
        for name in names:
            seen: list[bytes] = []
            async with self.store.watch(f"/registry/pods/{name}", 1) as batches:
                async for batch in batches:
                    seen += [event.kv.value for event in batch.events if event.kv.key == f"/registry/pods/{name}"]
                    if batch.revision >= self.store.revision:
                        break
            node = await self.node_of(name)
            assert node, f"{name} is not bound"
            first, *later = seen
            assert set(later) == {first.replace(b"\n  node_name: null\n", f"\n  node_name: {node}\n".encode())}
            record = await self.bound_by(name)
            kv = (await self.store.get(f"/registry/pods/{name}")).kv
            assert kv is not None
            assert (record["node"], record["create_revision"]) == (node, kv.create_revision)
