"""Gangs with graphics cards on rk8s: bound in one transaction within etcd's limits, in one domain, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Rk8sCluster
from tests.rk8s.rk8s_world import Rk8sWorld
from wharfinger.process.transactions import Limits

DOMAIN = "topology.rk8s.io/nvlink-domain"
ONE_DOMAIN: Mapping[str, Any] = {"topology_constraints": [{"topology_key": DOMAIN, "same_value": True}]}


def gpu_node(name: str, cards: int, domain: str = "", memory: int = 80) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.count": str(cards), "nvidia.com/gpu.memory-gib": str(memory)}
    return docs.node(name, cpu="16", memory="64Gi", labels=labels | ({DOMAIN: domain} if domain else {}))


def member(name: str, size: int, *, memory: str = "20Gi", **spec: Any) -> dict[str, Any]:
    """A pod with two cards."""
    return docs.pod(name, limits={"gpu": 2, "gpu_memory": memory}, gang={"id": "train", "size": size}, **spec)


async def test_a_gang_is_bound_in_one_transaction_in_one_domain(rk8s: Rk8sCluster) -> None:
    names = [f"m{number}" for number in range(4)]
    await rk8s.put(gpu_node("first", 8, "domain0"), gpu_node("second", 4, "domain1"))
    await rk8s.put(*(member(name, 4, **ONE_DOMAIN) for name in names))
    await rk8s.worker()

    assert set((await rk8s.bound(*names)).values()) == {"first"}
    stored = [(await rk8s.store.get(f"/registry/pods/{name}")).kv for name in names]
    assert len({kv.mod_revision for kv in stored if kv is not None}) == 1


async def test_no_member_is_bound_before_the_whole_gang_fits(rk8s: Rk8sCluster) -> None:
    names = [f"m{number}" for number in range(4)]
    await rk8s.put(gpu_node("small", 4), gpu_node("weak", 8, memory=16))
    await rk8s.put(*(member(name, 4) for name in names[:3]))
    await rk8s.worker()
    await asyncio.sleep(1)
    assert not any((await rk8s.nodes_of(names[:3])).values())

    await rk8s.put(member(names[3], 4))
    record = await rk8s.record_of("m0", "GpuMemory")
    assert "gang needs 4 members placed together, 2 fit." in record["message"]
    assert not any((await rk8s.nodes_of(names)).values())

    await rk8s.put(gpu_node("large", 8))
    found = await rk8s.bound(*names)
    assert "weak" not in found.values()


async def team(world: Rk8sWorld, count: int, size: int) -> None:
    for number in range(count):
        name = f"m-{number:02}"
        await world.put(docs.pod(name, cpu="100m", memory="1Mi", gang={"id": "team", "size": size}))


@pytest.fixture
async def world() -> AsyncIterator[Rk8sWorld]:
    world = Rk8sWorld()
    yield world
    await world.close()


@pytest.mark.parametrize("nodes", [1, 12])
async def test_members_beyond_the_size_are_left_out_of_a_full_transaction(world: Rk8sWorld, nodes: int) -> None:
    for number in range(nodes):
        await world.put(docs.node(f"n-{number:02}", cpu="64" if nodes == 1 else "100m"))
    await team(world, 12, size=4)
    hand = await world.hand(limits=Limits(operations=27))

    placed = await hand.place_gang()
    bound = await hand.bind_many(placed, whole=True)

    assert 4 <= len(placed.seats) < 12
    assert len(bound.bound) == len(placed.seats)
    assert bound.unbound == ()


async def test_a_size_that_no_transaction_holds_is_refused_before_placement(world: Rk8sWorld) -> None:
    await world.put(docs.node("n", cpu="64"))
    await team(world, 12, size=12)
    hand = await world.hand(limits=Limits(operations=24))

    placed = await hand.place_gang()

    assert placed.seats == ()
    assert "26 operations" in placed.reasons[0].message
