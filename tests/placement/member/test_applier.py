"""The agent's loop: works are brought when they change, when what is there changes, and again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.fleet.agent.hosts import running, until
from tests.placement.member.applier_scene import EAST, Agents
from tests.placement.member.member_scene import CONFIG, NAMESPACE, SETTINGS, WEB, P, Q, obj
from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Condition, Operation
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord
from wharfinger.placement.member.applier import ceases
from wharfinger.placement.member.look_queue import LATEST, SOONEST, UNSETTLED
from wharfinger.placement.member.member_store import AgentFenced, EtcdMember


@pytest.fixture
def agents() -> Agents:
    return Agents()


async def test_a_work_is_brought_and_its_result_told(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.work(1)
    async with agents.serving():
        result = await agents.answered(1)
        assert (result.since, result.identity, result.applied, result.available) == (1, 7, True, True)
        assert await agents.there() == {NAMESPACE, CONFIG}
        await agents.snapshot(2, WEB)
        await agents.work(2, snapshot=2)
        await agents.answered(2)
        assert await agents.there() == {NAMESPACE}
        await agents.work(3, want="absent")
        assert (await agents.answered(3)).gone
        assert await agents.there() == set()


async def test_works_of_another_identity_are_ignored(agents: Agents) -> None:
    await agents.snapshot(1, WEB)
    await agents.work(1, identity=8)
    await agents.work(1, placement=Q)
    await agents.snapshot(1, SETTINGS, placement=Q)
    async with agents.serving():
        await agents.answered(1, Q)
        assert (await agents.result(), await agents.there()) == (None, {CONFIG})


async def test_a_change_of_what_is_there_is_seen_and_corrected(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.work(1)
    async with agents.serving():
        await agents.answered(1)
        await until(lambda: CONFIG in agents.applier._keys and not agents.applier._busy)
        await agents.member.delete(CONFIG)
        await until(lambda: agents.applier._looks.at[P] < agents.clock() + 1)
        agents.clock.advance(1)
        agents.applier._news.set()

        async def back() -> bool:
            return CONFIG in await agents.there()

        await until(back)


async def test_a_snapshot_that_is_not_there_fails_the_work_only(agents: Agents) -> None:
    await agents.work(1, snapshot=9)
    await agents.snapshot(1, WEB, placement=Q)
    await agents.work(1, placement=Q)
    async with agents.serving():
        result = await agents.answered(1)
        assert (result.failed, result.reason) == (True, "snapshot 9 is not there any more")
        assert (await agents.answered(1, Q)).available


async def test_a_work_that_raises_keeps_no_other(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    await agents.snapshot(1, WEB)
    await agents.work(1)
    await agents.snapshot(1, SETTINGS, placement=Q)
    await agents.work(1, placement=Q)
    bring = agents.applier._bring

    async def strange(member: EtcdMember, placement: str, work: WorkRecord) -> ResultRecord:
        if placement == P:
            raise KeyError("strange")
        return await bring(member, placement, work)

    monkeypatch.setattr(agents.applier, "_bring", strange)
    async with agents.serving():
        assert (await agents.answered(1, Q)).available
        assert (await agents.answered(1)).failed


async def test_at_rest_nothing_is_written(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.work(1)
    async with agents.serving():
        await agents.answered(1)
        await until(lambda: not agents.applier._busy and not agents.applier._looks.due)
        before = agents.hub.revision, agents.member.revision
        member = EtcdMember(agents.member.client(), now=lambda: "")
        member._fence = (await agents.member.get(placement_keys.PLACED_AGENT)).kv.mod_revision  # type: ignore[union-attr]
        for _ in range(3):
            await agents.applier._look(member, P)
        assert (agents.hub.revision, agents.member.revision) == before


async def test_a_settled_work_is_looked_at_ever_more_rarely(agents: Agents) -> None:
    await agents.snapshot(1, WEB)
    await agents.work(1)
    found = await waits(agents, 12)
    assert found[:4] == [SOONEST, 10.0, 20.0, 40.0]
    assert found[-1] == LATEST


async def test_what_is_not_as_it_shall_be_is_looked_at_more_often(agents: Agents) -> None:
    await agents.snapshot(1, obj("Pod", "p", spec={}))
    await agents.work(1)
    assert (await waits(agents, 9))[-2:] == [UNSETTLED, UNSETTLED]


async def waits(agents: Agents, looks: int) -> list[float]:
    """Seconds until the next look, after each one."""
    await agents.hub.put(placement_keys.member(EAST), agents.record.to_bytes())
    agents.works._listed([kv async for page in agents.hub.list(placement_keys.work.prefix) for kv in page.items])
    member = EtcdMember(agents.member, now=lambda: "")
    found = []
    for _ in range(looks):
        await agents.applier._look(member, P)
        found.append(agents.applier._looks.waits[P])
    return found


async def test_an_agent_that_was_replaced_tells_nothing(agents: Agents) -> None:
    await agents.snapshot(1, WEB)
    await agents.work(1)
    await agents.hub.put(placement_keys.member(EAST), agents.record.to_bytes())

    async def replaced(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if any(one.key == placement_keys.result(P, EAST) for one in operations):
            other = agents.record.model_copy(update={"boot_id": "b"})
            await agents.hub.put(placement_keys.member(EAST), other.to_bytes())

    agents.applier._hub.store.before_txn = replaced  # type: ignore[attr-defined]
    for _ in range(2):
        await waits(agents, 1)
        assert await agents.result() is None


@pytest.mark.parametrize("moves", ["work", "result"])
async def test_a_result_is_not_written_over_what_moved(agents: Agents, moves: str) -> None:
    await agents.snapshot(1, WEB)
    await agents.work(1)

    async def move(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if any(one.key == placement_keys.result(P, EAST) for one in operations):
            agents.applier._hub.store.before_txn = None  # type: ignore[attr-defined]
            if moves == "work":
                await agents.work(2)
            else:
                await agents.hub.put(placement_keys.result(P, EAST), ResultRecord(counter=9).to_bytes())

    agents.applier._hub.store.before_txn = move  # type: ignore[attr-defined]
    await waits(agents, 1)
    found = await agents.result()
    assert found is None if moves == "work" else found is not None and found.counter == 9


async def test_the_loop_ends_when_another_agent_takes_over(agents: Agents) -> None:
    await agents.snapshot(1, WEB)
    await agents.hub.put(placement_keys.member(EAST), agents.record.to_bytes())
    async with running(agents.works.run()):
        loop = asyncio.create_task(agents.applier.run(agents.member.client()))
        await until(lambda: agents.works.in_sync and agents.member.revision > 1)
        await agents.member.put(placement_keys.PLACED_AGENT, b"{}")
        await agents.work(1)
        with pytest.raises(AgentFenced):
            await loop
    assert await agents.there() == set()


async def test_the_loop_ends_with_the_members_etcd_and_begins_anew(agents: Agents) -> None:
    await agents.snapshot(1, WEB, SETTINGS)
    await agents.hub.put(placement_keys.member(EAST), agents.record.to_bytes())
    async with running(agents.works.run()):
        client = agents.member.client()
        loop = asyncio.create_task(agents.applier.run(client))
        await until(lambda: agents.works.in_sync and agents.member.revision > 1)
        client.fail_next(applied=True)
        await agents.work(1)
        with pytest.raises(Unavailable):
            await loop
    again = Agents(agents.hub, agents.member)
    async with again.serving():
        assert (await again.answered(1)).available


SAID = {"counter": 1, "since": 1, "identity": 7}
READY = ResultRecord(**SAID, applied=True, available=True)


@pytest.mark.parametrize(
    ("before", "now", "lost"),
    [
        ({"available": True}, {"available": True}, False),
        ({"available": True}, {}, True),
        ({"available": True}, {"failed": True}, True),
        ({"available": True}, {"reported": True}, False),
        ({"reported": True}, {"failed": True}, True),
        ({"available": True}, {"available": True, "untrackable": True}, True),
        ({"available": True, "untrackable": True}, {"available": True}, False),
        ({"available": True, "untrackable": True}, {"available": True, "untrackable": True}, False),
        ({"available": True, "untrackable": True}, {"available": True, "untrackable": True, "since": 2}, True),
        ({}, {"failed": True}, False),
        ({"failed": True}, {"available": True}, False),
    ],
)
def test_a_loss_is_what_can_be_counted_on_no_longer(before: Any, now: Any, *, lost: bool) -> None:
    assert ceases(ResultRecord(**{**SAID, **before}), ResultRecord(**{**SAID, **now})) is lost


async def test_a_loss_is_written_with_the_result(agents: Agents) -> None:
    await agents.snapshot(1, WEB)
    await agents.work(1)
    await agents.hub.put(placement_keys.result(P, EAST), READY.to_bytes())
    await waits(agents, 1)
    assert await agents.losses() == 0
    await agents.hub.put(placement_keys.snapshot(P, 1), b"{")
    await waits(agents, 1)
    kv = (await agents.hub.get(placement_keys.result(P, EAST))).kv
    assert kv is not None
    assert await agents.losses() == kv.mod_revision
