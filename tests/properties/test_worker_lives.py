"""Worker loops in a simulated world, against any interleaving of users, faults and late answers: lives by their seeds.

The world (`tests/scheduling/lives`) runs the real loops, activities and workflows of one to three workers, over a
store in memory and a Temporal that loses answers, repeats activities, stands still and dies. Watches lag, end, and
are compacted; workers are killed; operators terminate runs; extenders answer late, or not at all.

Judged at every moment: no node is overcommitted, no pod is bound twice, no gang is torn, no user's write is lost; no
worker is idle while a pod is ready and no group counts; groups are bounded and take the first pods of the queue. After
the last fault, all that fits must be bound in time.
"""

from __future__ import annotations

import pytest

from tests.scheduling.lives.life import play, told

LIVES = 1_500
SHARDS = 15
QUICK = 1
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
