"""Attempts are counted for the fleet's revision that decided, whichever worker binds, so a canary can be judged."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.placing.test_placing_lone import Fussy, with_plugin
from tests.scheduling.world import Hand, World
from wharfinger.etcd import keys
from wharfinger.framework.status import Status, unschedulable


def counted(hand: Hand) -> dict[tuple[str, str, str], float]:
    """Outcomes by tenant, revision and outcome."""
    found = {}
    for metric in hand.metrics.fleet_attempts.collect():
        for sample in metric.samples:
            labels = sample.labels
            found[labels["tenant"], labels["revision"], labels["outcome"]] = sample.value
    return found


async def test_a_bind_counts_for_the_revision_that_decided(world: World) -> None:
    await world.put_node("node", cpu="4")
    for name in ("one", "two", "many", "whole"):
        await world.put_pod(name)
    old, canary = await world.hand(fleet_revision="1"), await world.hand(fleet_revision="2")

    await old.bind("one", await canary.placed("one"))
    await old.bind("two", await old.placed("two"))
    await world.seen()
    await old.bind_many(await canary.place_many("many"))
    await world.seen()
    await old.bind_many(await canary.place_many("whole"), whole=True)

    assert counted(old) == {("common", "2", "bound"): 3, ("common", "1", "bound"): 1}
    assert counted(canary) == {}


async def test_refusals_and_contention_count_too(world: World) -> None:
    await world.put_node("node", cpu="1")
    for name in ("fits", "late"):
        await world.put_pod(name)
    await world.put_pod("big", cpu="64")
    await world.store.put(keys.tenant("red"), b"{}")
    canary, other = await world.hand(fleet_revision="2"), await world.hand()
    late = await canary.placed("late")
    await other.bind("fits", await other.placed("fits"))
    await world.seen()

    assert (await other.bind("late", late)).kind == "contended"
    await canary.refused("big")
    assert len((await canary.place_many("big")).turned_away) == 1

    assert counted(other) == {("common", "", "bound"): 1, ("common", "2", "contended"): 1}
    assert counted(canary) == {("common", "2", "refused"): 2}


async def test_a_tenants_attempts_are_counted_under_its_name(world: World) -> None:
    await world.put_node("node")
    await world.store.put(keys.tenant("red"), b"{}")
    await world.put_pod("web", labels={"wharfinger.dev/tenant": "red"})
    hand = await world.hand(tenant="red", fleet_revision="3")

    await hand.bind("web", await hand.placed("web"))

    assert counted(hand) == {("red", "3", "bound"): 1}


class AtBind(Fussy):
    """Refuses in PreBind, or raises there."""

    def __init__(self, *, raises: bool) -> None:
        super().__init__()
        self.raises = raises

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status:
        if self.raises:
            raise RuntimeError("boom")
        return unschedulable("there is no volume")


def attempts(hand: Hand) -> dict[str, float]:
    """`scheduler_schedule_attempts_total` by result."""
    samples = [sample for metric in hand.metrics.schedule_attempts.collect() for sample in metric.samples]
    return {sample.labels["result"]: sample.value for sample in samples if sample.name.endswith("_total")}


@pytest.mark.parametrize(
    ("raises", "result", "outcome"), [(False, "unschedulable", "refused"), (True, "error", "error")]
)
async def test_what_ends_in_pre_bind_counts_as_kube_schedulers_does(
    world: World, raises: bool, result: str, outcome: str
) -> None:
    await world.put_node("node", cpu="8")
    for name in ("lone", "one", "two", "first", "second"):
        await world.put_pod(name)
    canary, hand = (
        await world.hand(fleet_revision="2"),
        await world.hand(profiles=with_plugin(AtBind(raises=result == "error"))),
    )

    with contextlib.suppress(ApplicationError):  # with which the activity of a lone pod ends
        await hand.bind("lone", await canary.placed("lone"))
    assert attempts(hand) == {result: 1}
    await hand.bind_many(await canary.place_many("one", "two"))
    assert attempts(hand) == {result: 3}
    await hand.bind_many(await canary.place_many("first", "second"), whole=True)

    assert attempts(hand) == {result: 5}
    assert counted(hand) == {("common", "2", outcome): 5}
