"""Attempts in flight: many while Temporal takes starts quickly, few while it does not, and never none at all."""

from __future__ import annotations

from tests.clock import Clock
from wharfinger.scheduling.loops.starts import LONGEST_TRICKLE, PROMPT, TRICKLE, Pace


def most_allowed(pace: Pace) -> int:
    """How many may be in flight now."""
    return next(number for number in range(1000) if not pace.allows(number))


def started(pace: Pace, clock: Clock, in_flight: int, seconds: float) -> None:
    """One start that Temporal takes so long to accept."""
    pace.asked()
    began = clock()
    clock.advance(seconds)
    pace.accepted(began, in_flight)


def test_quick_starts_open_it_up_to_the_bound_and_late_ones_close_it() -> None:
    clock = Clock()
    pace = Pace(40, clock)
    pace.asked()
    assert most_allowed(pace) == 1

    for number in range(1, 50):
        started(pace, clock, number, 0.01)
    assert most_allowed(pace) == 40
    for _ in range(20):
        started(pace, clock, 40, PROMPT + 0.1)
    assert most_allowed(pace) == 1


def test_a_failed_start_leaves_one_and_the_way_back_is_short() -> None:
    clock = Clock()
    pace = Pace(40, clock)
    for number in range(1, 50):
        started(pace, clock, number, 0.01)
    pace.asked()
    pace.failed(clock())
    assert most_allowed(pace) == 1

    for number in range(1, 25):
        started(pace, clock, number, 0.01)
    assert most_allowed(pace) >= 20


def test_attempts_that_are_held_for_long_do_not_stop_others_for_ever() -> None:
    clock = Clock()
    pace = Pace(40, clock)
    pace.asked()
    assert not pace.allows(1)
    clock.advance(TRICKLE)
    assert pace.allows(1)


def test_the_trickle_gets_thinner_with_each_late_start_until_one_is_quick() -> None:
    clock = Clock()
    pace = Pace(40, clock)
    gaps = []
    for _ in range(8):
        pace.asked()
        asked = clock()
        while not pace.allows(40):
            clock.advance(0.5)
        gaps.append(clock() - asked)
        started(pace, clock, 40, PROMPT + 0.1)

    assert gaps[:4] == [1.0, 2.0, 4.0, 8.0]
    assert max(gaps) == LONGEST_TRICKLE
    started(pace, clock, 1, 0.01)
    clock.advance(TRICKLE)
    assert pace.allows(40)
