"""Lives with a worker that is broken on purpose are noticed: a mistake each, in a part that is passed in."""

from __future__ import annotations

import pytest

from tests.scheduling.lives import broken
from tests.scheduling.lives.life import play
from tests.scheduling.lives.worker import Parts

ENOUGH = 400
"""Lives within which each of them is seen; most of them in the first few."""
NOTICED = (1, 3, 7, 64, 122, 157)
"""Lives that noticed one of them last time; they are played first."""


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (broken.SkipsACompare, "overcommitted"),
        (broken.SkipsThePod, "risen"),
        (broken.LosesEvents, "in no queue"),
        (broken.DropsWakes, "could be bound"),
        (broken.DropsStarts, "could be bound"),
        (broken.StartsTwice, "twice"),
        (broken.DropsKicks, "is idle"),
        (broken.ForgetsEnds, "none is in flight"),
        (broken.CountsNoGroups, "groups in flight"),
        (broken.ForgetsFailures, "run that failed"),
        (broken.IgnoresOverdueRuns, "has not heard"),
        (broken.ReturnsNoOverdue, "could be bound"),
        (broken.HearsNoExtender, "could be bound"),
        (broken.TearsGangs, "gang torn"),
        (broken.EvictsNone, "could be bound"),
        (broken.StartsNoGang, "is idle"),
        (broken.HoldsTheAlone, "ready alone"),
        (broken.TurnsTheOrder, "started pods before"),
        (broken.SaysBound, "untrue"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_part_is_noticed(parts: type[Parts], said: str) -> None:
    if not any(
        said in violation for seed in (*NOTICED, *range(ENOUGH)) for violation in play(seed, parts()).violations
    ):
        pytest.fail(f"{ENOUGH} lives, and the judge did not notice: {parts.__doc__}")
