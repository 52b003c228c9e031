"""An instance that takes long to leave delays no other step, and one actor waits for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.deciding.builders import Picture, brief, keep, later, roll, rolling, standing
from tests.properties.fleet_world.process import Behaviour
from tests.properties.fleet_world.scenes import SPEC, settle, world_of
from wharfinger.fleet.contracts.fleets import Planned
from wharfinger.fleet.model.fleet import RolloutRequest
from wharfinger.fleet.model.rollout import Busy, Memory, Plan, Retire
from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.workflows.fleet_steps import left


def aborted() -> Picture:
    """A rollout of three that was aborted while slot 2's former instance leaves."""
    picture = rolling(3).revision(2, "t2", "aborted")
    return picture.life(2, 1, revision=1, host="a", want="drain", state="draining")


def test_an_aborted_rollout_fills_what_crashes_beside_a_long_drain() -> None:
    draining = Busy("retire", 2, 1, host="a")

    decided = roll(aborted().without(1), None, draining)

    assert brief(decided) == ["up 1 r1"]
    filling = Busy("up", 1, 0, 1, "b")
    second = roll(aborted().without(1), later(decided, 1.0), draining, filling)
    assert (brief(second), second.give_up, second.done) == ([], (), None)


def test_an_aborted_rollout_scales_down_beside_a_long_drain() -> None:
    picture = aborted().want(max_unavailable=IntOrPercent(1)).life(3, host="b")
    decided = roll(picture, None, Busy("retire", 2, 1, host="a"))

    assert brief(decided) == ["retire 3.1"]


def test_what_an_aborted_rollout_brings_up_does_not_outlast_the_drain() -> None:
    picture = aborted().without(1).without(2)

    decided = roll(picture, None, Busy("up", 1, 0, 1, "b"))

    assert (brief(decided), decided.give_up, decided.done) == ([], (1,), None)
    assert roll(picture, later(decided, 1.0)).done == "aborted"


def test_newcomer_of_an_aborted_revision_is_given_up_beside_a_long_drain() -> None:
    picture = aborted().life(1, 2, revision=2, state="starting")

    decided = roll(picture, None, Busy("retire", 2, 1, host="a"), Busy("up", 1, 2, 2, "b"))

    assert decided.give_up == (1,)


def test_a_drain_that_is_resumed_goes_on_with_the_seconds_that_are_left() -> None:
    picture = standing(2).life(2, host="a", want="drain", state="draining")
    first = keep(picture)
    assert [step.waited for step in first.steps if isinstance(step, Retire)] == [0.0]

    resumed = keep(picture, later(first, 40.0))

    assert [step.waited for step in resumed.steps if isinstance(step, Retire)] == [40.0]
    over = keep(picture.without(2), later(resumed, 1.0))
    assert over.memory.leaving == ()


@pytest.mark.parametrize(
    ("waited", "seconds"),
    [(0.0, (60.0, 10.0)), (40.0, (20.0, 10.0)), (64.0, (0.0, 6.0)), (1_000.0, (0.0, 0.0))],
)
def test_the_time_outs_of_drain_and_kill_count_what_was_waited_before(
    waited: float, seconds: tuple[float, float]
) -> None:
    planned = Planned(plan=Plan(memory=Memory()), read_at=1, drain_timeout=60.0, kill_timeout=10.0)

    assert left(waited, planned) == seconds


def test_an_aborted_rollout_with_a_long_drain_leaves_no_slot_empty() -> None:
    """In the simulated world: a slot crashes while the aborted rollout waits two hundred seconds for a drain."""
    world = world_of(3, drain_timeout=1_000.0, progress_deadline=3_000.0)
    spec = replace(SPEC, replicas=3, drain_timeout=1_000.0, progress_deadline=3_000.0)
    leaving, crashing = world.process("common", (2, 1)), world.process("common", (0, 1))
    assert leaving is not None
    assert crashing is not None
    leaving.behaviour = Behaviour(drain=200.0)
    world.apply("common", spec, "t2")
    world.timeline.run(world.timeline.now + 30.0)
    rollout = world.tenant("common").rollout
    assert rollout is not None
    world.apply("common", replace(spec, request=RolloutRequest(rollout.generation, "abort")), "t2")
    world.timeline.run(world.timeline.now + 10.0)
    assert leaving.alive
    assert not rollout.closed
    crashing.die("9", "signal")
    world.timeline.run(world.timeline.now + 60.0)
    assert leaving.alive
    instances = world.etcd.shelf("common").instances
    assert 0 in {slot for (slot, _), record in instances.items() if record.state == "ready"}
    settle(world)
