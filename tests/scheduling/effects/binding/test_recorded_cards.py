"""The cards that GpuMemory chose are recorded with the decision; a bind sees to it that the node still suits."""

from __future__ import annotations

import json
from typing import Any

from tests.scheduling.effects.test_gangs import TEAM, bind_gang, gang_labels
from tests.scheduling.world import World
from wharfinger.etcd import keys
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.node import GIB_LABEL, GPU, GPU_MEMORY
from wharfinger.scheduling.contracts.group_payloads import placed_alone
from wharfinger.scheduling.contracts.scheduling import Bound, Contended
from wharfinger.testing import node_manifest

PROFILES = load_profiles({"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "GpuMemory"}]}}}]})


async def put_gpu_node(world: World, name: str, *, cards: int = 8, memory: int = 80) -> None:
    node = node_manifest(name, labels={GIB_LABEL: str(memory)})
    node["status"]["allocatable"] = {**node["status"]["allocatable"], GPU: str(cards)}
    await world.store.put(keys.node(name), json.dumps(node).encode())


async def put_gpu_pod(world: World, name: str, cards: int, **more: Any) -> None:
    requests = {"cpu": "100m", GPU: str(cards), GPU_MEMORY: "40Gi"}
    await world.put_pod(name, spec={"containers": [{"name": "main", "resources": {"requests": requests}}]}, **more)


async def test_lone_pods_get_the_lowest_free_cards(world: World) -> None:
    await put_gpu_node(world, "n1")
    hand = await world.hand(profiles=PROFILES)
    recorded = []
    for name, cards in (("a", 2), ("b", 1), ("c", 4)):
        await put_gpu_pod(world, name, cards)
        placed = await hand.placed(name)
        assert isinstance(await hand.bind(name, placed), Bound)
        recorded.append(placed.plugin_data)

    assert recorded == [{"GpuMemory": {"cards": cards}} for cards in ("0-1", "2", "3-6")]


async def test_members_of_a_cohort_and_of_a_gang_get_different_cards(world: World) -> None:
    await put_gpu_node(world, "n1")
    for number in range(2):
        await put_gpu_pod(world, f"m{number}", 2, labels=gang_labels(2, TEAM.name))
        await put_gpu_pod(world, f"p{number}", 1)
    hand = await world.hand(profiles=PROFILES)

    cohort = await hand.place_many("p0", "p1")
    gang = await hand.place_gang()
    assert len((await bind_gang(hand, gang)).bound) == 2
    seats = [*cohort.seats, *gang.seats]
    assert [seat.plugin_data["GpuMemory"]["cards"] for seat in seats] == ["0", "1", "2-3", "4-5"]
    assert placed_alone(gang, 1).plugin_data == {"GpuMemory": {"cards": "4-5"}}


async def test_a_pod_without_cards_leaves_no_record_of_any(world: World) -> None:
    await put_gpu_node(world, "n1")
    await world.put_pod("plain")
    hand = await world.hand(profiles=PROFILES)

    assert (await hand.placed("plain")).plugin_data == {}


async def test_no_pod_is_bound_where_cards_became_too_small(world: World) -> None:
    await put_gpu_node(world, "n1")
    await put_gpu_pod(world, "a", 2)
    hand = await world.hand(profiles=PROFILES)
    placed = await hand.placed("a")
    await put_gpu_node(world, "n1", memory=24)
    await world.seen()

    answer = await hand.bind("a", placed)
    assert isinstance(answer, Contended)
    assert "GpuMemory: node(s) had GPU cards with too little memory" in answer.message
    assert await world.node_of("a") == ""


async def test_two_workers_give_no_card_twice(world: World) -> None:
    await put_gpu_node(world, "n1", cards=3)
    for name in ("a", "b"):
        await put_gpu_pod(world, name, 2)
    one, other = await world.hand(profiles=PROFILES), await world.hand(profiles=PROFILES)
    first, second = await one.placed("a"), await other.placed("b")

    assert isinstance(await one.bind("a", first), Bound)
    assert isinstance(await other.bind("b", second), Contended)
