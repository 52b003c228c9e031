"""The faults of a seed."""

from __future__ import annotations

import itertools

from tests.faults.round import plan_for_soak
from tests.faults.schedule import Kind, draw
from tests.faults.timeline import SLACK, Timeline


def test_the_same_seed_strikes_the_same_blows() -> None:
    assert draw(5, 60, 3) == draw(5, 60, 3)
    assert draw(5, 60, 3) != draw(6, 60, 3)
    assert plan_for_soak(5) == plan_for_soak(5)


def test_all_is_over_in_time_and_nothing_is_struck_twice_at_once() -> None:
    for seed in range(200):
        faults = draw(seed, 60, 3, every=1.0)
        assert all(fault.at >= 0 and fault.end <= 60.05 for fault in faults)
        for one, two in itertools.combinations(faults, 2):
            assert one.what != two.what or one.end < two.at or two.end < one.at


def test_every_kind_is_drawn() -> None:
    assert {fault.kind for seed in range(50) for fault in draw(seed, 60, 3)} == set(Kind)


def test_worker_has_seen_all_before_the_last_fault_it_may_sleep_in() -> None:
    timeline = Timeline([(100, 110), (108, 120), (200, 201)])

    assert timeline.known_since(50) == 50 - SLACK
    assert timeline.known_since(119) == 100 - SLACK
    assert timeline.known_since(122) == 100 - SLACK
    assert timeline.known_since(150) == 150 - SLACK
