"""An agent of many works looks at none twice without a reason, and reads contents once for all members."""

from __future__ import annotations

import pytest

from tests.fleet.agent.hosts import running, until
from tests.placement.member.applier_scene import Agents
from tests.placement.member.member_scene import CONFIG, SETTINGS, WEB, P
from wharfinger.etcd.store import Read
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.member.look_queue import LATEST
from wharfinger.placement.member.member_store import EtcdMember
from wharfinger.placement.member.works import Works
from wharfinger.testing.memory_store import MemoryStore


@pytest.fixture
def agents() -> Agents:
    return Agents()


async def test_an_agents_own_writes_are_no_news(agents: Agents) -> None:
    member = EtcdMember(agents.member.client(), now=lambda: "")
    async with member.watch(1) as batches:
        await agents.member.put(CONFIG, b"{}")
        assert len(member.others(await anext(batches))) == 1
        member._own.add(await agents.member.put(CONFIG, b"{}"))
        assert member.others(await anext(batches)) == []


async def test_a_work_that_was_brought_is_not_looked_at_again_at_once(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.work(1)
    async with agents.serving():
        await agents.answered(1)
        await until(lambda: not agents.applier._busy and not agents.applier._looks.due)
        assert agents.applier._looks.at[P] > agents.clock() + 1


async def test_a_settled_work_rests_when_the_agent_starts_again(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.work(1)
    async with agents.serving():
        await agents.answered(1)
    again = Agents(agents.hub, agents.member, agents.clock, agents.record)
    async with again.serving():
        await until(lambda: P in again.applier._looks.waits)
        assert again.applier._looks.waits[P] >= LATEST / 10


async def test_contents_are_read_once_in_the_life_of_a_placement(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    reads: list[str] = []

    class Counting(MemoryStore):
        async def get(self, key: str, *, revision: int = 0) -> Read:
            reads.append(key)
            return await super().get(key, revision=revision)

    store = object.__new__(Counting)
    store._shared = agents.hub._shared
    store._reset()
    works = Works(store, rng=agents.applier._hub.rng)
    async with running(works.run()):
        await until(lambda: works.in_sync)
        first = await works.contents(P, 1, 7)
        assert [await works.contents(P, 1, 7) for _ in range(3)] == [first] * 3
        assert len(reads) == 2  # the head and its part
        await agents.snapshot(1, WEB)  # of another life of the placement
        assert len(await works.contents(P, 1, 8)) == 1
        assert reads.count(placement_keys.snapshot(P, 1)) == 2
