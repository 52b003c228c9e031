"""Random lives of rollouts: the floor and the ceiling hold at every revision, and all come to rest.

The judge is judged as well: lives in which transactions compare less break the rules. `WHARFINGER_TEST_LIVES` asks for
more lives than the usual ones.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.placement.scene import P
from tests.properties.rollout_judge import Judge
from tests.properties.rollout_world import World
from tests.properties.shares import shared_out
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord
from wharfinger.testing.memory_store import MemoryStore

LIVES = int(os.environ.get("WHARFINGER_TEST_LIVES", "200"))
PARTS = 8
STEPS = 25


async def lived(seed: int) -> World:
    world = World(seed)
    await world.live(STEPS)
    await world.come_to_rest()
    return world


async def delivered(world: World) -> None:
    """Every chosen member has what is wanted, and no other has anything; but for what the budget holds."""
    view, seed = world.hubs[0].view, world.seed
    plan = world.hubs[0].plan()
    assert (plan.steps, plan.waiting, plan.failed, plan.timer, plan.snapshot_in) == ((), (), (), None, None), seed
    if plan.held:
        assert plan.ready <= plan.floor or plan.ready == plan.ceiling, seed
        return
    stored = view.decisions.get(P)
    chosen = {one.name for one in stored.chosen} if stored is not None else set()
    works: dict[str, WorkRecord] = {}
    for name in world.names:
        kv = (await world.store.get(placement_keys.work(P, name))).kv
        if kv is not None:
            works[name] = WorkRecord.model_validate_json(kv.value)
    troubles = chosen - works.keys() if "override" in plan.trouble else set()
    assert works.keys() | troubles == chosen, seed
    for name, work in works.items():
        assert (work.want, work.identity) == ("present", view.members[name].member.identity), seed
        assert plan.trouble or work.snapshot == plan.snapshot, seed
        kv = (await world.store.get(placement_keys.result(P, name))).kv
        assert kv is not None, seed
        result = ResultRecord.model_validate_json(kv.value)
        assert (result.available, result.counter) == (True, work.counter), seed


@pytest.mark.parametrize("part", shared_out(PARTS, quick=1))
async def test_no_rule_is_broken_and_all_is_delivered(part: int) -> None:
    taken_away = added = 0
    for seed in range(part, LIVES, PARTS):
        world = await lived(seed)
        await delivered(world)
        judge = Judge(world)
        assert judge.judge() == [], seed
        assert world.missing == [], seed
        taken_away, added = taken_away + judge.taken_away, added + judge.added
    assert taken_away > LIVES // PARTS
    assert added > LIVES // PARTS


@pytest.mark.parametrize("part", shared_out(2, quick=1))
async def test_a_restored_hub_delivers_all_again_and_nothing_older(part: int) -> None:
    for seed in range(part, LIVES // 4, 2):
        world = World(seed)
        await world.live(STEPS)
        await world.restore()
        await world.come_to_rest()
        await delivered(world)
        judge = Judge(world)
        judge.judge_members()
        assert judge.broken == [], seed


@pytest.mark.long
@pytest.mark.parametrize(
    ("prefix", "found"),
    [(placement_keys.losses.prefix, 35), (placement_keys.result.prefix, 881), (placement_keys.rollout.prefix, 124)],
)
async def test_without_a_compare_a_rule_is_broken(prefix: str, found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`found`: a seed that broke a rule; it is tried first, and all of them where it no longer does."""
    txn = MemoryStore.txn

    async def careless(store: MemoryStore, compares: Any, success: Any, failure: Any = ()) -> Any:
        kept = [one for one in compares if not one.key.startswith(prefix)]
        return await txn(store, kept, success, failure)

    monkeypatch.setattr(MemoryStore, "txn", careless)
    for seed in (found, *range(6_000)):
        if Judge(await lived(seed)).judge():
            return
    raise AssertionError(f"no life needs {prefix}")
