"""The agent of a member, on two stores in memory: joining, reporting, standing by, leaving."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.fleet.agent.hosts import until
from tests.placement.member.agents import agent, put_member, serving, status, there
from wharfinger.etcd import keys
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import MemberRecord, MemberStatusRecord
from wharfinger.placement.member.joining import JoinToken, hub_id
from wharfinger.testing.builders import node_manifest
from wharfinger.testing.memory_store import MemoryStore


@pytest.fixture
def hub() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def member() -> MemoryStore:
    return MemoryStore()


async def test_a_member_joins_registers_and_reports(hub: MemoryStore, member: MemoryStore) -> None:
    await member.put(keys.node("n1"), json.dumps(node_manifest("n1")).encode())
    async with serving(agent(hub, member)):
        await asyncio.sleep(0)
        identity = await put_member(hub)

        async def reported() -> bool:
            return await status(hub) == {"Joined": "True", "Healthy": "True", "nodes": "1"}

        await until(reported)
        kv = (await hub.get(placement_keys.member("east"))).kv
        assert kv is not None
        assert kv.lease
        assert MemberRecord.model_validate_json(kv.value).identity == identity
        token = (await member.get(placement_keys.PLACED_MEMBER)).kv
        assert token is not None
        assert JoinToken.model_validate_json(token.value) == JoinToken(
            hub=await hub_id(hub), name="east", identity=identity
        )
        await member.put(keys.node("n2"), json.dumps(node_manifest("n2")).encode())

        async def two() -> bool:
            return (await status(hub))["nodes"] == "2"

        await until(two)
    assert (await hub.get(placement_keys.member("east"))).kv is None


async def test_at_rest_nothing_is_written(hub: MemoryStore, member: MemoryStore) -> None:
    async with serving(agent(hub, member)):
        await put_member(hub)
        await until(lambda: there(hub, placement_keys.member_status("east")))

        async def at_rest() -> bool:
            before = (await hub.get("x")).revision, (await member.get("x")).revision
            await asyncio.sleep(0.3)  # fifteen reports
            return ((await hub.get("x")).revision, (await member.get("x")).revision) == before

        await until(at_rest)


async def test_another_hubs_member_is_not_joined(hub: MemoryStore, member: MemoryStore) -> None:
    await member.put(placement_keys.PLACED_MEMBER, JoinToken(hub="other", name="east").to_bytes())
    one = agent(hub, member)
    async with serving(one):
        await put_member(hub)
        await until(lambda: there(hub, placement_keys.member_status("east")))
        assert (await status(hub))["Joined"] == "False"
        assert one.state == "JoinConflict: the cluster is a member of another hub"


async def test_one_etcd_under_two_names_is_not_joined_twice(hub: MemoryStore, member: MemoryStore) -> None:
    one, other = agent(hub, member), agent(hub, member, "west")
    async with serving(one):
        await put_member(hub)
        await until(lambda: one.state == "ok")
        async with serving(other):
            await put_member(hub, "west")
            await until(lambda: there(hub, placement_keys.member_status("west")))
            assert other.state == "JoinConflict: the cluster is a member under the name east"


async def test_the_hub_is_no_member_of_itself(hub: MemoryStore) -> None:
    one = agent(hub, hub)
    async with serving(one):
        await put_member(hub)
        await until(lambda: there(hub, placement_keys.member_status("east")))
        assert one.state == "JoinConflict: this is the etcd of the hub itself"


async def test_a_member_that_does_not_answer_is_unhealthy_and_keeps_what_it_had(hub: MemoryStore) -> None:
    identity = await put_member(hub)
    had = MemberStatusRecord(identity=identity, status={"properties": {"p": {"value": "7"}}, "agentStatus": []})
    await hub.put(placement_keys.member_status("east"), had.to_bytes())
    async with serving(agent(hub, None)):

        async def told() -> bool:
            kv = (await hub.get(placement_keys.member_status("east"))).kv
            assert kv is not None
            found = MemberStatusRecord.model_validate_json(kv.value).status
            return bool(found["agentStatus"]) and found["properties"] == {"p": {"value": "7"}}

        await until(told)
        assert (await status(hub))["Healthy"] == "False"


async def test_a_second_agent_stands_by_and_takes_over(hub: MemoryStore, member: MemoryStore) -> None:
    await put_member(hub)
    first, second = agent(hub, member), agent(hub, member)
    async with serving(second):
        await until(lambda: second.state == "ok")
        async with serving(first):
            await until(lambda: first.state.startswith("stands by"))
            kv = (await hub.get(placement_keys.member("east"))).kv
            assert kv is not None
            hub.drop_lease(kv.lease)
            await until(lambda: there(hub, placement_keys.member("east")))


async def test_a_member_that_left_gives_its_token_back(hub: MemoryStore, member: MemoryStore) -> None:
    one = agent(hub, member)
    async with serving(one):
        await put_member(hub)
        await until(lambda: one.state == "ok")
        await hub.delete(placement_keys.member_cluster("east"))

        async def left() -> bool:
            return not await there(member, placement_keys.PLACED_MEMBER) and not await there(
                hub, placement_keys.member("east")
            )

        await until(left)
        identity = await put_member(hub)

        async def joined_again() -> bool:
            kv = (await hub.get(placement_keys.member("east"))).kv
            return kv is not None and MemberRecord.model_validate_json(kv.value).identity == identity

        await until(joined_again)


async def test_a_member_that_was_restored_is_read_anew(hub: MemoryStore, member: MemoryStore) -> None:
    async with serving(agent(hub, member)):
        await put_member(hub)

        async def has(nodes: str) -> bool:
            return (await status(hub)).get("nodes") == nodes

        await until(lambda: has("0"))
        before = (await member.client().get("x")).revision
        await member.put(keys.node("n1"), json.dumps(node_manifest("n1")).encode())
        await until(lambda: has("1"))
        member.restore(before)
        await until(lambda: has("0"))
