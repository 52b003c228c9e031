"""The same tests for both stores: a `World` is one store, its clients, its time and its keys."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from tests.registry.etcd_process import EtcdProcess
from wharfinger.registry.etcd import EtcdStore
from wharfinger.registry.store import KeyValue, Store
from wharfinger.testing.memory_store import MemoryStore

_numbers = itertools.count()


@dataclass
class World:
    """What a test of the conformance suite stands on."""

    store: Store
    prefix: str
    etcd: EtcdProcess | None = None
    clients: list[Store] = field(default_factory=list)

    def key(self, name: str) -> str:
        return self.prefix + name

    def client(self) -> Store:
        """Another client of the same store."""
        if isinstance(self.store, MemoryStore):
            return self.store.client()
        assert self.etcd is not None
        client = EtcdStore(self.etcd.settings)
        self.clients.append(client)
        return client

    def compact(self, revision: int) -> None:
        if isinstance(self.store, MemoryStore):
            self.store.compact(revision)
        else:
            assert self.etcd is not None
            self.etcd.compact(revision)

    async def let_pass(self, seconds: float) -> None:
        if isinstance(self.store, MemoryStore):
            self.store.advance(seconds)
        await asyncio.sleep(0 if isinstance(self.store, MemoryStore) else seconds)

    async def list_all(self, prefix: str | None = None, *, revision: int = 0, page_size: int = 500) -> list[KeyValue]:
        prefix = self.prefix if prefix is None else prefix
        return [
            kv async for page in self.store.list(prefix, revision=revision, page_size=page_size) for kv in page.items
        ]


@pytest.fixture(params=["memory", pytest.param("etcd", marks=pytest.mark.servers)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Either store, with a prefix that no other test uses."""
    prefix = f"/test-{next(_numbers)}/"
    if request.param == "memory":
        yield World(MemoryStore(), prefix)
        return
    etcd: EtcdProcess = request.getfixturevalue("steady_etcd")
    world = World(EtcdStore(etcd.settings), prefix, etcd)
    yield world
    for client in (world.store, *world.clients):
        await client.close()
