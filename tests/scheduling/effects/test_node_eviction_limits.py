"""Clearing nodes where everything is late: workers, etcd's answers, and the turn at the budget."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.scheduling.effects.test_node_evictions import START, caretaker, put_lost
from tests.scheduling.world import NOW, World
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Operation, Read, Store
from wharfinger.process.records import NodeBudgetRecord
from wharfinger.scheduling.contracts.node_eviction import ClearInput
from wharfinger.scheduling.effects.clearing_nodes import TaintEviction


@pytest.mark.parametrize(("queued", "removed"), [(30, 1), (31, 0)])
async def test_clearing_that_waited_too_long_for_a_worker_removes_nothing(
    world: World, queued: int, removed: int
) -> None:
    """The node may have returned and vanished again meanwhile."""
    one = await caretaker(world)
    await put_lost(world, "web")
    await one.hand.seen()
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, scheduled_time=NOW, started_time=NOW + timedelta(seconds=queued))

    request = ClearInput(node="n", now=START, absent=True)
    cleared = await environment.run(one.activities.clear_node, request)

    assert (cleared.removed, cleared.again) == (removed, not removed)


async def test_budget_that_others_write_all_the_time_is_asked_for_later(world: World) -> None:
    one = await caretaker(world)
    await put_lost(world, "web")
    number = itertools.count(1)

    async def first(compares: Sequence[Condition], _operations: Sequence[Operation]) -> None:
        if any(compare.key == keys.NODE_BUDGET for compare in compares):
            one.hand.store.before_txn = None
            record = NodeBudgetRecord(admitted={"other": START - 1000 - next(number)})
            await world.store.put(keys.NODE_BUDGET, record.to_bytes())
            one.hand.store.before_txn = first

    one.hand.store.before_txn = first

    with pytest.raises(ApplicationError, match=r"others changed .* 10 times in a row") as failed:
        await one.clear()
    assert (failed.value.type, failed.value.non_retryable) == ("Unavailable", False)
    assert await world.pod("web") is not None


class SlowReads:
    """A store that counts how many reads wait at the same time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.format = store.format
        self.waiting = self.most = self.reads = 0

    async def get(self, key: str) -> Read:
        """Read, but not at once."""
        self.waiting += 1
        self.reads += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(0)
        self.waiting -= 1
        return await self._store.get(key)


@pytest.mark.parametrize(("enough", "reads"), [(500, 150), (60, 64)])
async def test_pods_of_a_tainted_node_are_read_in_pages_until_enough_are_due(
    world: World, enough: int, reads: int
) -> None:
    one = await caretaker(world)
    await world.put_node("n", spec={"taints": [{"key": "down", "effect": "NoExecute"}]})
    for number in range(150):
        await put_lost(world, f"web-{number}")
    await one.hand.seen()
    kv = (await world.store.get(keys.node("n"))).kv
    assert kv is not None
    store: Any = SlowReads(world.store)
    taints = TaintEviction(store, one.hand.cache, mode="immediate", utc_now=lambda: NOW)
    node = taints.read(kv, {}, START)
    assert node is not None

    leaving = await taints.leaving(node, START, enough)

    assert (len(leaving), store.reads, store.most) == (reads, reads, 64)
