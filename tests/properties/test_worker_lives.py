"""Worker loops in a simulated world, against any interleaving of users, faults and late answers: lives by their seeds.

The world (`tests/scheduling/lives`) runs the real loops, activities and workflows of one to three workers, over a
store in memory and a Temporal that loses answers, repeats activities, stands still and dies. Watches lag, end, and
are compacted; workers are killed; operators terminate runs; extenders answer late, or not at all.

Judged at every moment: no node is overcommitted, no pod is bound twice, no gang is torn, no user's write is lost; no
worker is idle while a pod is ready and no group counts; groups are bounded and take the first pods of the queue. After
the last fault, all that fits must be bound in time. A worker that is broken on purpose is noticed.
"""

from __future__ import annotations

import pytest

from tests.scheduling.lives import broken
from tests.scheduling.lives.life import play, told
from tests.scheduling.lives.worker import Parts

LIVES = 2_000
SHARDS = 20
QUICK = 3
"""Shards that `make check` plays; `make test` plays all, and `make soak` new ones."""


@pytest.mark.parametrize(
    "shard", [pytest.param(shard, marks=[] if shard < QUICK else pytest.mark.long) for shard in range(SHARDS)]
)
def test_no_rule_is_broken_and_all_that_fits_is_bound(shard: int) -> None:
    size = LIVES // SHARDS
    for seed in range(shard * size, (shard + 1) * size):
        life = play(seed)
        if life.violations:
            pytest.fail(told(life), pytrace=False)


def test_a_life_is_the_same_each_time() -> None:
    assert play(7).story == play(7).story


ENOUGH = 400
"""Lives within which each of them is seen; most of them in the first few."""


NOTICED = (0, 1, 3, 4, 7, 61, 64, 122, 157, 250)
"""Lives that noticed one of them last time; they are played first."""


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (broken.SkipsACompare, "overcommitted"),
        (broken.SkipsThePod, "risen"),
        (broken.LosesEvents, "in no queue"),
        (broken.DropsWakes, "could be bound"),
        (broken.BelievesLostAnswers, "has no run"),
        (broken.RenamesRetries, "twice"),
        (broken.ForgetsFailedStarts, "forgotten the start"),
        (broken.DropsKicks, "is idle"),
        (broken.ForgetsEnds, "none is in flight"),
        (broken.CountsNoGroups, "groups in flight"),
        (broken.HalvesGroups, "not full"),
        (broken.StartsOneGroup, "for a full group"),
        (broken.WaitsForTheSlow, "are overdue"),
        (broken.StartsWhatComes, "others are in time"),
        (broken.ForgetsFailures, "run that failed"),
        (broken.IgnoresOverdueRuns, "has not heard"),
        (broken.ReturnsNoOverdue, "could be bound"),
        (broken.HearsNoExtender, "could be bound"),
        (broken.TearsGangs, "gang torn"),
        (broken.EvictsNone, "could be bound"),
        (broken.HoldsGangs, "a gang is ready"),
        (broken.LetsGangsOvertake, "started pods before"),
        (broken.StartsAllGangs, "gangs in flight"),
        (broken.StartsAllAlone, "pods alone in flight"),
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
