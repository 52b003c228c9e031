"""A worker with an asynchronous plugin on bare etcd, and a Kubernetes API with its copies."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.engine.conftest import Hand, World
from tests.engine.pods.called_plugins import Licences, profiles_with
from tests.engine.pods.upstream_world import UpstreamWorld
from wharfinger.etcd import keys


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
