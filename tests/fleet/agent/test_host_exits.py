from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.agent.hosts import COMMAND, FIRST, NOON, SECOND, exit_of, grant, revoke, running, until
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Operation
from wharfinger.fleet.agent.host_exits import HostExits, end_instances, exit_record
from wharfinger.fleet.contracts.fleet_records import stored
from wharfinger.fleet.model.fleet import Exit
from wharfinger.process.children.runtime import Ending
from wharfinger.process.parts import ProcessParts
from wharfinger.testing.fake_runtime import FakeRuntime
from wharfinger.testing.memory_store import MemoryStore, TxnHook


def first(before: Callable[[], Coroutine[Any, Any, None]]) -> TxnHook:
    """Runs before the first transaction that compares something."""
    done = False

    async def hook(compares: Sequence[Condition], _: Sequence[Operation]) -> None:
        nonlocal done
        if compares and not done:
            done = True
            await before()

    return hook


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def runtime(tmp_path: Path) -> FakeRuntime:
    return FakeRuntime(tmp_path)


@pytest.fixture
def exits(store: MemoryStore, runtime: FakeRuntime) -> HostExits:
    return HostExits(ProcessParts(store, rng=random.Random(1), utc_now=lambda: NOON), runtime, "here")


async def test_an_end_is_recorded_while_its_grant_is_there(
    store: MemoryStore, runtime: FakeRuntime, exits: HostExits
) -> None:
    await grant(store)
    await runtime.start(FIRST, COMMAND)
    await runtime.start(SECOND, COMMAND)  # without a grant
    async with running(exits.run()):
        runtime.end(SECOND, "code", 1)
        runtime.end(FIRST, "code", 1)
        await until(lambda: not exits.waiting and runtime.running() == [])
        await until(lambda: _written(store))

    assert await exit_of(store) == Exit(how="code", detail="exit code 1", time="2026-01-01T12:00:00+00:00")
    assert await exit_of(store, SECOND) is None


async def test_registration_of_an_ended_instance_does_not_count(
    store: MemoryStore, runtime: FakeRuntime, exits: HostExits
) -> None:
    """Its lease would keep it for seconds, and with it the shard of a dead worker."""
    await grant(store)
    mine, other = (keys.instance(FIRST.tenant, str(FIRST.slot), number) for number in (FIRST.incarnation, 99))
    for key in (mine, other):
        await store.put(key, b"{}")
    await runtime.start(FIRST, COMMAND)
    async with running(exits.run()):
        runtime.end(FIRST, "code", 1)
        await until(lambda: _written(store))

    assert (await store.get(mine)).kv is None
    assert (await store.get(other)).kv is not None


async def _written(store: MemoryStore) -> bool:
    return await exit_of(store) is not None


async def test_an_end_is_kept_until_etcd_answers(store: MemoryStore, runtime: FakeRuntime, exits: HostExits) -> None:
    await grant(store)
    await runtime.start(FIRST, COMMAND)
    store.fail_next(applied=False, times=2)
    async with running(exits.run()):
        runtime.end(FIRST, "signal", 11)
        await until(lambda: exits.pending(FIRST))
        await until(lambda: _written(store))
        await until(lambda: not exits.pending(FIRST))

    exited = await exit_of(store)
    assert exited is not None
    assert exited.detail == "SIGSEGV"


async def test_the_first_record_stays(store: MemoryStore, exits: HostExits) -> None:
    await grant(store)
    await store.put(keys.exited(*FIRST), stored(Exit(how="probe")))
    exits.add([Ending(FIRST, "unknown")])
    async with running(exits.run()):
        await until(lambda: not exits.waiting)

    exited = await exit_of(store)
    assert exited is not None
    assert exited.how == "probe"


async def test_a_grant_that_turns_to_drain_meanwhile_makes_the_end_planned(
    store: MemoryStore, exits: HostExits
) -> None:
    await grant(store)
    store.before_txn = first(lambda: grant(store.client(), want="drain"))
    exits.add([Ending(FIRST, "code", 0)])
    async with running(exits.run()):
        await until(lambda: _written(store))

    exited = await exit_of(store)
    assert exited is not None
    assert (exited.how, exited.planned) == ("drained", True)


async def test_a_grant_that_is_deleted_meanwhile_leaves_no_record(store: MemoryStore, exits: HostExits) -> None:
    await grant(store)
    store.before_txn = first(lambda: revoke(store.client()))
    exits.add([Ending(FIRST, "code", 0)])
    async with running(exits.run()):
        await until(lambda: not exits.waiting)

    assert await exit_of(store) is None


async def test_a_grant_of_another_host_is_not_ours_to_end(store: MemoryStore, exits: HostExits) -> None:
    await grant(store, host="elsewhere")
    exits.add([Ending(FIRST, "code", 0)])
    async with running(exits.run()):
        await until(lambda: not exits.waiting)

    assert await exit_of(store) is None


async def test_settle_records_an_end_that_was_just_reported(
    store: MemoryStore, runtime: FakeRuntime, exits: HostExits
) -> None:
    await grant(store)
    await runtime.start(FIRST, COMMAND)
    async with running(exits.run()):
        runtime.end(FIRST, "code", 7)
        await exits.settle(FIRST)

        exited = await exit_of(store)
        assert exited is not None
        assert exited.detail == "exit code 7"


@pytest.mark.parametrize(
    ("ending", "more", "how", "detail"),
    [
        (Ending(FIRST, "code", 0), {"planned": True}, "drained", ""),
        (Ending(FIRST, "code", 0), {}, "code", "exit code 0"),
        (Ending(FIRST, "code", 3, 0, "the grant is gone"), {}, "code", "exit code 3: the grant is gone"),
        (Ending(FIRST, "signal", 9), {"planned": True}, "signal", "SIGKILL"),
        (Ending(FIRST, "signal", 9), {"blamed": "/livez failed"}, "probe", "/livez failed"),
        (Ending(FIRST, "signal", 99), {}, "signal", "signal 99"),
        (Ending(FIRST, "unknown"), {"planned": True}, "drained", ""),
        (Ending(FIRST, "unknown"), {}, "signal", "it ended while no agent looked"),
        (None, {"lived": False}, "never-started", "it was ended before it began"),
        (None, {}, "signal", "it ended while no agent looked"),
    ],
)
def test_exit_record_names_how_the_process_ended(
    ending: Ending | None, more: dict[str, Any], how: str, detail: str
) -> None:
    told = {"planned": False, "lived": True, "blamed": "", **more}

    record = exit_record(ending, time=NOON, **told)

    assert (record.how, record.detail) == (how, detail)


# --- the agent stops -------------------------------------------------------------------------------


async def test_instances_that_end_with_their_agent_have_not_crashed(tmp_path: Path) -> None:
    store, runtime = MemoryStore(), FakeRuntime(tmp_path)
    exits = HostExits(ProcessParts(store, rng=random.Random(1), utc_now=lambda: NOON), runtime, "here")
    for instance in (FIRST, SECOND):
        await grant(store, instance)
        await runtime.start(instance, COMMAND)
    runtime.stubborn.add(SECOND)
    async with running(exits.run()):
        await end_instances(runtime, exits, 1.0)

    ends = [await exit_of(store, instance) for instance in (FIRST, SECOND)]
    assert [(end.how, end.planned) for end in ends if end is not None] == [("drained", True), ("signal", True)]
