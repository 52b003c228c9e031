"""Single attempts a second, by a clock that moves when told."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from wharfinger.model.pod import PodKey
from wharfinger.queue.throughput import ENOUGH, HELD, MEMORY, Throughput


def key(number: int) -> PodKey:
    return PodKey("default", f"p{number}")


class Attempts:
    """Attempts that follow each other, on a clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.throughput = Throughput(self.clock)

    def lone(self, times: int, seconds: float, *, idle: float = 0.0, ruled: bool = False) -> None:
        """One after the other."""
        for number in range(times):
            self.throughput.began(key(number), ruled=ruled)
            self.clock.advance(seconds)
            self.throughput.ended(key(number), completed=True)
            self.clock.advance(idle)

    @property
    def plain(self) -> float | None:
        return self.throughput.a_second(ruled=False)

    @property
    def ruled(self) -> float | None:
        return self.throughput.a_second(ruled=True)


def test_nothing_is_measured_before_enough_attempts_are_completed() -> None:
    attempts = Attempts()
    attempts.lone(ENOUGH - 1, 0.02)
    assert attempts.plain is None

    attempts.lone(1, 0.02)
    assert attempts.plain == pytest.approx(50)


def test_time_without_an_attempt_in_flight_does_not_count() -> None:
    attempts = Attempts()
    attempts.lone(ENOUGH, 0.02, idle=60.0)

    assert attempts.plain == pytest.approx(50)


def test_attempts_side_by_side_are_as_many_a_second_as_are_completed() -> None:
    """Ten in flight; one ends every 10 ms, and another one begins."""
    attempts = Attempts()
    for number in range(10):
        attempts.throughput.began(key(number), ruled=False)
    for number in range(200):
        attempts.clock.advance(0.01)
        attempts.throughput.ended(key(number), completed=True)
        attempts.throughput.began(key(number + 10), ruled=False)

    assert attempts.plain == pytest.approx(100)


def test_pods_with_rules_are_measured_apart() -> None:
    attempts = Attempts()
    attempts.lone(20, 0.01)
    attempts.lone(20, 0.25, ruled=True)

    assert attempts.plain == pytest.approx(100)
    assert attempts.ruled == pytest.approx(4)


def test_kinds_that_are_in_flight_together_share_the_time() -> None:
    attempts = Attempts()
    for _ in range(20):
        for number in range(4):
            attempts.throughput.began(key(number), ruled=number == 0)
        attempts.clock.advance(0.4)
        for number in range(4):
            attempts.throughput.ended(key(number), completed=True)

    assert attempts.plain == pytest.approx(10, rel=0.02)
    assert attempts.ruled == pytest.approx(10, rel=0.02)


def test_older_attempts_count_less() -> None:
    attempts = Attempts()
    attempts.lone(50, 0.1)
    attempts.lone(5 * MEMORY, 0.01)

    assert attempts.plain == pytest.approx(100, rel=0.02)


def test_an_attempt_that_is_held_stops_counting() -> None:
    attempts = Attempts()
    attempts.throughput.began(PodKey("default", "held"), ruled=False)
    attempts.clock.advance(HELD)
    attempts.lone(100, 0.02, idle=1.0)
    attempts.throughput.ended(PodKey("default", "held"), completed=True)

    assert attempts.plain is not None
    without_the_wait = 100 / (100 * 0.02 + HELD)
    assert attempts.plain > without_the_wait
    attempts.lone(5 * MEMORY, 0.02)
    assert attempts.plain == pytest.approx(50, rel=0.02)


def test_a_start_that_fails_is_no_completed_attempt() -> None:
    attempts = Attempts()
    attempts.lone(ENOUGH - 1, 0.02)
    attempts.throughput.began(key(1), ruled=False)
    attempts.throughput.ended(key(1), completed=False)

    assert attempts.plain is None


def test_nothing_is_measured_while_a_cohort_is_open() -> None:
    """Its decisions take the processor: single attempts beside it say nothing of what they could do."""
    attempts = Attempts()
    attempts.lone(20, 0.01)
    attempts.throughput.began(key(99), ruled=False)
    attempts.clock.advance(0.5)
    attempts.throughput.pause(True)
    attempts.clock.advance(1.0)
    attempts.throughput.ended(key(99), completed=True)
    attempts.throughput.pause(False)

    assert attempts.plain == pytest.approx(100)
