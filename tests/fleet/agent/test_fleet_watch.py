from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.fleet.agent.hosts import FIRST, grant, running, until
from tests.virtual_time import VirtualTime
from wharfinger.etcd import keys
from wharfinger.fleet.agent.fleet_watch import FleetWatch
from wharfinger.fleet.contracts.fleet_records import HostRecord, stored
from wharfinger.testing.memory_store import MemoryStore


class Temporal:
    """Takes pokes, and is away as often as told."""

    def __init__(self) -> None:
        self.pokes: Counter[str] = Counter()
        self.runs: set[str] = set()
        """Tenants whose workflow runs; a signal starts it."""
        self.lists = 0
        self.away = 0

    async def poke(self, tenant: str) -> None:
        if self.away:
            self.away -= 1
            raise TimeoutError
        self.pokes[tenant] += 1
        self.runs.add(tenant)

    async def running(self) -> set[str]:
        self.lists += 1
        if self.away:
            self.away -= 1
            raise TimeoutError
        return set(self.runs)


@pytest.fixture
def temporal() -> Temporal:
    return Temporal()


def watch(
    store: MemoryStore,
    temporal: Temporal,
    apart: float = 0.001,
    host: str = "a",
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> FleetWatch:
    rng = random.Random(1)
    return FleetWatch(store, temporal.poke, temporal.running, host=host, rng=rng, apart=apart, pause=pause)


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


async def test_fleet_is_signalled_when_a_person_deletes_its_tenant_key(temporal: Temporal) -> None:
    store = MemoryStore()
    await store.put(keys.fleet("gold"), b"{}")
    following = watch(store, temporal)
    async with running(following.run()):
        pokes = await calm(following, temporal)
        await store.put(keys.tenant("gold"), b"")
        await store.delete(keys.tenant("gold"))
        await until(lambda: pokes["gold"] == 1)


async def host(store: MemoryStore, name: str, *, control: bool = True) -> None:
    await store.put(keys.host(name), stored(HostRecord(boot_id="b", pid=1, control=control)))


async def test_fleets_at_rest_get_no_signal_and_a_terminated_one_gets_one_soon(temporal: Temporal) -> None:
    store, passing = MemoryStore(), VirtualTime()
    names = [f"host-{number:02}" for number in range(50)]
    for name in names:
        await host(store, name)
    for number in range(100):
        await store.put(keys.fleet(f"t{number}"), b"{}")
        await store.put(keys.fleet_status(f"t{number}"), b"{}")
        temporal.runs.add(f"t{number}")
    watches = [watch(store, temporal, host=name, pause=passing.pause) for name in names]
    async with running(*(following.run() for following in watches)):
        await until(lambda: all(following.in_sync and not following._signalling for following in watches))
        temporal.pokes.clear()
        await passing.advance(6000.0)
        assert (temporal.pokes.total(), temporal.lists <= 120) == (0, True)

        temporal.runs.discard("t7")
        await passing.advance(600.0)
        await until(lambda: temporal.pokes.keys() == {"t7"})


@pytest.mark.parametrize("first", ["dies", "cannot reach Temporal"])
async def test_terminated_fleet_is_found_without_the_agent_of_the_first_host(temporal: Temporal, first: str) -> None:
    store, passing = MemoryStore(), VirtualTime()
    await host(store, "0", control=False)
    await host(store, "a")
    await host(store, "b")
    await store.put(keys.fleet("common"), b"{}")
    following = watch(store, temporal, host="b", pause=passing.pause)
    async with running(following.run()):
        await calm(following, temporal)
        temporal.runs.clear()
        if first == "dies":
            await passing.advance(250.0)
            await store.delete(keys.host("a"))
            await until(lambda: temporal.pokes["common"] == 1)  # a host that goes concerns every fleet
            temporal.runs.clear()
        await passing.advance(480.0)
        await until(lambda: "common" in temporal.runs)


@pytest.mark.parametrize("key", ["object", "exit", "grant"])
async def test_fleet_that_lost_its_signal_gets_another(temporal: Temporal, key: str) -> None:
    store, passing = MemoryStore(), VirtualTime()
    for name in ("lost", "settled"):
        if key != "object":
            await store.put(keys.fleet(name), b"{}")
        await store.put(keys.fleet_status(name), b"{}")
        await grant(store, FIRST._replace(tenant=name))
        await store.put(keys.instance(name, "0", 1), b"{}")
    following = watch(store, temporal, pause=passing.pause)
    async with running(following.run()):
        await calm(following, temporal)
        if key == "object":
            await store.put(keys.fleet("lost"), b"{}")
        elif key == "exit":
            await store.put(keys.exited("lost", 0, 1), b"{}")
        else:
            await store.delete(keys.instance("lost", "0", 1))
        await until(lambda: temporal.pokes["lost"] == 1)
        await passing.advance(250.0)
        await until(lambda: temporal.pokes == {"lost": 2})


async def test_listing_that_fails_is_tried_again(temporal: Temporal, caplog: pytest.LogCaptureFixture) -> None:
    store, passing = MemoryStore(), VirtualTime()
    await store.put(keys.fleet("common"), b"{}")
    following = watch(store, temporal, pause=passing.pause)
    async with running(following.run()):
        await calm(following, temporal)
        temporal.runs.clear()
        temporal.away = 1
        await passing.advance(250.0)
        assert "fleets_not_listed effect=retried" in caplog.text
        await passing.advance(250.0)
        await until(lambda: "common" in temporal.runs)


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
