"""The same tests for an API server in memory and a real one: a `Cluster` is one of them, in a namespace of its own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.apiserver.api_server_process import ApiServerProcess
from wharfinger.apiserver.client import NAMESPACES, PODS, ApiAnswer, ApiChange, ApiClient, Batch, revision_of
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.testing.memory_upstream import MemoryUpstream

_numbers = itertools.count(1)


@dataclass
class Cluster:
    """What a test of the conformance suite stands on."""

    apiserver: ApiClient
    namespace: str
    memory: MemoryUpstream | None = None
    process: ApiServerProcess | None = None
    clients: list[ApiClient] = field(default_factory=list)

    def client(self) -> ApiClient:
        """Another client of the same server."""
        if self.memory is not None:
            return self.memory.client()
        assert self.process is not None
        client = HttpApiClient(read_access(self.process.kubeconfig), ApiLimits(qps=-1))
        self.clients.append(client)
        return client

    def pod_body(self, name: str, **spec: Any) -> dict[str, Any]:
        containers = [{"name": "app", "image": "registry.invalid/app"}]
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}

    async def pod(self, name: str, **spec: Any) -> dict[str, Any]:
        """A new pod."""
        answer = await self.apiserver.create(PODS, self.pod_body(name, **spec), namespace=self.namespace)
        assert answer.code == 201, answer
        assert answer.object is not None
        return dict(answer.object)

    async def read(self, name: str) -> Mapping[str, Any]:
        """A pod as it is now."""
        answer = await self.apiserver.get(PODS, name, namespace=self.namespace)
        assert answer.object is not None, answer
        return answer.object

    async def bind(self, name: str, node: str, *, dry_run: bool = False, **metadata: Any) -> ApiAnswer:
        """POST a Binding."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "target": {"kind": "Node", "name": node},
        }
        return await self.apiserver.create(
            PODS, body, namespace=self.namespace, name=name, subresource="binding", dry_run=dry_run
        )

    async def bound_pod(self, name: str, node: str) -> None:
        """A new pod that is bound, in the API server's watch cache too.

        A delete begins with the cache's object. Where that is from before the bind, kube-apiserver takes the pod for an
        unbound one, and deletes it at once: so it was for 6 of 400 pods that were deleted right after their bind.
        """
        made = await self.pod(name)
        async with self.apiserver.watch(PODS, revision=revision_of(made)) as batches:
            await self.bind(name, node)
            while not any(change.object["spec"].get("nodeName") for change in await self.next_changes(batches)):
                pass

    async def patch_status(self, name: str, body: dict[str, Any]) -> ApiAnswer:
        """A strategic merge patch of `pods/status`."""
        return await self.apiserver.patch(PODS, name, body, namespace=self.namespace, subresource="status")

    def of_ours(self, batch: Batch) -> list[ApiChange]:
        """The changes of this test's namespace: the tests share a server."""
        return [change for change in batch.changes if change.object["metadata"].get("namespace") == self.namespace]

    async def next_changes(self, batches: AsyncIterator[Batch], count: int = 1) -> list[ApiChange]:
        """As many changes of our namespace, in order."""
        seen: list[ApiChange] = []
        while len(seen) < count:
            seen += self.of_ours(await anext(batches))
        return seen


@pytest.fixture(params=["memory", pytest.param("kube-apiserver", marks=pytest.mark.servers)])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """Either server, with a namespace that no other test uses."""
    namespace = f"conformance-{next(_numbers)}"
    if request.param == "memory":
        memory = MemoryUpstream()
        made = Cluster(memory, namespace, memory)
    else:
        process: ApiServerProcess = request.getfixturevalue("kube_apiserver")
        made = Cluster(HttpApiClient(read_access(process.kubeconfig), ApiLimits(qps=-1)), namespace, process=process)
    answer = await made.apiserver.create(NAMESPACES, {"metadata": {"name": namespace}})
    assert answer.code == 201, answer
    yield made
    for client in (made.apiserver, *made.clients):
        await client.close()
