"""What readers are told of a fleet, beside what is decided about it."""

from __future__ import annotations

from dataclasses import replace

from tests.fleet.deciding.builders import CLOCK, LEASE, Picture, brief, keep, later, roll, rolling, standing
from wharfinger.fleet.deciding.lives import LOOK_AGAIN
from wharfinger.fleet.deciding.seeing import broken
from wharfinger.fleet.model.rollout import Memory, Plan, RolloutStatus


def status(decided: Plan) -> RolloutStatus:
    assert decided.writes.status is not None
    return decided.writes.status


def available(decided: Plan) -> bool:
    return next(one.status for one in status(decided).conditions if one.type == "Available")


def after_a_gap(picture: Picture) -> Memory:
    return broken(picture.memory(), CLOCK)


def test_gap_in_the_actors_sight_makes_no_instance_unavailable() -> None:
    picture = rolling(3, min_ready=10.0).life(2, 2, revision=2, state="starting")

    decided = roll(picture, after_a_gap(picture))

    assert brief(decided) == []  # nothing is counted on for ten seconds
    assert (status(decided).ready, available(decided)) == (3, True)
    assert [slot.ready for slot in status(decided).slots] == [True, True, True]


def test_a_newcomer_is_ready_when_it_counts() -> None:
    picture = standing(2, min_ready=10.0)
    memory = picture.memory()
    picture.life(1, 1, state="starting").grants.pop((1, 1))
    picture.life(1, 2)

    decided = keep(picture, memory)

    assert (status(decided).ready, available(decided)) == (1, False)


def test_what_left_and_is_back_is_ready_when_it_counts() -> None:
    picture = standing(2, min_ready=10.0)
    gone = keep(picture.life(1, state="withdrawn"), after_a_gap(standing(2, min_ready=10.0)))
    assert (status(gone).ready, available(gone)) == (1, False)

    back = keep(picture.life(1), later(gone, 5.0))
    assert (status(back).ready, available(back)) == (1, False)
    assert status(keep(picture, later(back, 10.0))).ready == 2


def test_status_gives_the_reason_for_a_wait() -> None:
    picture = rolling(3)

    decided = roll(picture, replace(after_a_gap(picture), clock=CLOCK + 15.0))

    assert status(decided).phase.endswith(
        f"; acts once it has seen the fleet for {LEASE + LOOK_AGAIN:.0f} s without a gap"
    )
