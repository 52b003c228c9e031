"""PodGroups of the policy `basic`: ordinary pods, unless they have to share a topology domain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scheduling.effects.refusing.test_preemption import evict, eviction, nominate
from tests.scheduling.world import Hand, World
from wharfinger.etcd import keys
from wharfinger.scheduling.contracts.cohort_scheduling import GangName, PlacedMany
from wharfinger.scheduling.contracts.eviction import Evicted, EvictInput

TEAM = GangName(namespace="default", name="team")
CHAIN = "test/cohort/default/team"


async def put_group(world: World, *, key: str = "", policy: dict[str, Any] | None = None) -> None:
    spec: dict[str, Any] = {"schedulingPolicy": policy if policy is not None else {"basic": {}}}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "team"}, "spec": spec}
    await world.store.put(keys.stored("podgroups", "default", "team"), json.dumps(group).encode())


async def put_members(world: World, *names: str, cpu: str = "1", priority: int = 10) -> None:
    for name in names:
        await world.put_pod(name, cpu=cpu, spec={"schedulingGroup": {"podGroupName": "team"}, "priority": priority})
    await world.seen()


async def put_racks(world: World, **racks: int) -> None:
    """One node of so many CPUs for each rack."""
    for rack, cpu in racks.items():
        await world.put_node(f"in-{rack}", cpu=str(cpu), labels={"rack": rack})


async def fill(world: World, rack: str, *names: str, priority: int = 100) -> None:
    """Pods of one CPU that run there."""
    for name in names:
        await world.put_pod(name, spec={"nodeName": f"in-{rack}", "priority": priority})


async def place(hand: Hand) -> PlacedMany:
    await hand.seen()
    return await hand.place_gang()


async def bind(hand: Hand, placed: PlacedMany) -> list[str]:
    """The members that are bound by it, in one transaction, and where the others wait."""
    transactions = hand.store.revision
    bound = await hand.bind_many(placed, whole=True, domain=placed.domain, workflow_id=CHAIN)
    assert hand.store.revision == transactions + bool(bound.bound)
    await hand.record_many(placed, gang=TEAM, workflow_id=CHAIN)
    await hand.seen()
    return [one.name for one in bound.bound]


# --- without a topology key -----------------------------------------------------------------------


async def test_its_pods_are_placed_one_by_one_once_the_group_exists(world: World) -> None:
    await put_racks(world, one=2)
    hand = await world.hand()
    await put_members(world, "a", "b", "c")
    held = await hand.refused("a")
    assert (held.rejectors, held.message) == (("GangScheduling",), "PodGroup default/team does not exist")

    await put_group(world)
    await world.seen()

    assert [(await hand.bind(name, await hand.placed(name))).kind for name in ("a", "b")] == ["bound"] * 2
    assert (await hand.refused("c")).rejectors == ("NodeResourcesFit",)


@pytest.mark.parametrize("members", [1, 2], ids=["a part of the room", "the whole room"])
async def test_each_of_its_pods_preempts_as_an_ordinary_pod(world: World, members: int) -> None:
    await put_racks(world, one=2)
    await fill(world, "one", "low-1", "low-2", priority=1)
    await put_group(world)
    hand = await world.hand(eviction="immediate")
    names = ["a", "b"][:members]
    await put_members(world, *names)

    for name in names:
        refused = await hand.refused(name)
        assert (refused.nominated_node, len(refused.victims)) == ("in-one", 1)
        await evict(hand, eviction(refused, await nominate(hand, refused, name=name), name=name))
        await hand.seen()
        assert (await hand.bind(name, await hand.placed(name))).kind == "bound"
        await hand.seen()

    left = [name for name in ("low-1", "low-2") if await world.pod(name) is not None]
    assert len(left) == 2 - members


# --- in one topology domain -----------------------------------------------------------------------


async def test_as_many_as_fit_are_bound_in_one_rack_in_one_transaction(world: World) -> None:
    await put_racks(world, one=2, two=2)
    await put_group(world, key="rack")
    hand = await world.hand()
    await put_members(world, "a", "b", "c")

    placed = await place(hand)

    assert await bind(hand, placed) == ["a", "b"]
    assert len({await world.node_of(name) for name in ("a", "b")}) == 1
    assert await world.node_of("c") == ""
    assert "Insufficient cpu" in (await world.record_of("c"))["message"]


async def test_none_is_bound_where_no_member_fits(world: World) -> None:
    await put_racks(world, one=2, two=2)
    await put_group(world, key="rack")
    hand = await world.hand()
    await put_members(world, "a", "b", cpu="3")

    placed = await place(hand)

    assert (placed.seats, len(placed.turned_away)) == ((), 2)
    assert "gang needs 1 member placed in one domain of rack, 0 fit." in placed.reasons[0].message


async def test_the_rest_follows_when_room_appears_in_its_rack(world: World) -> None:
    """A member that comes alone chooses the fullest rack; the next one has room elsewhere, and waits for that rack."""
    await put_racks(world, one=2, two=2)
    await fill(world, "one", "there")
    await put_group(world, key="rack")
    hand = await world.hand()
    await put_members(world, "a")
    assert await bind(hand, await place(hand)) == ["a"]
    assert await world.node_of("a") == "in-one"

    await put_members(world, "b")
    waits = await place(hand)
    assert (waits.seats, [one.nominated_node for one in waits.turned_away]) == ((), [""])
    assert "gang needs 1 more member placed in one domain of rack, 0 fit." in waits.reasons[0].message
    await world.store.delete(keys.pod("default", "there"))

    assert await bind(hand, await place(hand)) == ["b"]
    assert await world.node_of("b") == "in-one"


async def test_two_groups_of_one_rack_each_leave_the_other_alone(world: World) -> None:
    """The decision of the second group includes the assumed pods of the first."""
    await put_racks(world, one=2, two=4)
    annotations = {"wharfinger.dev/topology-key": "rack"}
    for group, names in (("first", "ab"), ("second", "cd")):
        for name in names:
            labels = {"pod-group.scheduling.sigs.k8s.io/name": group}
            await world.put_pod(name, labels=labels, annotations=annotations)
    hand = await world.hand()

    first, second = await hand.place_gang("first"), await hand.place_gang("second")

    assert [seat.node for seat in first.seats] == ["in-one"] * 2
    assert [seat.node for seat in second.seats] == ["in-two"] * 2


async def test_room_is_made_in_one_rack_member_by_member(world: World) -> None:
    await put_racks(world, one=2, two=2)
    for rack in ("one", "two"):
        await fill(world, rack, f"{rack}-1", f"{rack}-2", priority=1)
    await put_group(world, key="rack")
    hand = await world.hand(eviction="immediate")
    await put_members(world, "a", "b")

    for count in (1, 2):
        placed = await place(hand)
        assert placed.seats == ()
        [preempts] = [one for one in placed.turned_away if one.victims]
        recorded = await hand.record_many(placed, gang=TEAM, workflow_id=CHAIN)
        request = EvictInput(
            namespace="default",
            name=preempts.name,
            uid=preempts.uid,
            create_revision=preempts.create_revision,
            node=preempts.nominated_node,
            victims=preempts.victims,
            record_revision=recorded.record_revisions[f"default/{preempts.name}"],
            workflow_id=CHAIN,
            run_id="run-1",
        )
        evicted = await hand.activities.evict(request)
        assert isinstance(evicted, Evicted)
        assert len(evicted.evicted) == 1
        assert await bind(hand, await place(hand)) == ["ab"[count - 1]]

    assert len({await world.node_of(name) for name in ("a", "b")}) == 1
