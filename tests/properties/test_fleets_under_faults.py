"""Fleets in a simulated world, against any interleaving of users, faults and late answers: 2,500 cases by their seeds.

The world (`fleet_world`) runs the planner and the actor that the workflows run; its judge holds every commit against
the rules: the floor, the ceiling, incarnations, unknown instances, canary, partition, revisions that failed, hosts,
agents that are away, kills, history; and every case must come to rest as its user wants it. A failure tells the seed
and its story.
"""

from __future__ import annotations

import pytest

from tests.properties.fleet_world.run import play, told

CASES = 2_500
SHARDS = 5
QUICK = 1
"""Shards that `make check` plays; `make test` plays all, and `make soak` new ones: 20,000 in ten minutes. Rules
that are broken on purpose are noticed within two shards, all but one (test_fleets_judge_bites.py)."""


@pytest.mark.parametrize(
    "shard", [pytest.param(shard, marks=[] if shard < QUICK else pytest.mark.long) for shard in range(SHARDS)]
)
def test_no_rule_is_broken_and_every_fleet_comes_to_rest(shard: int) -> None:
    size = CASES // SHARDS
    for seed in range(shard * size, (shard + 1) * size):
        case = play(seed)
        if case.violations:
            pytest.fail(told(case), pytrace=False)
