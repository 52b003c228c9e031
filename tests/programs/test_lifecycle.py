"""On duty and off: registrations under a lease, and two workers that share."""

from __future__ import annotations

import asyncio

import pytest

from tests.clock import Clock
from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.process.records import InstanceRecord
from wharfinger.programs.lifecycle import WARM_AFTER
from wharfinger.settings import LeaseSettings
from wharfinger.testing.memory_store import MemoryStore


async def registrations(store: MemoryStore) -> dict[str, str]:
    found = {}
    async for page in store.list(keys.INSTANCES):
        for kv in page.items:
            found[kv.key.removeprefix(keys.INSTANCES)] = InstanceRecord.model_validate_json(kv.value).state
    return found


async def test_worker_is_registered_as_ready_under_its_lease_until_drained() -> None:
    async with Stage(slot="0") as stage:
        assert await registrations(stage.store) == {"common/0/1": "ready"}
        assert stage.polling.running
        assert set(stage.loops.checks().values()) == {"ok"}

        await stage.drain()
        assert await registrations(stage.store) == {}
        assert not stage.polling.running
        assert "ok" not in (stage.loops.checks()["lease"], stage.loops.checks()["serving"])


async def test_the_first_snapshot_is_made_once_when_the_worker_goes_on_duty() -> None:
    stage = Stage()
    made: list[bool] = []
    stage.loops.lifecycle._warm = lambda: made.append(stage.loops.lifecycle.on)
    async with stage:
        await stage.until(lambda: made == [True])
        first = stage.loops.scheduling.shards.me
        (key,) = await registrations(stage.store)
        held = (await stage.store.get(keys.INSTANCES + key)).kv
        assert held is not None
        stage.store.drop_lease(held.lease)
        await stage.until(lambda: stage.loops.scheduling.shards.me not in (None, first))
        await asyncio.sleep(WARM_AFTER)
    assert made == [True]


async def test_a_worker_started_by_hand_is_named_after_host_and_lease() -> None:
    async with Stage() as stage:
        (name,) = await registrations(stage.store)

        assert name.startswith("common/hand-")
        assert name.endswith("/1")


async def test_without_its_lease_a_worker_withdraws_and_comes_back_with_another() -> None:
    async with Stage() as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.part("p"))
        first = stage.loops.scheduling.shards.me
        (key,) = await registrations(stage.store)
        lease = (await stage.store.get(keys.INSTANCES + key)).kv
        assert lease is not None
        stage.store.drop_lease(lease.lease)
        await stage.until(lambda: stage.loops.scheduling.shards.me not in (None, first))

        assert stage.polling.running
        assert len(await registrations(stage.store)) == 1
        await stage.until(lambda: len(stage.attempts.names) == 2)  # taken over from itself


@pytest.mark.parametrize(("ttl", "stall"), [(10, 6), (2, 1.2)])
async def test_a_worker_whose_event_loop_hangs_for_half_its_lease_loses_it(ttl: float, stall: float) -> None:
    """Alive but doing nothing: the lease's thread stops renewing, so that others take over."""
    async with Stage(lease=LeaseSettings(ttl=ttl)) as stage:
        first = stage.loops.scheduling.shards.me
        stage.store.advance(60)
        await stage.caught_up()
        assert stage.loops.scheduling.shards.me == first

        stage.clock.advance(stall)
        stage.store.advance(60)
        await stage.until(lambda: stage.loops.scheduling.shards.me not in (None, first))


async def test_a_registration_that_outlived_its_lost_lease_is_removed() -> None:
    """etcd renews all leases when it starts, so the one given up for lost may live on for a while."""
    async with Stage() as stage:
        (old,) = await registrations(stage.store)
        first = stage.loops.scheduling.shards.me
        lease = stage.loops.membership._lease
        assert lease is not None
        lease.lose("no answer for a while")  # type: ignore[attr-defined]
        await stage.until(lambda: stage.loops.scheduling.shards.me not in (None, first))

        assert old not in await registrations(stage.store)
        assert len(stage.loops.scheduling.shards.members) == 1


async def test_registration_that_vanishes_under_a_held_lease_is_written_again() -> None:
    """Steps: an operator deletes it; or a worker of the same slot name, on its way out, had written it over and
    takes it along with its own lease. Without a registration this worker would serve nothing, and know of no trouble.
    """
    async with Stage(slot="0") as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.part("p"))
        await stage.store.delete(keys.instance("common", "0", 1))
        revision = stage.store.revision
        await stage.until(lambda: stage.store.revision > revision)
        await stage.caught_up()

        assert await registrations(stage.store) == {"common/0/1": "ready"}
        assert stage.part("p") is not None


async def test_a_worker_that_cannot_reach_temporal_withdraws_until_it_can() -> None:
    async with Stage(slot="0", lease=LeaseSettings(loop_stall=1e9, temporal_unreachable=0.03)) as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.part("p"))
        stage.reachable = False
        stage.clock.advance(1)
        await stage.until(lambda: not stage.polling.running)
        await stage.until(lambda: not len(stage.queue))
        await stage.until(lambda: stage.loops.scheduling.shards.members == frozenset())
        assert await registrations(stage.store) == {"common/0/1": "withdrawn"}
        assert stage.loops.checks()["temporal"] != "ok"

        stage.reachable = True
        await stage.until(lambda: stage.part("p"))
        assert stage.polling.running


async def test_polling_that_fails_is_started_again() -> None:
    async with Stage() as stage:
        stage.polling.running = False
        stage.polling.failed()
        await stage.until(lambda: stage.polling.running)


async def test_two_workers_share_the_pods_and_one_takes_over_from_a_drained_one() -> None:
    store, clock = MemoryStore(), Clock()
    async with Stage(store, clock=clock, slot="0") as one, Stage(store, clock=clock, slot="1") as other:
        await one.until(lambda: all(len(each.loops.scheduling.shards.members) == 2 for each in (one, other)))
        for number in range(40):
            await one.put_pod(f"p{number}")
        await one.until(lambda: len(one.queue) + len(other.queue) == 40)
        assert len(one.queue) > 5
        assert len(other.queue) > 5
        assert not set(one.queue) & set(other.queue)

        for stage in (one, other):
            preferred_nodes = stage.pool.preferred_nodes
            assert (set(preferred_nodes.members), preferred_nodes.me) == (
                stage.loops.scheduling.shards.members,
                stage.loops.scheduling.shards.me,
            )

        await other.drain()
        await one.until(lambda: len(one.queue) == 40)
        assert one.pool.preferred_nodes.members == (one.loops.scheduling.shards.me,)
        assert other.pool.preferred_nodes.me is None


async def test_a_tenants_worker_takes_its_pods_while_the_tenant_exists() -> None:
    """[Its chain may sit on an unpolled task queue]: a pod that changes its pool has its queue checked."""
    store, clock = MemoryStore(), Clock()
    async with Stage(store, clock=clock) as common, Stage(store, clock=clock, tenant="blue") as blue:
        await common.put_pod("b", labels={"wharfinger.dev/tenant": "blue"})
        await common.until(lambda: common.attempts.started)
        await store.put(keys.tenant("blue"), b"{}")
        await blue.until(lambda: blue.attempts.started)

        assert blue.attempts.started == [("b", "take-over", True)]
        assert len(common.queue) == 0

        await store.delete(keys.tenant("blue"))
        await common.until(lambda: len(common.attempts.started) == 2)
        assert common.attempts.started[1] == ("b", "take-over", True)
        assert len(blue.queue) == 0


async def test_the_label_that_names_a_tenant_is_a_setting() -> None:
    store, clock = MemoryStore(), Clock()
    await store.put(keys.tenant("blue"), b"{}")
    async with (
        Stage(store, clock=clock, tenant_label="team") as common,
        Stage(store, clock=clock, tenant="blue", tenant_label="team") as blue,
    ):
        await common.put_pod("b", labels={"team": "blue"})
        await common.put_pod("c", labels={"wharfinger.dev/tenant": "blue"})
        await blue.until(lambda: blue.attempts.started)
        await common.until(lambda: common.attempts.started)
        await common.bind("c", "n")
        await common.until(lambda: common.part("c") is None)
        await store.delete(keys.tenant("blue"))
        await common.until(lambda: len(common.attempts.started) == 2)

        assert blue.attempts.names == ["b"]
        assert common.attempts.started == [("c", "seen", False), ("b", "take-over", True)]


async def test_waiting_pods_that_come_to_an_idle_worker_are_started_there() -> None:
    """[Its chain may sit on an unpolled task queue]: the tenant's worker is gone, and this one had nothing to do."""
    store, clock = MemoryStore(), Clock()
    await store.put(keys.tenant("blue"), b"{}")
    async with Stage(store, clock=clock) as common:
        await common.put_pod("b", labels={"wharfinger.dev/tenant": "blue"})
        await common.refuse("b")
        await common.caught_up()
        assert len(common.queue) == 0

        await store.delete(keys.tenant("blue"))
        await common.until(lambda: common.attempts.started)

        assert common.attempts.started == [("b", "level", True)]
