"""A gang of rk8s within etcd's limits: each member has the record of its binder beside what others have."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.rk8s import rk8s_documents as docs
from tests.rk8s.rk8s_world import Rk8sWorld
from wharfinger.process.transactions import Limits


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
