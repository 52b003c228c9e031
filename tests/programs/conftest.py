"""Whole workers on real servers: every test has keys, a cluster and workflows of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from tests import garbage
from tests.conftest import EtcdServer, TemporalServer
from tests.patience import patient
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.parts import ProcessParts
from wharfinger.programs.worker import Worker
from wharfinger.settings import DispatchSettings, EtcdSettings, LeaseSettings, WorkerSettings
from wharfinger.testing import node_manifest

_numbers = itertools.count(1)


class Site:
    """etcd and Temporal as other programs use them, and workers started by hand."""

    def __init__(self, store: EtcdStore, client: Client, etcd: str) -> None:
        self.store = store
        self.client = client
        self.etcd = etcd
        self.namespace = f"t{next(_numbers)}-{time.time_ns() % 10**9}"
        self._workers: list[tuple[Worker, asyncio.Event, asyncio.Task[None], EtcdStore]] = []

    async def worker(self, **settings: Any) -> Worker:
        """A worker on connections of its own, on duty."""
        store = await EtcdStore.connect(EtcdSettings(endpoints=(self.etcd,)))
        config = self.client.service_client.config
        client = await Client.connect(
            config.target_host, namespace=self.client.namespace, data_converter=pydantic_data_converter
        )
        chosen = WorkerSettings(
            dispatching=DispatchSettings(hold=0.1),
            lease=LeaseSettings(ttl=30),  # of a worker that lives in the test's own process, however long that stops
            drain_timeout=3.0,
        )
        worker = Worker(replace(chosen, **settings), ProcessParts(store), client)
        stop = asyncio.Event()
        task = asyncio.create_task(worker.run(stop))
        self._workers.append((worker, stop, task, store))
        await self.until(lambda: task.done() or set(worker.checks().values()) == {"ok"})
        if task.done():  # it could not even begin
            self._workers.pop()
            await store.close()
            await task
        return worker

    async def drain(self, worker: Worker) -> float:
        """Stop a worker as SIGTERM does; seconds it took."""
        began = time.monotonic()
        for found in [one for one in self._workers if one[0] is worker]:
            self._workers.remove(found)
            _, stop, task, store = found
            stop.set()
            await task
            await store.close()
        return time.monotonic() - began

    async def close(self) -> None:
        """Stop every worker, and take our objects away."""
        for worker in [one[0] for one in self._workers]:
            await self.drain(worker)
        async for page in self.store.list(keys.ROOT):
            for kv in page.items:
                if kv.key != keys.INSTALLATION:
                    await self.store.delete(kv.key)

    async def node(self, name: str, *, cpu: str = "4", pods: int = 110) -> None:
        await self.store.put(keys.node(name), json.dumps(node_manifest(name, cpu, pods=pods)).encode())

    async def pod(
        self, name: str, *, cpu: str = "100m", labels: dict[str, str] | None = None, scheduler: str = ""
    ) -> None:
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
        value = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels or {}},
            "spec": {"containers": containers, **({"schedulerName": scheduler} if scheduler else {})},
        }
        await self.store.put(keys.pod(self.namespace, name), json.dumps(value).encode())

    async def stored(self, name: str) -> dict[str, Any]:
        found = await self.store.get(keys.pod(self.namespace, name))
        assert found.kv is not None
        return json.loads(found.kv.value)  # type: ignore[no-any-return]

    async def node_of(self, name: str) -> str:
        """Empty also while the pod is not there: one that gets a new life is deleted before it is made anew."""
        found = await self.store.get(keys.pod(self.namespace, name))
        return "" if found.kv is None else str(json.loads(found.kv.value)["spec"].get("nodeName", ""))

    def uid(self, worker: Worker, name: str) -> str:
        """What tells this pod from others of its name, as the worker knows it."""
        return worker.cache.pods[PodKey(self.namespace, name)].uid

    async def all_bound(self, names: list[str], seconds: float = 30.0) -> dict[str, str]:
        """Where each pod is, as etcd says it, once all are bound."""
        async with asyncio.timeout(patient(seconds)):
            while True:
                pages = [page async for page in self.store.list(f"{keys.PODS}{self.namespace}/")]
                there = {kv.key.rpartition("/")[2]: json.loads(kv.value) for page in pages for kv in page.items}
                found = {name: str(there[name]["spec"].get("nodeName", "")) for name in names if name in there}
                if len(found) == len(names) and all(found.values()):
                    return found
                await asyncio.sleep(0.1)

    async def until(self, holds: Callable[[], Any], seconds: float = 15.0) -> None:
        async with asyncio.timeout(patient(seconds)):
            while not holds():
                await asyncio.sleep(0.01)


@pytest.fixture
async def site(etcd_server: EtcdServer, temporal_server: TemporalServer) -> AsyncIterator[Site]:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_server.url,)))
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    site = Site(store, client, etcd_server.url)
    await site.close()
    try:
        yield site
    finally:
        await site.close()
        await store.close()
        garbage.collect()  # CPython 3.11's parser fails when much cyclic garbage is collected while it runs
