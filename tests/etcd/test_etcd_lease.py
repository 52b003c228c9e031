"""Leases on a real etcd whose owner, or whose etcd, has trouble."""

from __future__ import annotations

import asyncio
import threading
import time

from tests.etcd.conftest import Spoken, StartEtcd
from tests.etcd.etcd_process import EtcdProcess
from tests.etcd.lease_times import with_time_enough
from tests.patience import patient
from wharfinger.etcd.etcd import EtcdStore


def lease_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("etcd-lease")]


async def test_lease_that_cannot_be_renewed_is_lost_before_etcd_drops_it(start_etcd: StartEtcd, spoken: Spoken) -> None:
    etcd = start_etcd()
    async with EtcdStore(spoken.of(etcd)) as store:
        lease = await store.grant_lease(2)
        etcd.pause()
        await asyncio.sleep(1.95)
        lost_in_time = lease.lost
        reason = await asyncio.wait_for(lease.wait_lost(), patient(20))
        etcd.resume()

    assert lost_in_time
    assert "not renewed" in reason


async def test_a_lease_outlives_an_outage_shorter_than_its_time(start_etcd: StartEtcd, spoken: Spoken) -> None:
    etcd = start_etcd()

    async def story(ttl: int) -> None:
        async with EtcdStore(spoken.of(etcd)) as store:
            granted = time.monotonic()
            lease = await store.grant_lease(ttl)
            await store.put("/a", b"", lease=lease.id)
            etcd.kill()
            await asyncio.sleep(0.5)
            await asyncio.to_thread(etcd.start)
            await asyncio.sleep(granted + 1.2 * ttl - time.monotonic())

            assert not lease.lost
            assert (await store.get("/a")).kv is not None

    await with_time_enough(etcd, 3, story)


async def test_lease_revoked_by_another_client_is_lost_at_the_next_renewal(
    steady_etcd: EtcdProcess, spoken: Spoken
) -> None:
    # By a clock that stands still only etcd can tell that the lease is lost.
    async with EtcdStore(spoken.of(steady_etcd), clock=lambda: 0.0) as store:
        lease = await store.grant_lease(3)
        steady_etcd.post("/v3/lease/revoke", {"ID": str(lease.id)})
        reason = await asyncio.wait_for(lease.wait_lost(), patient(20))
        await lease.revoke()

    assert "no longer" in reason


async def test_a_lease_is_kept_while_the_event_loop_is_busy(steady_etcd: EtcdProcess, spoken: Spoken) -> None:
    async def story(ttl: int) -> None:
        async with EtcdStore(spoken.of(steady_etcd)) as store:
            lease = await store.grant_lease(ttl)
            await store.put("/busy", b"", lease=lease.id)
            time.sleep(1.2 * ttl)

            assert not lease.lost
            assert (await store.get("/busy")).kv is not None

    await with_time_enough(steady_etcd, 2, story)


async def test_exception_of_the_alive_check_loses_the_lease_with_a_reason(
    steady_etcd: EtcdProcess, spoken: Spoken
) -> None:
    def broken() -> bool:
        raise ZeroDivisionError("broken question")

    async with EtcdStore(spoken.of(steady_etcd), clock=lambda: 0.0) as store:
        lease = await store.grant_lease(2, alive=broken)
        reason = await asyncio.wait_for(lease.wait_lost(), patient(20))

    assert "broken question" in reason


async def test_threads_end_with_their_leases_and_with_the_store(steady_etcd: EtcdProcess, spoken: Spoken) -> None:
    before = lease_threads()
    store = EtcdStore(spoken.of(steady_etcd))
    first, second = await store.grant_lease(60), await store.grant_lease(60)
    during = lease_threads()
    await first.revoke()
    after_one = lease_threads()
    await store.close()

    assert len(during) == len(before) + 2
    assert len(after_one) == len(before) + 1
    assert lease_threads() == before
    assert second.lost
