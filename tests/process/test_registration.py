"""On a real etcd: leases are what this is about."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest

from tests.conftest import EtcdServer
from tests.fleet.agent.hosts import running, until
from tests.patience import patient
from wharfinger.errors import UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Delete
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.process.parts import ProcessParts
from wharfinger.process.registration import SLACK, LeasedName, Registration
from wharfinger.settings import EtcdSettings, LeaseSettings

Register = Callable[..., Registration]
TTL = 20.0
"""Seconds: no agent loses a lease because this process stands still for a while."""
SECONDS = patient(30)


@pytest.fixture
async def store(etcd_server: EtcdServer) -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_server.url,)))
    yield store
    await store.close()


@pytest.fixture
async def register(store: EtcdStore) -> AsyncIterator[Register]:
    made: list[Registration] = []
    host = uuid.uuid4().hex
    named = LeasedName("host", host, keys.host(host), "host", also=[Delete(keys.lost_host(host))])

    def make(pid: int = 1, *, clock: Callable[[], float] = time.monotonic) -> Registration:
        record = HostRecord(boot_id="boot", pid=pid, time="now")
        process = ProcessParts(store, clock=clock, rng=random.Random(1))
        registration = Registration(process, named, record, LeaseSettings(ttl=TTL))
        made.append(registration)
        return registration

    make.key = keys.host(host)  # type: ignore[attr-defined]
    yield make
    for registration in made:
        with suppress(Exception):
            await registration.leave()
    await store.delete(make.key)  # type: ignore[attr-defined]


async def holder(store: EtcdStore, register: Register) -> int:
    kv = (await store.get(register.key)).kv  # type: ignore[attr-defined]
    return HostRecord.model_validate_json(kv.value).pid if kv is not None else 0


async def test_a_host_is_registered_and_leaves(store: EtcdStore, register: Register) -> None:
    registration = register(1)
    await registration.claim()
    assert await holder(store, register) == 1

    await registration.leave()

    assert await holder(store, register) == 0


async def test_a_host_that_is_back_is_not_lost_any_more(store: EtcdStore, register: Register) -> None:
    said = keys.lost_host(register.key.removeprefix(keys.HOSTS))  # type: ignore[attr-defined]
    await store.put(said, b"{}")
    await register().claim()
    assert (await store.get(said)).kv is None


async def test_a_name_that_stays_taken_is_refused(store: EtcdStore, register: Register) -> None:
    first = register(1)
    await first.claim()
    moments = iter(range(0, 10_000, 10))
    async with running(first.run()):
        with pytest.raises(UsageError, match=r"has an agent already \(pid 1 since now\): choose another --host"):
            await register(2, clock=lambda: float(next(moments))).claim()

        assert await holder(store, register) == 1


async def test_a_name_is_taken_over_when_its_lease_is_over(store: EtcdStore, register: Register) -> None:
    first = register(1)
    await first.claim()
    waiting = asyncio.create_task(register(2).claim())
    await asyncio.sleep(0)
    await first.leave()
    async with asyncio.timeout(SECONDS):
        await waiting

    assert await holder(store, register) == 2


async def test_a_record_that_is_lost_is_written_again(store: EtcdStore, register: Register) -> None:
    registration = register(1)
    await registration.claim()
    async with running(registration.run()):
        await store.delete(register.key)  # type: ignore[attr-defined]

        await until(lambda: _held_by(store, register, 1), SECONDS)


async def test_a_lease_that_is_lost_is_followed_by_another(store: EtcdStore, register: Register) -> None:
    registration = register(1)
    await registration.claim()
    lease = registration._lease
    assert lease is not None
    async with running(registration.run()):
        await lease.revoke()

        await until(lambda: _held_by(store, register, 1), SECONDS)
        await until(lambda: registration.registered, SECONDS)


async def test_while_another_has_the_name_it_is_not_registered(store: EtcdStore, register: Register) -> None:
    registration = register(1)
    await registration.claim()
    async with running(registration.run()):
        other = HostRecord(boot_id="boot", pid=2, time="later")
        await store.put(register.key, other.to_bytes())  # type: ignore[attr-defined]

        await until(lambda: not registration.registered, SECONDS)
        assert await holder(store, register) == 2


async def test_agent_that_lost_its_name_to_another_for_good_ends(store: EtcdStore, register: Register) -> None:
    now = [100.0]
    registration = register(1, clock=lambda: now[0])
    await registration.claim()
    kept = asyncio.create_task(registration.run())
    other = HostRecord(boot_id="elsewhere", pid=2, time="later")
    await store.put(register.key, other.to_bytes())  # type: ignore[attr-defined]
    await until(lambda: not registration.registered, SECONDS)
    assert not kept.done()

    now[0] += TTL + SLACK

    with pytest.raises(UsageError, match=r"has an agent already \(pid 2 since later\): choose another --host"):
        await asyncio.wait_for(kept, SECONDS)
    assert await holder(store, register) == 2


async def _held_by(store: EtcdStore, register: Register, pid: int) -> bool:
    return await holder(store, register) == pid
