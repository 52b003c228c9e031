"""When placements are looked at again: brakes, delays, and that nothing is put off for ever."""

from __future__ import annotations

import random

import pytest

from tests.clock import Clock
from tests.placement.member.member_scene import P
from wharfinger.placement.member.look_queue import LONGEST_GAP, QUIET, SETTLE, UNSETTLED, LookQueue


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def looks(clock: Clock) -> LookQueue:
    return LookQueue(clock, random.Random(1))


def gap(looks: LookQueue, clock: Clock) -> float:
    """Seconds until a change on the member leads to a look; that look has come then."""
    looks.at.pop(P, None)
    looks.after_change(P)
    seconds = looks.at[P] - clock()
    clock.now = looks.at[P]
    looks.come()
    assert P in looks.due
    looks.due.clear()
    return seconds


def test_the_gap_doubles_while_looks_go_on_writing(looks: LookQueue, clock: Clock) -> None:
    gaps = []
    for _ in range(14):
        looks.looked(P, 1, wrote=True)
        gaps.append(gap(looks, clock))
    assert gaps[:4] == pytest.approx([SETTLE, 0.2, 0.4, 0.8])
    assert gaps[-3:] == pytest.approx([LONGEST_GAP] * 3)


def test_the_gap_falls_back_after_a_quiet_look_only(looks: LookQueue, clock: Clock) -> None:
    """A controller may answer between two looks: a single look without a write shows nothing."""
    for _ in range(5):
        looks.looked(P, 1, wrote=True)
        looks.looked(P, 1, wrote=False)
    assert gap(looks, clock) == pytest.approx(1.6)
    clock.advance(QUIET)
    looks.looked(P, 1, wrote=False)
    assert gap(looks, clock) == pytest.approx(SETTLE)
    looks.looked(P, 1, wrote=True)
    assert gap(looks, clock) == pytest.approx(SETTLE)


def test_writes_of_another_work_are_not_braked(looks: LookQueue, clock: Clock) -> None:
    for counter in range(9):
        looks.looked(P, counter, wrote=True)
    assert gap(looks, clock) == pytest.approx(SETTLE)


def test_a_change_of_the_work_is_looked_at_despite_the_brake(looks: LookQueue) -> None:
    for _ in range(9):
        looks.looked(P, 1, wrote=True)
    looks.at_once(P)
    assert looks.due == {P}


def test_the_usual_look_does_not_come_before_the_brake(looks: LookQueue, clock: Clock) -> None:
    for _ in range(12):
        looks.looked(P, 1, wrote=True)
    looks.again(P, changed=True, longest=UNSETTLED)
    assert looks.at[P] == pytest.approx(clock() + LONGEST_GAP)


def test_changes_without_end_put_no_look_off(looks: LookQueue, clock: Clock) -> None:
    looks.after_change(P)
    for _ in range(3):
        clock.advance(SETTLE / 2)
        looks.after_change(P)
        looks.come()
    assert looks.due == {P}


def test_a_look_that_is_put_back_waits_ever_longer(looks: LookQueue) -> None:
    assert [looks.put_back(P) for _ in range(8)] == [1, 2, 4, 8, 16, 32, UNSETTLED, UNSETTLED]
