"""An answer to a bind that got lost is resolved by the record of what bound the pod: documents do not say it.

A bind of rk8s' own scheduler, which compares nothing, is never overwritten, and never taken for ours.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.rk8s import rk8s_documents as docs
from tests.rk8s.rk8s_world import Rk8sWorld
from tests.scheduling.world import Hand, settled
from wharfinger.scheduling.contracts.cohort_scheduling import BoundMany, PlacedMany
from wharfinger.scheduling.contracts.scheduling import Bound, Gone, Placed, Recorded

NAMES = [f"web-{number}" for number in range(20)]


async def cohort(world: Rk8sWorld) -> tuple[Hand, PlacedMany]:
    """Twenty pods, each with its place."""
    await world.put(*(docs.node(f"node-{number}", cpu="2") for number in range(10)))
    await world.put(*(docs.pod(name, cpu="1", memory="1Mi") for name in NAMES))
    hand = await world.hand()
    placed = await hand.place_many(*NAMES)
    assert len(placed.seats) == len(NAMES)
    return hand, placed


async def bind_without_answer(world: Rk8sWorld, *, applied: bool) -> tuple[Hand, Placed]:
    """One pod whose bind got no answer, though it may have been applied."""
    await world.put(docs.node("node-1"), docs.pod("web"))
    hand = await world.hand()
    placed = await hand.placed("web")
    hand.store.fail_next(applied=applied)
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)
    return hand, placed


def nodes(bound: BoundMany) -> dict[str, str]:
    return {one.name: one.node for one in bound.bound}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["on the same worker", "on another worker"])
@pytest.mark.parametrize("applied", [True, False], ids=["done", "not done"])
async def test_lone_pod_is_bound_once_after_a_lost_answer(world: Rk8sWorld, applied: bool, elsewhere: bool) -> None:
    await world.put(docs.node("node-1"), docs.node("node-2"), docs.pod("web"))
    hand, other = await world.hand(), await world.hand()
    placed = await hand.placed("web")
    hand.store.fail_next(applied=applied)
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)
    assert bool(await world.node_of("web")) is applied

    bound = await (other if elsewhere else hand).bind("web", placed)

    assert isinstance(bound, Bound)
    assert (bound.node, bound.notes) == (placed.node, ("committed by an earlier try",) if applied else ())
    await world.judge("web")
    await world.seen()
    await settled()
    assert hand.cache.assumed() == other.cache.assumed() == ()


@pytest.mark.parametrize("whole", [False, True], ids=["cohort", "gang"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["on the same worker", "on another worker"])
@pytest.mark.parametrize("applied", [True, False], ids=["done", "not done"])
async def test_pods_of_one_transaction_are_bound_once_after_a_lost_answer(
    world: Rk8sWorld, applied: bool, elsewhere: bool, whole: bool
) -> None:
    hand, placed = await cohort(world)
    other = await world.hand()
    hand.store.fail_next(applied=applied)
    with pytest.raises(ApplicationError):
        await hand.bind_many(placed, whole=whole)

    bound = await (other if elsewhere else hand).bind_many(placed, whole=whole)

    assert nodes(bound) == {seat.name: seat.node for seat in placed.seats}
    assert {one.notes for one in bound.bound} == {("committed by an earlier try",) if applied else ()}
    await world.judge(*NAMES)


async def test_another_workflows_bind_is_not_claimed(world: Rk8sWorld) -> None:
    await world.put(docs.node("node-1"), docs.pod("web"))
    hand = await world.hand()
    placed = await hand.placed("web")
    await hand.bind("web", placed, workflow_id="another/workflow", run_id="7")

    gone = await hand.bind("web", placed)

    assert isinstance(gone, Gone)
    assert (gone.reason, gone.node, gone.bound_by) == ("bound", "node-1", "another/workflow@7")


# --- rk8s' own scheduler --------------------------------------------------------------------------


def before(world: Rk8sWorld, hand: Hand, *names: str) -> None:
    """Its bind arrives just before the next transaction that writes one of these pods."""
    wanted = {f"/registry/pods/{name}" for name in names}

    async def faster(_: Any, operations: Any) -> None:
        if wanted & {one.key for one in operations}:
            hand.store.before_txn = None
            for name in names:
                await world.bind_as_libscheduler(name, "node-9")

    hand.store.before_txn = faster


@pytest.mark.parametrize("watched", [False, True], ids=["the watch is behind", "the watch has shown it"])
async def test_foreign_bind_of_a_lone_pod_is_kept_and_not_claimed(world: Rk8sWorld, watched: bool) -> None:
    await world.put(docs.node("node-1"), docs.pod("web"))
    hand = await world.hand()
    placed = await hand.placed("web")
    if watched:
        await world.bind_as_libscheduler("web", "node-1")
        await hand.seen()
    else:
        before(world, hand, "web")

    gone = await hand.bind("web", placed)

    assert isinstance(gone, Gone)
    assert (gone.reason, gone.bound_by) == ("bound", "")
    assert await world.node_of("web") == ("node-1" if watched else "node-9")
    assert await world.bound_by("web") == {}


async def test_foreign_bind_over_our_lost_answer_is_not_claimed(world: Rk8sWorld) -> None:
    """Our bind happened, its answer got lost, and another scheduler moved the pod: the record names another node."""
    hand, placed = await bind_without_answer(world, applied=True)
    await world.bind_as_libscheduler("web", "node-9")

    gone = await hand.bind("web", placed)

    assert isinstance(gone, Gone)
    assert (gone.reason, gone.node, gone.bound_by) == ("bound", "node-9", "")
    assert await world.node_of("web") == "node-9"


async def test_foreign_bind_after_a_transaction_that_never_arrived_is_kept(world: Rk8sWorld) -> None:
    hand, placed = await bind_without_answer(world, applied=False)
    await world.bind_as_libscheduler("web", "node-1")

    gone = await hand.bind("web", placed)

    assert isinstance(gone, Gone)
    assert (gone.node, gone.bound_by) == ("node-1", "")
    assert await world.bound_by("web") == {}


async def test_record_of_a_pods_former_life_claims_nothing(world: Rk8sWorld) -> None:
    await world.put(docs.node("node-1"), docs.pod("web"))
    hand = await world.hand()
    await hand.bind("web", await hand.placed("web"))
    await world.store.delete("/registry/pods/web")
    await world.put(docs.pod("web"))
    await hand.seen()
    placed = await hand.placed("web")
    await world.bind_as_libscheduler("web", "node-1")

    gone = await hand.bind("web", placed)

    assert isinstance(gone, Gone)
    assert (gone.node, gone.bound_by) == ("node-1", "")


async def test_the_rest_of_a_cohort_is_bound_beside_foreign_binds(world: Rk8sWorld) -> None:
    hand, placed = await cohort(world)
    before(world, hand, "web-3", "web-4")

    bound = await hand.bind_many(placed)

    others = [name for name in NAMES if name not in ("web-3", "web-4")]
    assert sorted(nodes(bound)) == sorted(others)
    assert {(one.name, one.kind) for one in bound.unbound} == {("web-3", "gone"), ("web-4", "gone")}
    assert [await world.node_of(name) for name in ("web-3", "web-4")] == ["node-9", "node-9"]
    assert await world.bound_by("web-3") == {}
    await world.judge(*others)


async def test_no_member_of_a_gang_is_bound_beside_a_foreign_bind(world: Rk8sWorld) -> None:
    hand, placed = await cohort(world)
    before(world, hand, "web-3")

    bound = await hand.bind_many(placed, whole=True)

    assert bound.bound == ()
    assert {await world.node_of(name) for name in NAMES if name != "web-3"} == {""}
    assert await world.node_of("web-3") == "node-9"


@pytest.mark.parametrize("how", ["ours", "foreign"])
async def test_refusal_of_a_pod_that_was_bound_meanwhile_names_its_binder(world: Rk8sWorld, how: str) -> None:
    await world.put(docs.node("node-1"), docs.pod("web"))
    hand, other = await world.hand(), await world.hand()
    placed = await other.placed("web")
    hand.store.pause_watches()
    await asyncio.sleep(0)
    if how == "ours":
        await other.bind("web", placed)
    else:
        await world.bind_as_libscheduler("web", "node-1")

    gone = await hand.record("web")

    assert isinstance(gone, Gone)
    assert gone.bound_by == (f"test/pod/default/web/{placed.uid}@run-1" if how == "ours" else "")
    assert await world.record_of("web") is None


async def test_refusal_whose_answer_got_lost_is_recorded_once_more(world: Rk8sWorld) -> None:
    await world.put(docs.pod("web"))
    hand = await world.hand()
    raw = await world.value("web")
    hand.store.fail_next(applied=True)
    with pytest.raises(ApplicationError):
        await hand.record("web")

    assert isinstance(await hand.record("web"), Recorded)
    assert await world.value("web") == raw
