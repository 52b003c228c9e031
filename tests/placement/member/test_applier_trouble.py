"""The agent's loop goes on when one work, one look or another controller is in its way; and orphans are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.fleet.agent.hosts import running, until
from tests.placement.member.applier_scene import EAST, Agents
from tests.placement.member.member_scene import CONFIG, NAMESPACE, SETTINGS, WEB, P, Q, obj
from wharfinger.errors import AccessDenied, RequestTooLarge, RevisionWentBack, StoreError, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Operation, Read
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import AppliedRecord
from wharfinger.testing.memory_store import MemoryStore

HERE = AppliedRecord(counter=5, identity=7)


@pytest.fixture
def agents() -> Agents:
    return Agents()


async def pass_time(agents: Agents, seconds: float, step: float = 1.0) -> None:
    """Let time pass, and the loop with it."""
    for _ in range(round(seconds / step)):
        agents.clock.advance(step)
        agents.applier._news.set()
        for _ in range(30):
            await asyncio.sleep(0)
        await until(lambda: not agents.applier._busy or all(task.done() for task in agents.applier._busy.values()))


async def fence(agents: Agents) -> int:
    """Changes when an agent takes over."""
    kv = (await agents.member.get(placement_keys.PLACED_AGENT)).kv
    return kv.mod_revision if kv is not None else 0


async def two_works(agents: Agents) -> None:
    await agents.snapshot(1, WEB)
    await agents.work(1)
    await agents.snapshot(1, SETTINGS, placement=Q)
    await agents.work(1, placement=Q)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RequestTooLarge("too large"), AccessDenied("permission denied")], ids=str)
async def test_a_work_that_the_member_refuses_fails_alone(agents: Agents, error: StoreError) -> None:
    def refuse(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if any(one.key == placement_keys.applied(P) and type(one).__name__ == "Put" for one in operations):
            raise error

    await two_works(agents)
    async with agents.serving() as client:
        client.before_txn = refuse
        result = await agents.answered(1)
        assert (result.failed, result.passing, str(error) in result.reason) == (True, False, True)
        assert (await agents.answered(1, Q)).available
        began = await fence(agents)
        client.before_txn = None
        await pass_time(agents, 8)
        await until(lambda: available(agents))
        assert await fence(agents) == began


async def available(agents: Agents, placement: str = P) -> bool:
    found = await agents.result(placement)
    return found is not None and found.available


async def test_a_member_that_denies_everything_ends_the_loop(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    async def denied(_: Sequence[Condition], __: Sequence[Operation]) -> None:
        raise AccessDenied("invalid auth token")

    async def read(key: str, *, revision: int = 0) -> Read:
        raise AccessDenied("invalid auth token")

    await agents.hub.put(placement_keys.member(EAST), agents.record.to_bytes())
    client = agents.member.client()
    async with running(agents.works.run()):
        loop = asyncio.create_task(agents.applier.run(client))
        await until(lambda: agents.works.in_sync and agents.member.revision > 1)
        await asyncio.sleep(0.02)
        client.before_txn = denied
        monkeypatch.setattr(client, "get", read)
        await two_works(agents)
        with pytest.raises(AccessDenied):
            await loop
    assert await agents.result() is None


def silent(agents: Agents, prefix: str, *, amiss: list[bool]) -> None:
    """Reads of the hub's keys with the prefix fail while `amiss` is not empty."""
    store = agents.applier._hub.store
    assert isinstance(store, MemoryStore)
    get = store.get

    async def read(key: str, *, revision: int = 0) -> Read:
        if amiss and key.startswith(prefix):
            amiss.append(True)
            raise Unavailable("no answer")
        return await get(key, revision=revision)

    store.get = read  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "at", [placement_keys.snapshot(P, 1), placement_keys.result(P, EAST)], ids=["contents", "result"]
)
async def test_an_error_of_the_hub_puts_one_look_back(agents: Agents, at: str) -> None:
    await two_works(agents)
    amiss = [True]
    silent(agents, at, amiss=amiss)
    async with agents.serving():
        await agents.answered(1, Q)
        began = await fence(agents)
        await until(lambda: len(amiss) > 1)
        await pass_time(agents, 100)
        assert 6 <= len(amiss) <= 10
        assert await agents.result() is None
        amiss.clear()
        await pass_time(agents, 66)
        assert await available(agents)
        assert await fence(agents) == began


async def test_a_restored_hub_ends_the_loop(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    async def contents(*_: Any) -> Any:
        raise RevisionWentBack("restored")

    await two_works(agents)
    await agents.hub.put(placement_keys.member(EAST), agents.record.to_bytes())
    monkeypatch.setattr(agents.works, "contents", contents)
    async with running(agents.works.run()):
        await until(lambda: agents.works.in_sync)
        with pytest.raises(RevisionWentBack):
            await agents.applier.run(agents.member.client())


# --- orphans --------------------------------------------------------------------------------------


async def test_an_orphan_is_told_when_its_placement_is_known(agents: Agents) -> None:
    await agents.member.put(placement_keys.applied(P), HERE.to_bytes())
    async with agents.serving():
        await until(lambda: P in agents.applier.orphans)
        await agents.hub.put(placement_keys.placement(P), b"{}")
        await pass_time(agents, 12)
        assert (await agents.answered(5)).reason == "it is on the member without a work of the hub's"
        assert agents.applier.orphans == set()


async def test_an_orphan_is_told_when_the_agent_has_its_name(agents: Agents) -> None:
    await agents.member.put(placement_keys.applied(P), HERE.to_bytes())
    await agents.hub.put(placement_keys.placement(P), b"{}")
    async with running(agents.works.run()):
        await until(lambda: agents.works.in_sync)
        async with running(agents.applier.run(agents.member.client())):
            await until(lambda: P in agents.applier._looks.at)
            await agents.hub.put(placement_keys.member(EAST), agents.record.to_bytes())
            await pass_time(agents, 6)
            await agents.answered(5)


async def test_an_orphan_is_told_when_works_are_listed_late(agents: Agents) -> None:
    await agents.member.put(placement_keys.applied(P), HERE.to_bytes())
    await agents.hub.put(placement_keys.placement(P), b"{}")
    await agents.hub.put(placement_keys.member(EAST), agents.record.to_bytes())
    async with running(agents.applier.run(agents.member.client())):
        await until(lambda: P in agents.applier._unlisted)
        async with running(agents.works.run()):
            await agents.answered(5)


async def test_an_orphan_is_looked_at_ever_more_rarely(agents: Agents) -> None:
    looks = 0
    tell = agents.applier._say_orphan

    async def count(placement: str, applied: AppliedRecord) -> bool:
        nonlocal looks
        looks += 1
        return await tell(placement, applied)

    agents.applier._say_orphan = count  # type: ignore[method-assign]
    await agents.member.put(placement_keys.applied(P), HERE.to_bytes())
    async with agents.serving():
        await until(lambda: P in agents.applier.orphans)
        await pass_time(agents, 2_000, step=10)
        assert 7 <= looks <= 11
        await agents.member.delete(placement_keys.applied(P))
        await pass_time(agents, 1_000, step=100)
        assert (agents.applier.orphans, agents.applier._looks.at) == (set(), {})


# --- other controllers ----------------------------------------------------------------------------


async def test_two_that_change_an_object_back_do_so_ever_more_rarely(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.work(1)
    writes = 0

    async def put_back(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        nonlocal writes
        if any(one.key == CONFIG and type(one).__name__ == "Put" for one in operations):
            writes += 1
            await agents.member.put(CONFIG, json.dumps(obj("ConfigMap", "c", data={"a": "mine"})).encode())

    async with agents.serving() as client:
        await agents.answered(1)
        client.after_txn = put_back
        await agents.member.put(CONFIG, json.dumps(obj("ConfigMap", "c", data={"a": "mine"})).encode())
        await pass_time(agents, 120, step=0.2)
        assert 5 <= writes <= 13
        before = writes
        await pass_time(agents, 300)
        assert writes - before <= 6
        client.after_txn = None
        await pass_time(agents, 200)
        assert json.loads((await agents.member.get(CONFIG)).kv.value)["data"] == {"a": "1"}  # type: ignore[union-attr]
        await agents.member.delete(CONFIG)
        await pass_time(agents, 1, step=0.2)
        assert CONFIG in await agents.there()


async def test_what_changed_while_the_watch_was_compacted_is_seen(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.work(1)
    async with agents.serving() as client:
        await agents.answered(1)
        await pass_time(agents, 2)
        client.pause_watches()
        await agents.member.delete(CONFIG)
        await agents.member.put(keys.NAMESPACES + "other", b"{}")
        agents.member.compact(agents.member.revision)
        client.resume_watches()
        await until(lambda: back(agents, {NAMESPACE, CONFIG}))


async def test_a_restored_member_ends_the_loop_and_is_brought_up(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.hub.put(placement_keys.member(EAST), agents.record.to_bytes())
    async with running(agents.works.run()):
        loop = asyncio.create_task(agents.applier.run(agents.member.client()))
        await until(lambda: agents.works.in_sync and agents.member.revision > 1)
        before = agents.member.revision
        await agents.work(1)
        await agents.answered(1)
        agents.member.restore(before)
        with pytest.raises(RevisionWentBack):
            await loop
    again = Agents(agents.hub, agents.member)
    async with again.serving():
        await until(lambda: back(again, {NAMESPACE, CONFIG}))


async def back(agents: Agents, objects: set[str]) -> bool:
    return objects <= await agents.there()


async def test_objects_of_a_look_that_failed_are_watched(agents: Agents) -> None:
    """They may have been written before the look failed."""
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.work(1)

    async def fail(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if any(one.key == NAMESPACE for one in operations):
            raise KeyError("strange")

    async with agents.serving() as client:
        client.after_txn = fail
        result = await agents.answered(1)
        assert (result.failed, result.passing, result.reason) == (True, True, "'strange'")
        assert {NAMESPACE, CONFIG} <= agents.applier._keys.keys()
