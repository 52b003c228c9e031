"""Asynchronous plugins in a cluster of rk8s: rooms are held beside its documents, which no plugin's call touches."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.rk8s import rk8s_documents as docs
from tests.rk8s.rk8s_world import Rk8sWorld
from tests.scheduling.effects.called_plugins import Licences, bound_with_calls, profiles_with
from wharfinger.etcd import keys
from wharfinger.framework.status import unschedulable
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.plugin_calls import Held
from wharfinger.scheduling.contracts.scheduling import Bound, Rejected


@pytest.fixture
async def world() -> AsyncIterator[Rk8sWorld]:
    world = Rk8sWorld()
    await world.store.put(keys.INSTALLATION, b"{}")
    await world.put(docs.node("node-1", cpu="1"), docs.pod("web", cpu="1", memory="1Mi"))
    yield world
    await world.close()


async def test_the_room_is_held_and_the_document_is_not_touched(world: Rk8sWorld) -> None:
    licences = Licences()
    hand, other = await world.hand(profiles=profiles_with(licences)), await world.hand()
    before = await world.store.get("/registry/pods/web")
    placed = await hand.placed("web")
    assert isinstance(await hand.bind("web", placed), Held)
    await world.seen()
    assert (await world.store.get("/registry/pods/web")).kv == before.kv
    info = other.cache.node_info("node-1")
    assert info is not None
    assert [pod.name for pod in info.pods] == ["web"]

    assert isinstance(await bound_with_calls(hand, "web", placed), Bound)
    await world.seen()
    assert other.cache.pods[PodKey("default", "web")].node_name == "node-1"
    assert not other.cache.held_places
    assert licences.diary[-1] == "post_bind node-1"


async def test_a_refusal_gives_the_room_back(world: Rk8sWorld) -> None:
    hand = await world.hand(profiles=profiles_with(Licences(answers=[unschedulable("no licence is free")])))
    outcome = await bound_with_calls(hand, "web", await hand.placed("web"))
    await world.seen()
    assert outcome == Rejected(plugin="Licences", message="no licence is free")
    assert not hand.cache.held_places
