"""Several workers that decide at the same time: each takes a nearly best node of its own, and none contends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.scheduling.reading.test_explanation import explained
from tests.scheduling.reading.test_history import read
from tests.scheduling.world import PROFILES, Hand, World
from wharfinger.etcd import keys
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.cli import story
from wharfinger.scheduling.cli.story import tell
from wharfinger.scheduling.contracts.computation import Assumed
from wharfinger.scheduling.contracts.scheduling import Bound, Placed
from wharfinger.scheduling.effects.placing import payload
from wharfinger.scheduling.reading.deciding_again import decide_again
from wharfinger.scheduling.reading.recomputation import Recomputation, RecordedDecision
from wharfinger.settings import BindSettings

CALM = BindSettings(catch_up=1.0, behind=1.0)
MEMBERS = ("common/0", "common/1")
[PROFILE] = PROFILES.values()


def preferred_nodes(me: str, members: tuple[str, ...] = MEMBERS, margin: int = 20) -> PreferredNodes:
    made = PreferredNodes(margin)
    made.share(members, me)
    return made


async def nearly_equal_nodes(world: World) -> None:
    """One is best, and five are a little worse, each a little more than the one before."""
    await world.store.put(keys.profile(PROFILE.digest), PROFILE.configuration)
    for number in range(6):
        await world.put_node(f"node-{number}", cpu=f"{16 - 2 * number}")


async def decide_blindly(world: World, hands: list[Hand]) -> list[Placed]:
    """Each worker places a pod and knows nothing of the others'."""
    for number in range(len(hands)):
        await world.put_pod(f"web-{number}", cpu="2")
    await world.seen()
    return [await hand.placed(f"web-{number}") for number, hand in enumerate(hands)]


@pytest.mark.parametrize("margin", [0, 20])
async def test_two_workers_that_prefer_their_own_nodes_do_not_contend(world: World, margin: int) -> None:
    await nearly_equal_nodes(world)
    hands = [await world.hand(settings=CALM, preferred_nodes=preferred_nodes(me, margin=margin)) for me in MEMBERS]
    placed = await decide_blindly(world, hands)
    answers = await asyncio.gather(*(hand.bind(f"web-{number}", placed[number]) for number, hand in enumerate(hands)))

    assert all(isinstance(answer, Bound) for answer in answers)
    assert sum(hand.conflicts("binding") for hand in hands) == (0 if margin else 1)
    assert (placed[0].node == placed[1].node) == (margin == 0)


async def test_worker_alone_takes_the_best_node_without_own_nodes(world: World) -> None:
    await nearly_equal_nodes(world)
    hand = await world.hand(preferred_nodes=preferred_nodes("common/0", ("common/0",)))
    [placed] = await decide_blindly(world, [hand])

    assert placed.node == "node-0"
    assert (placed.computation.own_nodes, placed.passed_over) == (None, None)


async def swayed(world: World, members: tuple[str, ...] = MEMBERS) -> Placed:
    """The decision of the worker that does not own the best node."""
    await nearly_equal_nodes(world)
    hands = [await world.hand(preferred_nodes=preferred_nodes(me, members)) for me in MEMBERS]
    [record] = [placed for placed in await decide_blindly(world, hands) if placed.passed_over]
    assert record.passed_over is not None
    assert record.passed_over.node == "node-0"
    assert record.score is not None
    assert 0 < record.passed_over.total - record.score <= 20
    return record


async def again(world: World, record: Placed) -> Recomputation:
    pod = PodKey("default", record.uid.removeprefix("uid-"))
    return await decide_again(world.store, RecordedDecision(pod, record), load_profiles)


async def test_record_has_what_is_needed_to_recompute_the_decision(world: World) -> None:
    record = await swayed(world)
    own = record.computation.own_nodes
    assert own is not None
    assert (own.members, own.margin) == (MEMBERS, 20)

    found = await again(world, record)

    assert found.same
    assert found.recomputed.node == record.node
    assert (
        f"Up to 20 points below the best, nodes that were the worker's own went first: {own.me}"
        in story.tell_verdicts(read("bound"), found)
    )


async def test_what_is_to_be_bound_carries_no_reasons(world: World) -> None:
    to_commit = (await swayed(world)).to_commit()

    assert (to_commit.computation.own_nodes, to_commit.passed_over) == (None, None)


async def test_too_many_workers_to_be_named_make_the_record_approximate(world: World) -> None:
    many = (*MEMBERS, *(f"common/{number}" for number in range(2, payload.MEMBERS_LIMIT + 2)))
    await nearly_equal_nodes(world)
    hand = await world.hand(preferred_nodes=preferred_nodes("common/0", many))
    [record] = await decide_blindly(world, [hand])

    found = await again(world, record)

    assert record.computation.own_nodes is not None
    assert record.computation.own_nodes.members == ()
    assert found.same is None
    assert found.lacks == ("the record does not name the workers that shared the nodes, only a digest of them",)


async def test_long_names_of_workers_give_way_when_a_decision_is_too_large(world: World) -> None:
    record = await swayed(world)
    assert record.computation.own_nodes is not None
    long = record.computation.own_nodes.model_copy(update={"members": tuple("m" * 300 for _ in range(16))})
    assumed = (Assumed(pod="default/other", create_revision=1, node="node-1"),)
    computation = record.computation.model_copy(update={"own_nodes": long, "assumed": assumed})

    fitted = payload.fitted(record.model_copy(update={"computation": computation}))

    assert len(fitted.model_dump_json()) <= payload.LIMIT
    assert fitted.computation.own_nodes is not None
    assert fitted.computation.own_nodes.members == ()
    assert fitted.computation.own_nodes.me == long.me


async def test_the_story_names_the_node_that_was_passed_over(world: World) -> None:
    record = await swayed(world)
    assert record.passed_over is not None
    attempt = replace(read("bound"), placement=record.model_dump(mode="json"), node=record.node)
    points = record.passed_over.total - (record.score or 0)
    better = f"{points} point{'' if points == 1 else 's'} better"

    told = f"  {record.node} was chosen before node-0, {better}: it is this worker's own."
    assert told in tell(explained(attempts=[attempt])).splitlines()


def test_records_of_earlier_releases_had_no_own_nodes() -> None:
    """And are read as before."""
    for name in ("bound", "parked_and_woken"):
        attempt = read(name)
        assert "own_nodes" not in attempt.computation
        assert attempt.passed_over == {}
