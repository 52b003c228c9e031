"""A fleet, on a store in memory and on a real etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conftest import EtcdServer
from tests.fleet.effects.fleet_stage import FleetStage
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Store
from wharfinger.settings import EtcdSettings
from wharfinger.testing import MemoryStore


@pytest.fixture(params=["memory", pytest.param("etcd", marks=pytest.mark.servers)])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[FleetStage]:
    """A fleet, on a store in memory and on a real etcd."""
    store: Store = MemoryStore()
    if request.param == "etcd":
        server: EtcdServer = request.getfixturevalue("etcd_server")
        store = await EtcdStore.connect(EtcdSettings(endpoints=(server.url,)))
    stage = FleetStage(store)
    await stage.set_up()
    yield stage
    await store.close()


@pytest.fixture
async def quick() -> FleetStage:
    """A fleet, on a store in memory."""
    stage = FleetStage(MemoryStore())
    await stage.set_up()
    return stage
