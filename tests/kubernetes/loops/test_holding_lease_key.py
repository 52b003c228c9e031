"""The key `active` on a store in memory: under its own lease, in time, and by the importer alone."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from tests.virtual_time import VirtualTime
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.kubernetes.effects.adopting import NotTheImporter
from wharfinger.kubernetes.loops.holding_lease import ActiveKey
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.effects.binding.right_to_bind import ActiveTerms
from wharfinger.telemetry import Metrics
from wharfinger.testing import MemoryStore

USUAL = ActiveTerms(gone_after=10.0, ended_by=10.0, ttl=4.0)


class Keeper:
    """An importer that renews the API's Lease when the test says so."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.store = MemoryStore(clock=self.time)
        process = ProcessParts(
            self.store.client(),
            Metrics(),
            clock=self.time,
            utc_now=lambda: datetime(2026, 3, 1, tzinfo=UTC),
            rng=random.Random(1),
        )
        self.key = ActiveKey(process, "1@host")
        self.epoch = 0
        self.renewed = self.time()

    async def begin(self) -> None:
        self.epoch = await self.store.put(keys.IMPORTER, b"{}")

    def age(self) -> float:
        return self.time() - self.renewed

    async def put(self, terms: ActiveTerms = USUAL) -> str:
        return await self.key.put_leased(self.epoch, terms, self.age)

    async def found(self) -> KeyValue | None:
        return (await self.store.get(keys.ACTIVE)).kv

    async def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.1)):
            self.time.now += 0.1
            self.store.advance(0)


@pytest.fixture
async def keeper() -> Keeper:
    keeper = Keeper()
    await keeper.begin()
    return keeper


async def test_it_is_kept_only_while_the_lease_is_renewed(keeper: Keeper) -> None:
    assert await keeper.put() == ""
    before = await keeper.found()
    for _ in range(10):
        await keeper.wait(2)
        keeper.renewed = keeper.time()
    assert await keeper.found() == before
    assert keeper.key.there
    await keeper.wait(9)
    assert await keeper.found() is None
    assert not keeper.key.there


async def test_it_is_not_put_where_its_lease_would_end_too_late(keeper: Keeper) -> None:
    """Say, etcd is configured so that it grants no shorter leases."""
    why = await keeper.put(ActiveTerms(gone_after=4.5, ended_by=4.5, ttl=4.0))
    assert why == "etcd granted a lease of 4 s, which may not end within 4.5 s after the last renewal of the Lease"
    assert await keeper.found() is None
    assert not keeper.key.there


async def test_it_is_not_put_by_an_importer_that_was_replaced(keeper: Keeper) -> None:
    await keeper.store.put(keys.IMPORTER, b"{}")
    with pytest.raises(NotTheImporter):
        await keeper.put()
    assert not await keeper.key.delete(keeper.epoch)
    assert await keeper.found() is None


async def test_a_dying_one_is_replaced_by_one_under_a_new_lease(keeper: Keeper) -> None:
    """Its lease counts as lost here before etcd ends it."""
    old = await keeper.store.client().grant_lease(1, alive=lambda: False)
    await keeper.store.put(keys.ACTIVE, b"{}", lease=old.id)
    assert await keeper.put() == ""
    await keeper.wait(2)
    found = await keeper.found()
    assert found is not None
    assert found.lease != old.id


async def test_releasing_it_takes_the_key_along(keeper: Keeper) -> None:
    await keeper.put()
    await keeper.key.release()
    assert await keeper.found() is None
    assert not keeper.key.there


async def test_one_without_a_lease_stays(keeper: Keeper) -> None:
    await keeper.key.put(keeper.epoch)
    await keeper.key.release()
    await keeper.wait(20)
    found = await keeper.found()
    assert found is not None
    assert found.lease == 0


async def test_one_without_a_lease_takes_the_place_of_one_with(keeper: Keeper) -> None:
    """The election was switched off, and the key of the worker before hangs on a lease that will end."""
    old = await keeper.store.client().grant_lease(1, alive=lambda: False)
    await keeper.store.put(keys.ACTIVE, b"{}", lease=old.id)
    await keeper.key.put(keeper.epoch)
    await keeper.wait(20)
    found = await keeper.found()
    assert found is not None
    assert found.lease == 0


async def test_one_without_a_lease_is_left_as_it_is(keeper: Keeper) -> None:
    """Each bind compares its revision."""
    await keeper.key.put(keeper.epoch)
    before = await keeper.found()
    await keeper.key.put(keeper.epoch)
    assert await keeper.found() == before
