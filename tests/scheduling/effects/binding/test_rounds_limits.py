"""Committing at its limits: too large, too late, no room left, no answer from etcd; and what plugins see of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.binding.test_rounds_of_groups import many, told
from tests.scheduling.world import PROFILES, Hand, World, settled
from wharfinger.errors import RequestTooLarge, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.failures import gather_to_end
from wharfinger.process.transactions import Limits

ETCD_TAKES = 1_572_864
"""Bytes of a request, unless set."""


class Disk:
    """A plugin that attaches in PreBind and detaches in Unreserve."""

    name = "Disk"

    def __init__(self) -> None:
        self.detached: list[Any] = []
        self.attached: list[str] = []

    def reserve(self, state: Any, pod: Any, node: str) -> Any:
        return SUCCESS

    def pre_bind(self, state: Any, pod: Any, node: str) -> Any:
        state.write(self.name, f"disk of {pod.name}")
        self.attached.append(pod.name)
        return SUCCESS

    def unreserve(self, state: Any, pod: Any, node: str) -> None:
        self.detached.append(state.read(self.name))


async def hand_with(world: World, plugin: object) -> Hand:
    """A worker with one more plugin."""
    usual = PROFILES["default-scheduler"]
    profile = Profile(usual.name, Enabled.everywhere([*usual.plugins, plugin], {}), digest="more")
    return await world.hand(profiles={usual.name: profile})


@pytest.mark.parametrize(("ballast", "refused"), [(1_200_000, 0), (1_572_400, 1)])
async def test_a_pod_beyond_the_limit_of_bytes_is_sent_by_itself(world: World, ballast: int, refused: int) -> None:
    """Else each refusal of etcd's would halve the transactions of all others."""
    for number in range(40):
        await world.put_node(f"node-{number}")
        await world.put_pod(f"web-{number}", spec={"ballast": "x" * (ballast if number == 0 else 30_000)})
    hand = await world.hand()
    cohort = await hand.place_many(*(f"web-{number}" for number in range(40)))
    sizes: list[int] = []

    def look(compares: Any, success: Any) -> None:
        sizes.append(sum(len(one.value) for one in success if isinstance(one, Put)))
        if sizes[-1] > ETCD_TAKES:
            raise RequestTooLarge("too large")

    hand.store.before_txn = look

    bound = await hand.bind_many(cohort)

    assert len(bound.bound) == 40 - refused
    assert sum(size > ETCD_TAKES for size in sizes) == refused
    assert len(sizes) == 3


async def test_pre_bind_is_not_asked_about_pods_beyond_the_transaction(world: World) -> None:
    """But for the first of them, which shows that it is full."""
    disk = Disk()
    await world.put_node("node", cpu="100")
    for number in range(60):
        await world.put_pod(f"web-{number}", cpu="1")
    hand = await hand_with(world, disk)
    cohort = await hand.place_many(*(f"web-{number}" for number in range(60)))
    hand.activities._bindings._limits = Limits(operations=20)
    bound = await hand.bind_many(cohort)

    assert len(bound.bound) == 60
    assert len(set(disk.attached)) == 60
    assert len(disk.attached) == 60 + bound.transactions - 1


async def test_a_seat_that_lost_its_node_frees_the_room_at_once(world: World) -> None:
    for name, cpu in (("a", "2"), ("b", "1")):
        await world.put_node({"a": "n0", "b": "n1"}[name])
        await world.put_pod(name, cpu=cpu)
    hand = await world.hand()
    cohort = await hand.place_many("a", "b")
    a, b = cohort.seats
    seats = (
        a.model_copy(update={"node": "n0", "others": {}}),
        b.model_copy(update={"node": "n1", "others": {"n0": 1}}),
    )
    for seat in seats:
        pod = hand.cache.pods[PodKey("default", seat.name)]
        hand.cache.forget(pod.identity)
        hand.cache.assume(pod, seat.node)
    for node, cpu in (("n0", "3"), ("n1", "4")):
        await world.put_pod(f"first-{node}", cpu=cpu, spec={"nodeName": node})
        await world.store.put(keys.binding(node), b"{}")
    await hand.seen()

    bound = await hand.bind_many(cohort.model_copy(update={"seats": seats}))

    assert told(bound) == {"a": "contended", "b": "n0"}


async def test_unreserve_sees_what_pre_bind_wrote_when_the_pod_is_gone(world: World) -> None:
    disk = Disk()
    await world.put_node("n0")
    await world.put_pod("a")
    hand = await hand_with(world, disk)
    placed = await hand.placed("a")

    async def delete(*_: Any) -> None:
        hand.store.before_txn = None
        await world.store.delete(keys.pod("default", "a"))

    hand.store.before_txn = delete

    assert (await hand.bind("a", placed)).kind == "gone"
    assert disk.detached == ["disk of a"]


async def test_a_bind_that_fails_leaves_no_read_behind(world: World) -> None:
    """A read that went on would end the assumption of a pod that the retry has sent."""
    disk = Disk()
    await many(world, pods=2, nodes=2, cpu="2")
    hand = await hand_with(world, disk)
    cohort = await hand.place_many("web-0", "web-1")
    cohort = cohort.model_copy(update={"seats": tuple(one.model_copy(update={"others": {}}) for one in cohort.seats)})
    for seat in cohort.seats:
        await world.put_pod(f"first-{seat.node}", cpu="3", spec={"nodeName": seat.node})
        await world.store.put(keys.binding(seat.node), b"{}")
    await hand.seen()
    reads = 0

    async def txn(*_: Any) -> Any:
        nonlocal reads
        reads += 1
        raise Unavailable("away", maybe_applied=False)

    hand.store.txn = txn  # type: ignore[method-assign]
    with pytest.raises(ApplicationError):
        await hand.bind_many(cohort)
    await settled()

    assert reads == 1, "both pods are read together"
    assert disk.detached == []


@pytest.mark.parametrize("locked", ["pod", "node"])
@pytest.mark.parametrize("lone", [True, False])
async def test_waiting_for_a_lock_uses_up_no_patience(world: World, lone: bool, locked: str) -> None:
    seconds = 0.0
    await many(world, pods=20, nodes=5)
    hand = await world.hand(durations=lambda: seconds)
    pod = hand.cache.pods[PodKey("default", "web-0")].identity
    binding: Any
    if lone:
        placed = await hand.placed("web-0")
        node, binding = placed.node, hand.bind("web-0", placed)
    else:
        cohort = await hand.place_many(*(f"web-{number}" for number in range(20)))
        node, binding = cohort.seats[0].node, hand.bind_many(cohort)

    async with hand.activities._bindings._locks.hold([pod if locked == "pod" else node]):
        task = asyncio.create_task(binding)
        await settled()
        seconds += 5.0
    outcome = await task

    assert (outcome.kind == "bound") if lone else (len(outcome.bound) == 20)


async def test_an_error_among_several_is_raised_once_all_have_ended() -> None:
    """Else the locks would be released while one still runs."""
    may_end, ended = asyncio.Event(), []

    async def slow() -> None:
        await may_end.wait()
        ended.append("slow")

    async def broken() -> None:
        raise ValueError("a bug")

    gathering = asyncio.create_task(gather_to_end([broken(), slow()]))
    await settled()
    assert not gathering.done()
    may_end.set()
    with pytest.raises(ValueError, match="a bug"):
        await gathering
    assert ended == ["slow"]
