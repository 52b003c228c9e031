from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import pytest

from tests.agent_loops.hosts import FIRST, grant, running, until
from wharfinger.agent_loops.fleet_watch import FleetWatch
from wharfinger.registry import keys
from wharfinger.testing.memory_store import MemoryStore


class Temporal:
    """Takes pokes, and is away as often as told."""

    def __init__(self) -> None:
        self.pokes: Counter[str] = Counter()
        self.away = 0

    async def poke(self, tenant: str) -> None:
        if self.away:
            self.away -= 1
            raise TimeoutError
        self.pokes[tenant] += 1


@pytest.fixture
def temporal() -> Temporal:
    return Temporal()


def watch(store: MemoryStore, temporal: Temporal, apart: float = 0.001, anyway: float = 300.0) -> FleetWatch:
    return FleetWatch(store, temporal.poke, rng=random.Random(1), apart=apart, anyway=anyway)


async def calm(following: FleetWatch, temporal: Temporal) -> Counter[str]:
    """Wait until everything is listed and told; answers the pokes since then as they come."""
    await until(lambda: following.in_sync and not following._signalling)
    temporal.pokes.clear()
    return temporal.pokes


async def test_a_list_signals_every_tenant_with_a_fleet_or_remains_of_one(temporal: Temporal) -> None:
    store = MemoryStore()
    await store.put(keys.fleet("common"), b"{}")
    await store.put(keys.fleet_status("gone"), b"{}")
    await grant(store, FIRST._replace(tenant="left"))
    await store.put(keys.instance("lonely", "hand-1", 1), b"{}")
    await store.put(keys.attempt("default", "pod"), b"{}")
    following = watch(store, temporal)
    async with running(following.run()):
        await until(lambda: following.in_sync and not following._signalling)

    assert temporal.pokes.keys() == {"common", "gone", "left"}


@pytest.mark.parametrize(
    "key",
    [
        keys.fleet("common"),
        keys.instance("common", "0", 1),
        keys.exited("common", 0, 1),
        keys.host("here"),
        keys.cordon("here"),
        keys.lost_host("here"),
    ],
)
async def test_change_that_concerns_a_fleet_signals_it(temporal: Temporal, key: str) -> None:
    store = MemoryStore()
    await store.put(keys.fleet("common"), b"{}")
    following = watch(store, temporal)
    async with running(following.run()):
        pokes = await calm(following, temporal)
        await store.put(key, b"{}")
        await until(lambda: pokes["common"] == 1)
        await store.delete(key)
        await until(lambda: pokes["common"] == 2)


async def test_fleet_is_signalled_for_a_deleted_grant_not_for_its_own_writes(temporal: Temporal) -> None:
    store = MemoryStore()
    await store.put(keys.fleet("common"), b"{}")
    following = watch(store, temporal)
    async with running(following.run()):
        pokes = await calm(following, temporal)
        await store.put(keys.fleet_status("common"), b"{}")
        await grant(store)
        await store.put(keys.fleet("other"), b"{}")  # told behind them
        await until(lambda: pokes["other"] == 1)
        assert pokes["common"] == 0

        await store.delete(keys.grant(*FIRST))
        await until(lambda: pokes["common"] == 1)


async def test_every_fleet_is_signalled_now_and_then_without_a_change(temporal: Temporal) -> None:
    store = MemoryStore()
    await store.put(keys.fleet("common"), b"{}")
    await grant(store, FIRST._replace(tenant="left"))
    following = watch(store, temporal, anyway=0.05)
    async with running(following.run()):
        await until(lambda: following.in_sync)
        await until(lambda: min(temporal.pokes["common"], temporal.pokes["left"]) >= 4)


async def test_many_changes_are_few_signals_and_the_last_change_is_signalled(temporal: Temporal) -> None:
    store = MemoryStore()
    await store.put(keys.fleet("common"), b"{}")
    following = watch(store, temporal, apart=0.05)
    async with running(following.run()):
        pokes = await calm(following, temporal)
        began = time.monotonic()
        for _ in range(200):
            await store.put(keys.fleet("common"), b"{}")
        await until(lambda: following.waiting == 0 and not following._signalling)
        passed = time.monotonic() - began

    assert 2 <= pokes["common"] <= 2 + passed / 0.05
    assert pokes["common"] < 200


async def test_reconcile_signal_is_repeated_while_temporal_is_away(temporal: Temporal) -> None:
    store = MemoryStore()
    temporal.away = 3
    following = watch(store, temporal)
    async with running(following.run()):
        await store.put(keys.fleet("common"), b"{}")
        await until(lambda: temporal.pokes["common"] > 0)

    assert temporal.away == 0


async def test_compacted_watch_is_a_list_that_signals_deleted_fleets_too(temporal: Temporal) -> None:
    following = watch(MemoryStore(), temporal)
    store = MemoryStore()
    await store.put(keys.fleet("common"), b"{}")
    (page,) = [page async for page in store.list(keys.FLEETS)]
    following.listed(keys.FLEETS, page.items)
    await until(lambda: not following._signalling)

    following.listed(keys.FLEETS, [])
    await until(lambda: not following._signalling)

    assert temporal.pokes["common"] == 2


@pytest.mark.parametrize("tenant", ["", "UPPER", "control", "a b", "x" * 64])
async def test_what_is_no_tenant_is_nobodys_fleet(temporal: Temporal, tenant: str) -> None:
    store = MemoryStore()
    await store.put(f"{keys.FLEETS}{tenant}", b"{}")
    following = watch(store, temporal)
    async with running(following.run()):
        await until(lambda: following.in_sync)
        await asyncio.sleep(0)

    assert not temporal.pokes
