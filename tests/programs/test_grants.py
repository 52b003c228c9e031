"""Living under a grant: registered only while it says so, drained or ended when it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.clock import Clock
from tests.patience import patient
from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Operation, Put
from wharfinger.fleet.contracts.fleet_records import stored
from wharfinger.fleet.model.fleet import Grant
from wharfinger.process.records import InstanceRecord
from wharfinger.programs.grants import OwnGrant
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.settings import DispatchSettings, GrantSettings, LeaseSettings
from wharfinger.testing.memory_store import MemoryStore


async def grant(
    store: MemoryStore, slot: int = 0, incarnation: int = 3, *, tenant: str = "common", **fields: Any
) -> int:
    record = Grant(**{"revision": 7, "host": "here", **fields})
    return await store.put(keys.grant(tenant, slot, incarnation), stored(record))


async def revoke(store: MemoryStore, slot: int = 0, incarnation: int = 3) -> None:
    assert await store.delete(keys.grant("common", slot, incarnation))


def granted(store: MemoryStore, slot: int = 0, incarnation: int = 3, **settings: Any) -> Stage:
    return Stage(store, grant=GrantSettings(slot, incarnation, revision=7), **settings)


async def record(store: MemoryStore, incarnation: int = 3) -> InstanceRecord | None:
    kv = (await store.get(keys.instance("common", "0", incarnation))).kv
    return InstanceRecord.model_validate_json(kv.value) if kv is not None else None


async def said(store: MemoryStore, incarnation: int = 3) -> list[tuple[str, str]]:
    """Every state that the registration was ever written with, and what it waited for."""
    found = []
    async with store.watch(keys.instance("common", "0", incarnation), 1) as batches:
        async for batch in batches:
            for event in batch.events:
                if not event.deleted:
                    written = InstanceRecord.model_validate_json(event.kv.value)
                    found.append((written.state, written.waiting_for))
            if batch.revision >= store.revision:
                return found
    return found


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_a_worker_under_a_grant_is_the_incarnation_that_the_grant_names(store: MemoryStore) -> None:
    await grant(store)
    async with granted(store) as stage:
        found = await record(store)
        assert found is not None
        assert (found.state, found.revision, found.waiting_for) == ("ready", "7", "")
        assert found.host == "here"  # as its agent is called, whatever the machine's name is
        assert stage.loops.scheduling.shards.me == "common/0"


async def test_drain_grant_ends_the_worker_in_order(store: MemoryStore) -> None:
    await grant(store)
    stage = granted(store)
    task = stage.begin()
    await stage.until(lambda: stage.loops.scheduling.shards.me)
    await stage.put_pod("p")
    await stage.until(lambda: stage.part("p"))
    held = asyncio.Event()
    shown: list[object] = []

    async def stop() -> None:  # activities that still run
        shown.append((stage.loops.scheduling.shards.me, stage.part("p")))
        await held.wait()
        stage.polling.running = False

    stage.polling.stop = stop  # type: ignore[method-assign]
    await grant(store, want="drain")
    await stage.until(lambda: shown)
    assert shown == [(None, None)]
    while (found := await record(store)) is None or found.state != "draining":
        await asyncio.sleep(0.002)
    await stage.put_node("n")
    await stage.until(lambda: "n" in stage.cache.nodes)  # the informer still runs

    held.set()
    await asyncio.wait_for(task, patient(20))
    assert await record(store) is None
    assert not stage.gone


async def test_a_grant_that_is_deleted_ends_the_worker_at_once(store: MemoryStore) -> None:
    await grant(store)
    stage = granted(store)
    task = stage.begin()
    await stage.until(lambda: stage.loops.scheduling.shards.me)
    await revoke(store)
    await asyncio.wait_for(task, patient(20))

    assert stage.gone
    assert not stage.polling.running
    assert stage.loops.scheduling.shards.me is None
    assert await record(store) is None
    assert [state for state, _ in await said(store)] == ["starting", "ready"]


async def test_a_grant_that_is_deleted_in_the_middle_of_a_drain_ends_it(store: MemoryStore) -> None:
    await grant(store)
    stage = granted(store)
    task = stage.begin()
    await stage.until(lambda: stage.loops.scheduling.shards.me)
    stopping = asyncio.Event()

    async def stop() -> None:  # an activity that hangs
        stopping.set()
        await asyncio.sleep(60 if not stage.gone else 0)

    stage.polling.stop = stop  # type: ignore[method-assign]
    await grant(store, want="drain")
    await asyncio.wait_for(stopping.wait(), patient(20))
    await revoke(store)
    await asyncio.wait_for(task, patient(20))
    assert stage.gone


async def test_without_a_grant_a_worker_never_registers(store: MemoryStore) -> None:
    """It was created late: its grant is deleted already."""
    await grant(store)
    await revoke(store)
    stage = granted(store)
    await asyncio.wait_for(stage.begin(), patient(20))

    assert stage.gone
    assert await said(store) == []


async def test_worker_with_a_drain_grant_from_the_start_never_gets_ready(store: MemoryStore) -> None:
    await grant(store, want="drain")
    stage = granted(store)
    await asyncio.wait_for(stage.begin(), patient(20))

    assert not stage.gone
    assert {state for state, _ in await said(store)} <= {"draining"}


async def test_a_worker_that_lost_its_lease_overwrites_its_own_registration(store: MemoryStore) -> None:
    await grant(store)
    async with granted(store) as stage:
        kv = (await store.get(keys.instance("common", "0", 3))).kv
        assert kv is not None
        lease = stage.loops.membership._lease
        assert lease is not None
        lease.lose("no answer for a while")  # type: ignore[attr-defined]
        await stage.until(lambda: stage.loops.membership.held and stage.loops.scheduling.shards.me)
        again = (await store.get(keys.instance("common", "0", 3))).kv
        assert again is not None
        assert again.lease != kv.lease
        assert again.create_revision == kv.create_revision


async def test_worker_that_was_cut_off_never_registers_without_its_grant(store: MemoryStore) -> None:
    """The watch tells nothing: only the read and the compare stand in its way."""
    await grant(store)
    stage = granted(store)
    task = stage.begin()
    await stage.until(lambda: stage.loops.scheduling.shards.me)
    stage.own.pause_watches()
    await revoke(store)
    kv = (await store.get(keys.instance("common", "0", 3))).kv
    assert kv is not None
    store.drop_lease(kv.lease)
    revision = store.revision
    await asyncio.wait_for(task, patient(20))

    assert stage.gone
    assert await record(store) is None
    assert store.revision == revision


@pytest.mark.parametrize("meanwhile", ["drained", "deleted"])
async def test_grant_that_moves_between_read_and_registration_prevents_it(store: MemoryStore, meanwhile: str) -> None:
    await grant(store)
    stage = granted(store)
    times = 0

    async def before(_: Sequence[Condition], writes: Sequence[Operation]) -> None:
        nonlocal times
        if times == 0 and isinstance(writes[0], Put) and writes[0].key.startswith(keys.INSTANCES):
            times += 1
            await (revoke(store) if meanwhile == "deleted" else grant(store, want="drain"))

    stage.own.before_txn = before
    await asyncio.wait_for(stage.begin(), patient(20))
    assert times == 1
    assert stage.gone == (meanwhile == "deleted")
    assert not {state for state, _ in await said(store)} & {"starting", "ready", "withdrawn"}


async def test_a_gap_in_the_watch_hides_no_end_of_the_grant(store: MemoryStore) -> None:
    await grant(store)
    stage = granted(store)
    task = stage.begin()
    await stage.until(lambda: stage.loops.scheduling.shards.me)
    stage.own.pause_watches()
    await revoke(store)
    await stage.put_node("n")
    store.compact(store.revision)
    stage.own.resume_watches()
    await asyncio.wait_for(task, patient(20))
    assert stage.gone


async def test_a_list_that_does_not_show_the_grant_is_enough(store: MemoryStore) -> None:
    """Nobody need have read it before, and the watch never showed it."""
    own = OwnGrant(store, "common", GrantSettings(0, 3))
    own.follow(lambda: None)
    assert Changes(1).kinds().isdisjoint(own.follows)
    assert not Changes(2, listed=True).kinds().isdisjoint(own.follows)
    own.apply(Changes(2, listed=True))
    assert own.gone.is_set()


async def test_the_grant_of_a_fleet_that_was_made_again_is_another_process_s(store: MemoryStore) -> None:
    await grant(store, identity=1)
    stage = granted(store)
    task = stage.begin()
    await stage.until(lambda: stage.loops.scheduling.shards.me)
    stage.own.pause_watches()
    await revoke(store)
    await grant(store, identity=9)
    store.compact(store.revision)
    stage.own.resume_watches()
    await asyncio.wait_for(task, patient(20))
    assert stage.gone


async def test_a_grant_of_another_revision_is_another_process_s(store: MemoryStore) -> None:
    await grant(store, revision=8)
    stage = granted(store)
    await asyncio.wait_for(stage.begin(), patient(20))
    assert stage.gone
    assert await said(store) == []


async def test_grant_of_another_host_is_foreign_even_at_the_same_revision() -> None:
    store, restored = MemoryStore(), MemoryStore()
    await grant(store)
    await grant(restored, host="there")
    own = OwnGrant(store, "common", GrantSettings(0, 3, revision=7))
    assert await own.read() is not None

    own._store = restored
    assert await own.read() is None
    assert own.gone.is_set()


async def test_a_grant_that_cannot_be_read_neither_admits_nor_ends_a_worker(store: MemoryStore) -> None:
    await store.put(keys.grant("common", 0, 3), b'{"want": "dance"}')
    stage = granted(store)
    task = stage.begin()
    await stage.until(stage.loops.scheduling.informer.synced.is_set)
    await stage.caught_up()
    assert await said(store) == []
    assert not task.done()

    await grant(store)
    await stage.until(lambda: stage.loops.scheduling.shards.me)
    await store.put(keys.grant("common", 0, 3), b"noise")
    await stage.caught_up()
    assert stage.loops.scheduling.shards.me
    await stage.drain()


async def test_other_grants_are_none_of_its_business(store: MemoryStore) -> None:
    await grant(store)
    async with granted(store) as stage:
        await store.put(keys.grant("common", 0, 4), b"noise")
        await store.put(keys.grant("blue", 0, 3), b"noise")
        await grant(store, 1, 1, want="drain")
        await stage.caught_up()
        assert stage.loops.scheduling.view.invalid.reasons == {}
        assert stage.loops.scheduling.shards.me


async def test_after_a_crash_an_incarnation_stays_starting_until_it_has_settled(store: MemoryStore) -> None:
    await grant(store, settle=10.0)
    clock = Clock()
    stage = granted(store, clock=clock)
    stage.begin()
    await stage.until(lambda: stage.loops.scheduling.informer.synced.is_set() and stage.loops.membership.held)
    clock.advance(9.9)
    stage.loops.lifecycle.changed()
    await stage.caught_up()
    found = await record(store)
    assert found is not None
    assert (found.state, found.waiting_for) == (
        "starting",
        "settled: for 10 s, for the instance before it here crashed",
    )
    assert not stage.polling.running
    assert stage.loops.checks()["settled"] != "ok"

    clock.advance(0.2)
    stage.loops.lifecycle.changed()
    await stage.until(lambda: stage.loops.scheduling.shards.me)
    assert set(stage.loops.checks().values()) == {"ok"}
    await stage.drain()


@pytest.mark.parametrize("looks", range(1, 9))
async def test_settle_time_that_passes_between_two_clock_reads_is_not_missed(store: MemoryStore, looks: int) -> None:
    class Passing(Clock):
        """Moves on by itself once it was asked so often."""

        left = 0

        def __call__(self) -> float:
            if self.left:
                self.left -= 1
                self.now += 0.2 if not self.left else 0.0
            return super().__call__()

    await grant(store, settle=10.0)
    clock = Passing()
    stage = granted(store, clock=clock)
    stage.begin()
    await stage.until(lambda: stage.loops.scheduling.informer.synced.is_set() and stage.loops.membership.held)
    clock.advance(9.9)
    clock.left = looks
    stage.loops.lifecycle.changed()

    await stage.until(lambda: stage.loops.scheduling.shards.me)
    await stage.drain()


async def test_registration_names_its_wait_and_is_rewritten_only_on_a_change(
    store: MemoryStore,
) -> None:
    await grant(store)
    clock = Clock()
    lease = LeaseSettings(loop_stall=1e9, temporal_unreachable=0.03)
    async with granted(store, clock=clock, lease=lease) as stage:
        stage.reachable = False
        clock.advance(1)
        await stage.until(lambda: not stage.polling.running)
        await stage.caught_up()
        assert (await said(store))[-1] == ("withdrawn", "temporal: Temporal does not answer")
        revision = store.revision
        for _ in range(3):
            stage.loops.lifecycle.changed()
            await stage.caught_up()
        assert store.revision == revision

        stage.reachable = True
        await stage.until(lambda: stage.loops.scheduling.shards.me)
        assert (await said(store))[-1] == ("ready", "")


async def test_newer_incarnation_takes_its_slot_over_and_returns_it_on_death(store: MemoryStore) -> None:
    await grant(store, incarnation=3)
    await grant(store, incarnation=4)
    clock = Clock()
    async with granted(store, clock=clock) as old:
        for number in range(20):
            await old.put_pod(f"p{number}")
        await old.until(lambda: len(old.queue) == 20)

        new = granted(store, incarnation=4, clock=clock)
        task = new.begin()
        await new.until(lambda: len(new.queue) == 20)
        await old.until(lambda: len(old.queue) == 0)
        assert (old.loops.scheduling.shards.me, new.loops.scheduling.shards.me) == (None, "common/0")
        assert old.loops.scheduling.shards.members == new.loops.scheduling.shards.members == {"common/0"}
        assert old.polling.running
        assert set(old.loops.checks().values()) == {"ok"}  # ready, until it is drained

        await revoke(store, incarnation=4)
        await asyncio.wait_for(task, patient(20))
        await old.until(lambda: len(old.queue) == 20)


async def test_surge_loses_no_start_and_the_older_incarnation_starts_none(store: MemoryStore) -> None:
    """Steps: the older one has as much in flight as it may, and more in its queue; the newer one becomes ready. It
    holds all of the slot's pods for the two seconds, and starts each then: those that were started join their chain.
    """
    await grant(store, incarnation=3)
    await grant(store, incarnation=4)
    clock = Clock()
    dispatching = DispatchSettings(hold=2.0, in_flight=10, cohorts=False)
    async with granted(store, clock=clock, dispatching=dispatching) as old:
        old.later(2)
        pods = [f"p{number}" for number in range(25)]
        for name in pods:
            await old.put_pod(name)
        await old.until(lambda: len(old.attempts.started) == 10)

        async with granted(store, incarnation=4, clock=clock, dispatching=dispatching) as new:
            await old.until(lambda: len(old.queue) == 0)
            await new.until(lambda: len(new.queue) == 25)
            await new.put_pod("late")
            await new.until(lambda: new.part("late"))
            clock.advance(1.9)
            new.loops.scheduling.dispatcher.kick()
            await new.caught_up()
            assert new.attempts.started == []

            new.later(0.2)
            for name in [*pods, "late"]:
                await new.until(lambda name=name: name in new.attempts.names)  # type: ignore[misc]
                await new.bind(name, "node")
            await new.until(lambda: len(new.queue) == 0)
            assert len(old.attempts.started) == 10
            assert sorted(new.attempts.names) == sorted([*pods, "late"])
