"""Workers on a store in memory, one with an asynchronous plugin, and a Kubernetes API with its copies."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.scheduling.effects.called_plugins import Licences, profiles_with
from tests.scheduling.effects.kubernetes_world import UpstreamWorld
from tests.scheduling.world import Hand, World, world
from wharfinger.etcd import keys

__all__ = ["world"]


@pytest.fixture
def licences() -> Licences:
    return Licences()


@pytest.fixture
async def hand(world: World, licences: Licences) -> Hand:
    """A worker with the plugin, a node with room for one pod, and the pod `web`."""
    await world.put_node("n1", cpu="1")
    await world.put_pod("web")
    return await world.hand(profiles=profiles_with(licences))


@pytest.fixture
async def site() -> AsyncIterator[UpstreamWorld]:
    """An API server without objects, and an etcd with the copies."""
    made = UpstreamWorld()
    await made.store.put(keys.INSTALLATION, b"{}")
    await made.begin()
    yield made
    await made.close()
