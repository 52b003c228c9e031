"""A cluster of rk8s: its documents in an etcd of its own, without a namespace in their keys, and workers on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from tests import garbage
from tests.conftest import EtcdServer, TemporalServer, start_etcd
from tests.patience import patient
from tests.rk8s import rk8s_documents as docs
from tests.rk8s.rk8s_world import Rk8sWorld
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import KeyValue, Put
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.parts import ProcessParts
from wharfinger.programs.worker import Worker
from wharfinger.settings import DispatchSettings, EtcdSettings, LeaseSettings, NodeEvictionSettings, WorkerSettings

OWN = (keys.OURS, keys.ASIDE)
"""What the keys of wharfinger begin with."""


@dataclass
class Rk8sCluster:
    """The cluster as rk8s' own programs see it: `store` has its keys as they are in etcd."""

    store: EtcdStore
    client: Client
    etcd: str
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    stored: dict[str, bytes] = field(default_factory=dict)
    """What was put, by key."""

    async def put(self, *documents: Mapping[str, Any]) -> None:
        """Put pods and nodes, one after the other."""
        for one in documents:
            await self.put_raw(key_of(one), docs.document(one))

    async def put_raw(self, key: str, value: bytes) -> None:
        self.stored[key] = value
        await self.store.put(key, value)

    async def put_at_once(self, *documents: Mapping[str, Any]) -> None:
        """Put pods and nodes in one transaction: workers see all of them before they place any."""
        values = {key_of(one): docs.document(one) for one in documents}
        self.stored.update(values)
        await self.store.txn((), [Put(key, value) for key, value in values.items()])

    async def delete(self, *names: str, kind: str = "pods") -> None:
        for name in names:
            await self.store.delete(f"/registry/{kind}/{name}")

    async def value(self, name: str) -> bytes:
        """The pod's document as it is stored."""
        found = (await self.store.get(f"/registry/pods/{name}")).kv
        assert found is not None, f"there is no pod {name}"
        return found.value

    async def theirs(self) -> list[KeyValue]:
        """Everything in etcd that is not wharfinger's own."""
        pages = self.store.list("/")
        return [kv async for page in pages for kv in page.items if not kv.key.startswith(OWN)]

    async def node_of(self, name: str) -> str:
        """The node that the pod's document names; empty while it names none, or while there is no pod."""
        found = (await self.store.get(f"/registry/pods/{name}")).kv
        return docs.read(found.value)["spec"].get("node_name") or "" if found is not None else ""

    async def nodes_of(self, names: Iterable[str]) -> dict[str, str]:
        """The nodes that the pods' documents name, read at one revision; empty as in `node_of`."""
        found = dict.fromkeys(names, "")
        async for page in self.store.list("/registry/pods/"):
            for kv in page.items:
                if (name := kv.key.rpartition("/")[2]) in found:
                    found[name] = docs.read(kv.value)["spec"].get("node_name") or ""
        return found

    async def bound(self, *names: str, seconds: float = 20.0) -> dict[str, str]:
        """Where the pods are, once all are bound."""
        async with asyncio.timeout(patient(seconds)):
            while not all((found := await self.nodes_of(names)).values()):
                await asyncio.sleep(0.02)
        return found

    async def bound_in_order(self, *names: str) -> list[str]:
        """The pods in the order in which they were bound, once all are."""
        await self.bound(*names)
        revisions = {}
        for name in names:
            found = (await self.store.get(keys.bound_by("default", name))).kv
            assert found is not None, f"wharfinger did not bind {name}"
            revisions[name] = found.mod_revision
        return sorted(names, key=lambda name: revisions[name])

    async def refused(self, name: str, *plugins: str) -> str:
        """Why the pod waits, once an attempt was refused (by these plugins); the pod has no node then."""
        record = await self.record_of(name, *plugins)
        assert await self.node_of(name) == ""
        return str(record["message"])

    async def record_of(self, name: str, *plugins: str, seconds: float = 20.0) -> Mapping[str, Any]:
        """The attempt record of this life of the pod, once there is one (that names these plugins)."""
        pod = (await self.store.get(f"/registry/pods/{name}")).kv
        assert pod is not None, f"there is no pod {name}"
        async with asyncio.timeout(patient(seconds)):
            while True:
                found = (await self.store.get(keys.attempt("default", name))).kv
                record = json.loads(found.value) if found is not None else {}
                if (
                    record
                    and record["create_revision"] == pod.create_revision
                    and set(plugins) <= set(record["plugins"])
                ):
                    return record  # type: ignore[no-any-return]
                await asyncio.sleep(0.02)

    async def worker(self, *, through: str = "", **settings: Any) -> Worker:
        """A worker on connections of its own, ready; drained when the test ends. `through`: its way to etcd."""
        endpoints = (through or self.etcd,)
        store = store_of(await EtcdStore.connect(EtcdSettings(endpoints=endpoints)), ClusterFormat.RK8S)
        chosen = WorkerSettings(
            format=ClusterFormat.RK8S,
            dispatching=DispatchSettings(hold=0.1),
            lease=LeaseSettings(ttl=30),
            eviction="immediate",
            node_evictions=NodeEvictionSettings("requeue", 1.0, False),
            drain_timeout=3.0,
        )
        worker = Worker(replace(chosen, **settings), ProcessParts(store), self.client)
        stop = asyncio.Event()
        task = asyncio.create_task(worker.run(stop))

        async def drain() -> None:
            stop.set()
            await asyncio.wait([task])
            await store.close()

        self.stack.push_async_callback(drain)
        await self.until(lambda: task.done() or set(worker.checks().values()) == {"ok"})
        if task.done():  # it could not even begin
            await task
        return worker

    async def empty(self, worker: Worker) -> None:
        """Delete all pods, then all nodes, and wait until the worker has forgotten them."""
        view = worker.loops.scheduling.view
        await self._delete_all("/registry/pods/")
        await self.until(lambda: not (worker.cache.pods or len(worker.queue) or view.records or view.bound_by))
        await self._delete_all("/registry/nodes/")
        await self.until(lambda: not worker.cache.nodes)
        self.stored.clear()

    async def until(self, holds: Callable[[], Any], seconds: float = 15.0) -> None:
        async with asyncio.timeout(patient(seconds)):
            while not holds():
                await asyncio.sleep(0.01)

    async def clean(self) -> None:
        """Delete every key of the cluster, wharfinger's own as well."""
        await self._delete_all(keys.ROOT)

    async def _delete_all(self, prefix: str) -> None:
        async for page in self.store.list(prefix):
            for kv in page.items:
                await self.store.delete(kv.key)


def key_of(document: Mapping[str, Any]) -> str:
    """The key under which rk8s keeps a document."""
    return f"/registry/{document['kind'].lower()}s/{document['metadata']['name']}"


@pytest.fixture(scope="session")
def rk8s_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """An etcd of clusters of rk8s: the installation record fixes the format."""
    with start_etcd(tmp_path_factory.mktemp("rk8s-etcd")) as server:
        yield server


@asynccontextmanager
async def cluster_on(rk8s_etcd: EtcdServer, temporal_server: TemporalServer) -> AsyncIterator[Rk8sCluster]:
    """A cluster without objects and workers; its workers end with it."""
    store = await EtcdStore.connect(EtcdSettings(endpoints=(rk8s_etcd.url,)))
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    cluster = Rk8sCluster(store, client, rk8s_etcd.url)
    await cluster.clean()
    try:
        async with cluster.stack:
            yield cluster
    finally:
        await cluster.clean()
        await store.close()
        garbage.collect()  # CPython 3.11's parser fails when much cyclic garbage is collected while it runs


@pytest.fixture
async def rk8s(rk8s_etcd: EtcdServer, temporal_server: TemporalServer) -> AsyncIterator[Rk8sCluster]:
    """A cluster of one test, which starts its own workers."""
    async with cluster_on(rk8s_etcd, temporal_server) as cluster:
        yield cluster


@dataclass(frozen=True)
class Served:
    """A cluster with one worker, which places one pod after the other: so the order in which it does is certain."""

    cluster: Rk8sCluster
    worker: Worker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served_module(rk8s_etcd: EtcdServer, temporal_server: TemporalServer) -> AsyncIterator[Served]:
    """One worker for all tests of a file."""
    async with cluster_on(rk8s_etcd, temporal_server) as cluster:
        worker = await cluster.worker(
            dispatching=DispatchSettings(hold=0.1, in_flight=1, cohorts=False),
            node_evictions=NodeEvictionSettings("report"),
        )
        yield Served(cluster, worker)


@pytest_asyncio.fixture(loop_scope="module")
async def served(served_module: Served) -> AsyncIterator[Served]:
    """The file's worker, on a cluster without pods and nodes.

    Its tests need `pytestmark = pytest.mark.asyncio(loop_scope="module")`.
    """
    yield served_module
    await served_module.cluster.empty(served_module.worker)


@pytest.fixture
def cluster(served: Served) -> Rk8sCluster:
    """The cluster of the file's worker."""
    return served.cluster


@pytest.fixture
async def world() -> AsyncIterator[Rk8sWorld]:
    """The same in memory, with workers that a test leads."""
    world = Rk8sWorld()
    await world.store.put(keys.INSTALLATION, b"{}")
    yield world
    await world.close()
