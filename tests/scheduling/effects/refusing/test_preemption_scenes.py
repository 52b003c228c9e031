"""Preemptors that meet controllers, rules and nodes that go: the whole way to their bind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduling.effects.refusing.test_preemption import evict, eviction, full_node, nominate, preemptor
from tests.scheduling.world import Hand, World
from wharfinger.etcd import keys
from wharfinger.scheduling.contracts.eviction import Evicted

REPELS_WEB = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}


async def nominated(world: World, name: str = "high") -> str:
    status: dict[str, str] = (await world.pod(name))["status"]
    return status.get("nominatedNodeName", "")


async def make_room(hand: Hand, name: str = "high") -> tuple[str, ...]:
    """Refuse, nominate and evict; the pods that were evicted."""
    refused = await hand.refused(name)
    evicted = await evict(hand, eviction(refused, await nominate(hand, refused, name=name), name=name))
    assert isinstance(evicted, Evicted)
    await hand.seen()
    return evicted.evicted


async def test_a_controller_that_replaces_victims_at_once_starves_no_preemptor(world: World) -> None:
    """Each replacement comes before the preemptor is tried again, and finds the room kept."""
    await full_node(world, "low-1", "low-2", "low-3")
    hand = await world.hand(eviction="immediate")
    await world.put_pod("high", cpu="3", spec={"priority": 10})
    await hand.seen()

    evicted = await make_room(hand)
    assert len(evicted) == 3
    for number in range(len(evicted)):
        await world.put_pod(f"again-{number}", spec={"priority": 1})
        await hand.seen()
        assert (await hand.refused(f"again-{number}")).victims == ()

    assert (await hand.bind("high", await hand.placed("high"))).kind == "bound"
    assert [await world.node_of(f"again-{number}") for number in range(3)] == [""] * 3


@pytest.mark.parametrize("other", [True, False], ids=["another node", "no other node"])
async def test_a_pod_whose_nominated_node_is_deleted_seeks_another(world: World, other: bool) -> None:
    await full_node(world, "low-1")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand)
    await nominate(hand, refused)
    assert await nominated(world) == "node-1"

    await world.store.delete(keys.node("node-1"))
    if other:
        await full_node(world, "low-2", name="node-2")
    await hand.seen()
    again = await hand.refused("high")
    assert again.nominated_node == ("node-2" if other else "")
    recorded = await nominate(hand, again, attempt=2)

    assert await nominated(world) == again.nominated_node
    if other:
        evicted = await evict(hand, eviction(again, recorded))
        assert evicted == Evicted(evicted=("default/low-2",))
        await hand.seen()
        assert (await hand.bind("high", await hand.placed("high"))).kind == "bound"
        assert await world.node_of("high") == "node-2"
        assert await nominated(world) == ""


async def test_preemption_overrules_a_nomination_that_another_client_wrote(world: World) -> None:
    await full_node(world, "low-1")
    await world.put_node("taken", cpu="1")
    await world.put_pod("equal", spec={"nodeName": "taken", "priority": 10})
    await world.put_pod("high", spec={"priority": 10}, status={"nominatedNodeName": "taken"})
    hand = await world.hand(eviction="immediate")

    assert await make_room(hand) == ("default/low-1",)

    assert await nominated(world) == "node-1"
    assert (await hand.bind("high", await hand.placed("high"))).kind == "bound"


async def put_web(world: World, name: str, node: str, priority: int = 1) -> None:
    await world.put_pod(name, cpu="100m", labels={"app": "web"}, spec={"nodeName": node, "priority": priority})


@pytest.mark.parametrize(
    ("spec", "labels", "victims"),
    [
        ({"affinity": REPELS_WEB}, {}, {"default/web-1", "default/web-2"}),
        (SPREAD, {"app": "web"}, {"default/web-1", "default/web-2"}),
    ],
    ids=["anti-affinity", "spread constraint"],
)
async def test_victims_of_a_rule_leave_and_the_preemptor_is_bound(
    world: World, spec: dict[str, Any], labels: dict[str, str], victims: set[str]
) -> None:
    """The node has room; only the rule is in the way, and the other zone's node is full of an equal pod."""
    for name, zone in (("a", "x"), ("b", "y")):
        await world.put_node(name, labels={"zone": zone, "kubernetes.io/hostname": name})
    for name in ("web-1", "web-2"):
        await put_web(world, name, "a")
    await world.put_pod("other", cpu="4", spec={"nodeName": "b", "priority": 10})
    await world.put_pod("bystander", cpu="100m", spec={"nodeName": "a", "priority": 1})
    await world.put_pod("high", labels=labels, spec={"priority": 10, **spec})
    hand = await world.hand(eviction="immediate")

    assert set(await make_room(hand)) == victims

    assert (await hand.bind("high", await hand.placed("high"))).kind == "bound"
    assert await world.node_of("high") == "a"
    assert await world.node_of("bystander") == "a"


async def test_no_pod_is_evicted_where_the_rule_would_still_refuse(world: World) -> None:
    await world.put_node("a", labels={"kubernetes.io/hostname": "a"})
    await put_web(world, "web-1", "a")
    await put_web(world, "web-2", "a", priority=10)
    await world.put_pod("high", spec={"priority": 10, "affinity": REPELS_WEB})
    hand = await world.hand()

    refused = await hand.refused("high")

    assert (refused.nominated_node, refused.victims) == ("", ())
    assert refused.rejectors == ("InterPodAffinity",)
