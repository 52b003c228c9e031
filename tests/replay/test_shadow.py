"""Unchanged code and configuration decide the same again, to the letter, whatever happened in between."""

from __future__ import annotations

import random

import pytest

from tests.replay.replay_stage import Stage
from tests.scheduling.world import CLUSTER, NOW
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.objects.model.pod import PodKey
from wharfinger.replay.archive.spool import Spool
from wharfinger.replay.changes import ProfileChange
from wharfinger.replay.recorded import Lack, Unreplayable
from wharfinger.replay.shadow import MadeAgain, Shadow
from wharfinger.scheduling.reading.comparing import Compared

LABEL = "pod-group.scheduling.sigs.k8s.io/"
MEMBERS = ("common/0", "common/1")


def preferred(me: str, members: tuple[str, ...] = MEMBERS) -> PreferredNodes:
    nodes = PreferredNodes(margin=4)
    nodes.share(members, me)
    return nodes


async def test_a_lone_pod_a_cohort_and_a_gang_decide_the_same(stage: Stage) -> None:
    world = stage.world
    for number in range(4):
        await world.put_node(f"node-{number}", cpu=str(2 + number), labels={"zone": f"z{number % 2}"})
    hand = await world.hand()
    for name in ("a", "b", "c", "huge"):
        await world.put_pod(name, cpu="90" if name == "huge" else "1")
    for number in range(3):
        await world.put_pod(f"m{number}", labels={LABEL + "name": "team", LABEL + "min-available": "3"})
    await world.seen()
    await stage.alone(hand, "a")
    await stage.together(hand, "b", "c", "huge")
    await stage.gang(hand)

    replayed = await stage.replay()

    assert replayed.strange == []
    assert replayed.report.counts == {"same": 7}
    assert replayed.report.same_share == 1


@pytest.mark.parametrize("seed", range(6))
async def test_a_random_life_is_decided_the_same_again(stage: Stage, seed: int) -> None:
    """Two workers that prefer nodes of their own, contention, preemption, nodes and pods that come and go."""
    world, chance = stage.world, random.Random(seed)
    for number in range(6):
        await world.put_node(f"node-{number}", cpu="3", labels={"zone": f"z{number % 2}"})
    hands = [await world.hand(preferred_nodes=preferred(me), utc_now=lambda: NOW) for me in MEMBERS]
    alive: list[str] = []
    for step in range(40):
        hand, name = chance.choice(hands), f"pod-{step}"
        kind = chance.random()
        if kind < 0.15 and alive:
            gone = alive.pop(chance.randrange(len(alive)))
            await world.store.delete(f"/registry/pods/default/{gone}")
        elif kind < 0.25:
            await world.put_node(f"node-{chance.randrange(9)}", cpu=str(chance.randint(1, 4)))
        elif kind < 0.65:
            priority = chance.choice([0, 0, 0, 5])
            await world.put_pod(name, cpu=chance.choice(["500m", "1", "2"]), spec={"priority": priority})
            alive.append(name)
            if chance.random() < 0.8:
                await world.seen()
                await stage.alone(hand, name, bind=chance.random() < 0.8)
        else:
            names = [f"{name}-{number}" for number in range(chance.randint(1, 6))]
            for each in names:
                await world.put_pod(each, cpu=chance.choice(["500m", "1", "9"]))
            alive += names
            await world.seen()
            await stage.together(hand, *names, bind=chance.random() < 0.8)

    replayed = await stage.replay()

    assert replayed.strange == []
    assert replayed.report.counts["same"] == sum(run.decisions for run in stage.runs) > 30


async def test_what_was_assumed_is_rebuilt_and_checked_by_its_digest(stage: Stage) -> None:
    """The record has a digest of sixty assumed pods; some were given up, which no record says."""
    world = stage.world
    for number in range(20):
        await world.put_node(f"node-{number}", cpu="4")
    hand = await world.hand()
    names = [f"pod-{number}" for number in range(70)]
    for name in names:
        await world.put_pod(name)
    await world.seen()
    for number, name in enumerate(names[:60]):
        await stage.alone(hand, name, bind=number % 3 == 0)
    hand.cache.forget(hand.cache.pods[PodKey("default", "pod-1")].identity)
    hand.cache.forget(hand.cache.pods[PodKey("default", "pod-5")].identity)
    for name in names[60:]:
        await stage.alone(hand, name, bind=False)

    replayed = await stage.replay()

    digests = [run.lone.computation.overlay for run in stage.runs if run.lone is not None]
    assert len([digest for digest in digests if digest]) > 15
    assert replayed.strange == []


async def test_an_overlay_that_cannot_be_rebuilt_is_counted_apart(stage: Stage) -> None:
    world = stage.world
    for number in range(20):
        await world.put_node(f"node-{number}", cpu="4")
    hand = await world.hand()
    names = [f"pod-{number}" for number in range(40)]
    for name in names:
        await world.put_pod(name)
    await world.seen()
    for name in names:
        await stage.alone(hand, name, bind=False)

    replayed = await stage.replay(runs=stage.runs[34:])

    assert set(replayed.report.lacks) == {Lack.OVERLAY}
    assert replayed.report.counts == {"unreplayable": 6}
    assert replayed.report.same_share is None, "of none"
    assert "has the digest 34-" in replayed.lacking["pod-34"].detail


async def test_what_etcd_compacts_meanwhile_is_named_and_the_rest_goes_on(stage: Stage) -> None:
    """The state of the third decision goes while the first is decided again; that of the last is still there."""
    world = stage.world
    for name in ("a", "b"):
        await world.put_node(name, cpu="8")
    hand = await world.hand()
    for number in range(5):
        await world.put_pod(f"pod-{number}")
        await world.seen()
        await stage.alone(hand, f"pod-{number}")
    spool, found = Spool(), list[MadeAgain]()
    for run in stage.runs:
        spool.add(run)
    last = stage.runs[-1].computations()[0].revision

    def decided(outcome: MadeAgain) -> None:
        found.append(outcome)
        if len(found) == 1:
            world.store.compact(last)

    shadow = Shadow(world.store, spool, spool.units(), ProfileChange(), CLUSTER)
    await shadow.run(decided)
    spool.close()

    lacks = [one.again.found.lack if isinstance(one.again.found, Unreplayable) else "" for one in found]
    assert lacks == ["", Lack.COMPACTED, Lack.COMPACTED, Lack.COMPACTED, ""]
    assert isinstance(found[-1].again.found, Compared)
    assert found[-1].again.found.differs == ()


async def test_decisions_that_were_lost_are_told_by_later_ones(stage: Stage) -> None:
    """Forty results of a worker never came to be recorded; another worker decided and bound these pods."""
    world = stage.world
    for number in range(20):
        await world.put_node(f"node-{number}", cpu="9")
    slow, other = [await world.hand() for _ in range(2)]
    names = [f"pod-{number}" for number in range(48)]
    for name in names:
        await world.put_pod(name)
    await world.seen()
    for name in names[:40]:
        await stage.alone(slow, name, bind=False)
    stage.runs.clear()
    for name in names[40:44]:
        await stage.alone(slow, name, bind=False)
    for name in names[:40]:
        await stage.alone(other, name)
    await world.seen()
    for name in names[44:]:
        await stage.alone(slow, name)

    replayed = await stage.replay()
    told = [len(run.lone.computation.lost) for run in stage.runs if run.lone is not None]
    unheard = await stage.replay(runs=stage.runs[:44])

    assert sum(told[:44]) == 0
    assert told[44] > told[45] > 0, "as far as there is room, and the rest later"
    assert sum(told) == 40
    assert replayed.strange == []
    assert replayed.report.counts == {"same": 48}
    assert set(unheard.report.lacks) == {Lack.OVERLAY}
    assert unheard.report.counts["unreplayable"] == 4
