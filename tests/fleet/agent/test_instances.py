from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.fleet.agent.hosts import COMMAND, FIRST, SECOND, grant, revoke, running, until
from wharfinger.etcd import keys
from wharfinger.fleet.agent.instances import HostGrants, instance_of
from wharfinger.testing.fake_runtime import FakeRuntime
from wharfinger.testing.memory_store import MemoryStore


@pytest.fixture
def runtime(tmp_path: Path) -> FakeRuntime:
    return FakeRuntime(tmp_path)


def grants(store: MemoryStore, runtime: FakeRuntime) -> HostGrants:
    return HostGrants(store, runtime, "here", rng=random.Random(1))


async def test_an_instance_whose_grant_goes_is_ended_and_forgotten(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    for instance in (FIRST, SECOND):
        await grant(store, instance)
        await runtime.start(instance, COMMAND)
    following = grants(store, runtime)
    async with running(following.run()):
        await following.synced.wait()
        await revoke(store)
        await until(lambda: not runtime.lived(FIRST))

        assert [process.id for process in runtime.running()] == [SECOND]


async def test_a_stubborn_one_is_killed(runtime: FakeRuntime) -> None:
    runtime.stubborn.add(FIRST)
    await runtime.start(FIRST, COMMAND)
    async with running(grants(MemoryStore(), runtime).run()):
        await until(lambda: runtime.running() == [])


async def test_orphans_without_a_grant_are_ended_and_their_exits_forgotten(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    third = FIRST._replace(incarnation=3)
    runtime.left_running, runtime.left_ended = {FIRST, SECOND}, {third}
    await runtime.adopt()
    await grant(store, SECOND)
    async with running(grants(store, runtime).run()):
        await until(lambda: not runtime.lived(FIRST) and not runtime.lived(third))

        assert [process.id for process in runtime.running()] == [SECOND]


async def test_what_ended_is_kept_while_its_grant_is_there(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    await grant(store)
    await runtime.start(FIRST, COMMAND)
    runtime.end(FIRST, "code", 1)
    following = grants(store, runtime)
    async with running(following.run()):
        await following.synced.wait()
        await following.look()
        assert runtime.lived(FIRST)

        await revoke(store)
        await until(lambda: not runtime.lived(FIRST))


async def test_one_whose_grant_names_another_host_is_ended(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    await grant(store, host="elsewhere")
    await runtime.start(FIRST, COMMAND)
    async with running(grants(store, runtime).run()):
        await until(lambda: runtime.running() == [])


async def test_a_process_younger_than_the_watch_is_not_ended(runtime: FakeRuntime) -> None:
    """Its grant was put after the list, and the watch has not shown it: it is read before anything is done."""
    store = MemoryStore()
    following = grants(store, runtime)
    await grant(store)
    await runtime.start(FIRST, COMMAND)

    await following.look()
    await asyncio.gather(*following._ending.values())

    assert [process.id for process in runtime.running()] == [FIRST]


async def test_unreadable_grant_ends_no_instance(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    await store.put(keys.grant(*FIRST), b"{")
    await runtime.start(FIRST, COMMAND)
    following = grants(store, runtime)
    async with running(following.run()):
        await following.synced.wait()
        await following.look()

        assert [process.id for process in runtime.running()] == [FIRST]


@pytest.mark.parametrize(
    "key", ["common/hand-host-1f/1", "common/0", "common/0/x", "common/0/" + "9" * 30, "common/²/1"]
)
def test_keys_of_others_name_no_instance(key: str) -> None:
    assert instance_of(keys.GRANTS + key, keys.GRANTS) is None
