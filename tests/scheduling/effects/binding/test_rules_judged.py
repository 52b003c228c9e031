"""Three workers bind ruled and plain pods of six namespaces at once; the store's whole history is judged.

Cohorts of mixed namespaces and lone pods, while watches stand still now and then. The negative control plays the same
lives on a store that forgets the conditions on `bound/` and `terms/`: there the judge must find violations.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.faults.rules_judge import RulesJudge, history_of
from tests.patience import patient
from tests.properties.shares import shared_out
from tests.scheduling.effects.binding.test_three_workers import ZONE, Forgetful, affinity, spread, term, together
from tests.scheduling.world import Hand, World, turns
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.transactions import STOCK, Limits
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, PlaceManyInput
from wharfinger.scheduling.contracts.scheduling import BindInput, Placed
from wharfinger.settings import BindSettings

RACK = "example.com/rack"
RACKS = 9
"""Of two nodes each, because the binding version of a node guards that node only; fewer than pods that want one."""
SPACES = tuple(f"space-{number}" for number in range(6))
KINDS = {"apart": 3, "spread": 5, "near": 3, "plain": 4}
"""Pods of each namespace, by the rule that they have."""
TURNS = 15
PAUSE = 25
"""The most turns of the event loop for which a chain or a watch pauses."""


def rules(kind: str, namespace: str) -> dict[str, Any]:
    """Pods that keep apart do so by rack, from those of all six namespaces."""
    match kind:
        case "apart":
            return affinity("podAntiAffinity", term("apart") | {"topologyKey": RACK, "namespaces": list(SPACES)})
        case "spread":
            return spread("spread")
        case "near":
            return together("near")
        case _:
            return {}


async def set_up(world: World) -> list[PodKey]:
    """Nodes in racks, racks in zones, and the pods; returns the pods' keys."""
    await world.store.put(keys.INSTALLATION, b"{}")
    for number in range(2 * RACKS):
        rack = number % RACKS
        await world.put_node(f"node-{number}", cpu="20", labels={RACK: f"rack-{rack}", ZONE: "abc"[rack % 3]})
    pods = [PodKey(space, f"{kind}-{n}") for space in SPACES for kind, many in KINDS.items() for n in range(many)]
    for namespace, name in pods:
        kind = name.partition("-")[0]
        await world.put_pod(name, namespace=namespace, cpu="100m", labels={"app": kind}, spec=rules(kind, namespace))
    return pods


def stand_still(hand: Hand, rng: random.Random) -> None:
    """Stop the worker's watch for some turns of the loop, every other time."""
    if rng.random() < 0.5:
        hand.stand_still(rng.randrange(PAUSE))


async def bind_cohorts(hand: Hand, pods: Sequence[PodKey], rng: random.Random) -> None:
    """Place and bind the pods together, again and again for those that are left."""
    left = list(pods)
    for _ in range(TURNS):
        asked = tuple(CohortPod(namespace=key.namespace, name=key.name) for key in left)
        request = PlaceManyInput(pods=asked, workflow_id="test/cohort/1", run_id="run-1")
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(0)
        try:
            placed = await hand.activities.place_many(request)
            stand_still(hand, rng)
            bound = {PodKey(one.namespace, one.name) for one in (await hand.bind_many(placed)).bound}
        except ApplicationError:  # its watch stands still for too long: another try
            bound = set()
        left = [key for key in left if key not in bound]
        if not left:
            return
        await turns(rng.randrange(PAUSE))


async def bind_alone(hand: Hand, key: PodKey, rng: random.Random) -> None:
    """Place and bind one pod, again and again."""
    for _ in range(TURNS):
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(0)
        try:
            outcome = await hand.place(key.name, namespace=key.namespace)
            if isinstance(outcome, Placed):
                stand_still(hand, rng)
                request = BindInput(namespace=key.namespace, name=key.name, placed=outcome, workflow_id="w", run_id="r")
                if (await hand.activities.bind(request)).kind == "bound":
                    return
        except ApplicationError:
            pass
        await turns(rng.randrange(PAUSE))


async def judged(world: World, seed: int, limits: Limits = STOCK) -> RulesJudge:
    """Play one life, and judge it."""
    rng = random.Random(seed)
    pods = await set_up(world)
    rng.shuffle(pods)
    settings = BindSettings(catch_up=patient(20), behind=patient(20))
    hands = [await world.hand(settings=settings, limits=limits) for _ in range(3)]
    alone, many = pods[:9], pods[9:]
    third = len(many) // 3
    await asyncio.gather(
        *(bind_cohorts(hand, many[at * third :][:third], rng) for at, hand in enumerate(hands)),
        *(bind_alone(rng.choice(hands), key, rng) for key in alone),
    )
    judge = RulesJudge().take_all(await history_of(world.store))
    await world.close()
    return judge


@pytest.mark.parametrize("limits", [STOCK, Limits(operations=24)], ids=["large", "small"])
@pytest.mark.parametrize("seed", shared_out(4, quick=2))
async def test_three_workers_break_no_rule_of_six_namespaces(seed: int, limits: Limits) -> None:
    """With transactions as large as etcd takes them, and with many small ones."""
    judge = await judged(World(), seed, limits)

    assert judge.violations == []
    assert judge.excused == 0
    assert judge.binds > 60, "so few were bound that nothing was tried"
    assert judge.most_together > 3, "no transaction had several pods"


async def test_judge_finds_broken_rules_where_no_condition_guards_them() -> None:
    """The negative control: such lives on a store that forgets the conditions. One in three breaks anti-affinity."""
    found: set[str] = set()
    for seed in range(40):
        judge = await judged(World(Forgetful()), seed, Limits(operations=24))
        found |= {violation.invariant for violation in judge.violations}
        if "anti-affinity" in found:
            break

    assert "anti-affinity" in found, "pods that keep apart by rack shared none"
    assert found <= {"anti-affinity", "spread", "affinity"}, "the other guarantees do not depend on these conditions"
