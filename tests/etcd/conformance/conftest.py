"""The same tests for all stores, etcd by both protocols: a `World` is one store, its clients, its time and its keys.

rk8s' spelling of keys is one more store, over either: its keys are those of pods, which it spells otherwise.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from tests.etcd.etcd_process import EtcdProcess
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.settings import EtcdSettings
from wharfinger.testing.memory_store import MemoryStore

_numbers = itertools.count()
ETCDS = ("json", "grpc", "json, rk8s")


@dataclass
class World:
    """What a test of the conformance suite stands on."""

    store: Store
    prefix: str
    memory: MemoryStore | None = None
    etcd: EtcdProcess | None = None
    settings: EtcdSettings = field(default_factory=EtcdSettings)
    clients: list[Store] = field(default_factory=list)

    def key(self, name: str) -> str:
        return self.prefix + name

    def client(self) -> Store:
        """Another client of the same store."""
        client: Store
        if self.memory is not None:
            client = self.memory.client()
        else:
            client = EtcdStore(self.settings)
            self.clients.append(client)
        return store_of(client, self.store.format)

    def compact(self, revision: int) -> None:
        if self.memory is not None:
            self.memory.compact(revision)
        else:
            assert self.etcd is not None
            self.etcd.compact(revision)

    async def let_pass(self, seconds: float) -> None:
        if self.memory is not None:
            self.memory.advance(seconds)
        await asyncio.sleep(0 if self.memory is not None else seconds)

    async def list_all(self, prefix: str | None = None, *, revision: int = 0, page_size: int = 500) -> list[KeyValue]:
        prefix = self.prefix if prefix is None else prefix
        return [
            kv async for page in self.store.list(prefix, revision=revision, page_size=page_size) for kv in page.items
        ]


@pytest.fixture(params=["memory", "memory, rk8s", *(pytest.param(one, marks=pytest.mark.servers) for one in ETCDS)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Any store, etcd by either protocol, with a prefix that no other test uses."""
    server, _, format_ = request.param.partition(", ")
    spelling = ClusterFormat(format_ or ClusterFormat.KUBERNETES)
    prefix = "/registry/pods/default/" if format_ else f"/test-{next(_numbers)}/"
    if server == "memory":
        memory = MemoryStore()
        yield World(store_of(memory, spelling), prefix, memory)
        return
    if format_:
        prefix += f"test-{next(_numbers)}/"
    etcd: EtcdProcess = request.getfixturevalue("steady_etcd")
    settings = replace(etcd.settings, protocol=server)
    world = World(store_of(EtcdStore(settings), spelling), prefix, etcd=etcd, settings=settings)
    yield world
    for client in (world.store, *world.clients):
        await client.close()
