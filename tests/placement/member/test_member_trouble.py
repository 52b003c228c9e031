"""The agent of a member goes on whatever goes wrong on the way, and says what it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.agent.hosts import until
from tests.placement.member.agents import agent, put_member, serving, status, there
from wharfinger.errors import AccessDenied, ConfigurationError, StoreError, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Page, Read, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import MemberStatusRecord
from wharfinger.placement.member import member_agent
from wharfinger.placement.member.joining import JoinToken, hub_id, join, leave
from wharfinger.process.parts import ProcessParts
from wharfinger.programs.member import MemberAgents
from wharfinger.programs.process_settings import MemberAgentSettings
from wharfinger.testing.memory_store import MemoryStore


@pytest.fixture
def hub() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def member() -> MemoryStore:
    return MemoryStore()


@contextmanager
def failing(store: MemoryStore, prefix: str, error: StoreError) -> Iterator[None]:
    """Reads of keys with the prefix fail by this client."""
    get = store.get

    async def read(key: str, *, revision: int = 0) -> Read:
        if key.startswith(prefix):
            raise error
        return await get(key, revision=revision)

    store.get = read  # type: ignore[method-assign]
    try:
        yield
    finally:
        store.get = get  # type: ignore[method-assign]


async def conditions(hub: MemoryStore) -> dict[str, Any]:
    """The conditions of the member's agent, by type."""
    kv = (await hub.get(placement_keys.member_status("east"))).kv
    if kv is None:
        return {}
    told = MemberStatusRecord.model_validate_json(kv.value).status
    return {one["type"]: one for one in told["agentStatus"][0]["conditions"]}


async def token_of(member: MemoryStore) -> JoinToken | None:
    kv = (await member.get(placement_keys.PLACED_MEMBER)).kv
    return JoinToken.model_validate_json(kv.value) if kv is not None else None


async def test_files_that_cannot_be_used_are_told_and_tried_again(hub: MemoryStore, member: MemoryStore) -> None:
    mended = False

    async def connect() -> Store:
        if not mended:
            raise ConfigurationError("cannot use the certificates")
        return member.client()

    one = agent(hub, connect)
    async with serving(one):
        await put_member(hub)
        await until(lambda: there(hub, placement_keys.member_status("east")))
        told = await conditions(hub)
        assert (told["Joined"]["status"], told["Joined"]["reason"]) == ("Unknown", "MemberClusterJoinStateUnknown")
        assert told["Healthy"]["message"] == one.state == "its etcd: cannot use the certificates"
        mended = True
        await until(lambda: one.state == "ok")


async def test_an_agent_that_cannot_leave_goes_on(hub: MemoryStore, member: MemoryStore) -> None:
    usable = True

    async def connect() -> Store:
        if not usable:
            raise ConfigurationError("cannot use the certificates")
        return member.client()

    one = agent(hub, connect)
    async with serving(one):
        await put_member(hub)
        await until(lambda: one.state == "ok")
        usable = False
        await hub.delete(placement_keys.member_cluster("east"))
        await until(lambda: one.state.startswith("has no"))
        await asyncio.sleep(0.1)
        usable = True
        await until(lambda: _gone(member))
        await put_member(hub)
        await until(lambda: one.state == "ok")


async def _gone(member: MemoryStore) -> bool:
    return await token_of(member) is None


async def test_keys_that_are_no_text_are_left_out(hub: MemoryStore, member: MemoryStore) -> None:
    await member.put(keys.NAMESPACES + "x\udcff", b"{}")
    await member.put(keys.NAMESPACES + "y", b"{}")
    async with serving(agent(hub, member)):
        await put_member(hub)
        await until(lambda: there(hub, placement_keys.member_status("east")))
        kv = (await hub.get(placement_keys.member_status("east"))).kv
        assert kv is not None
        assert MemberStatusRecord.model_validate_json(kv.value).status["namespaces"] == {"y": ""}


async def test_what_nobody_thought_of_begins_the_following_anew(
    hub: MemoryStore, member: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, amiss = member_agent.MemberUsage.listed, [True]

    def once(self: member_agent.MemberUsage, *given: Any) -> None:
        if amiss:
            amiss.pop()
            raise KeyError("amiss")
        listed(self, *given)

    monkeypatch.setattr(member_agent.MemberUsage, "listed", once)
    one = agent(hub, member)
    async with serving(one):
        await put_member(hub)
        await until(lambda: one.state == "its etcd: KeyError('amiss')")
        await until(lambda: one.state == "ok")
        await until(lambda: there(hub, placement_keys.member_status("east")))


async def test_an_agent_that_ends_is_started_again(
    hub: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "east.yaml").write_text("etcd: [http://a:1]")
    (tmp_path / "east.yaml").chmod(0o400)
    runs: list[str] = []

    async def run(self: member_agent.MemberReporter) -> None:
        runs.append(self.name)
        if len(runs) == 1:
            raise RuntimeError("amiss")
        await asyncio.sleep(60)

    monkeypatch.setattr(member_agent.MemberReporter, "run", run)
    monkeypatch.setattr("wharfinger.programs.member.AGAIN", 0.01)
    stop = asyncio.Event()
    serve = asyncio.create_task(
        MemberAgents(MemberAgentSettings(members_dir=tmp_path), ProcessParts(hub.client())).run(stop)
    )
    await until(lambda: len(runs) == 2)
    stop.set()
    await serve


async def test_a_failed_read_of_the_hub_gives_nothing_up(hub: MemoryStore, member: MemoryStore) -> None:
    one, connections = agent(hub, member), 0
    connect = one._connect

    async def counted() -> Store:
        nonlocal connections
        connections += 1
        return await connect()

    one._connect = counted
    store = one._hub.store
    assert isinstance(store, MemoryStore)
    async with serving(one):
        await put_member(hub)
        await until(lambda: there(hub, placement_keys.member_status("east")))
        before = (await hub.get(placement_keys.member("east"))).kv
        assert before is not None
        with failing(store, placement_keys.member_cluster.prefix, Unavailable("no answer")):
            await asyncio.sleep(0.1)
        with failing(store, placement_keys.member.prefix, Unavailable("no answer")):
            await member.put(keys.NAMESPACES + "new", b"{}")
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)
        after = (await hub.get(placement_keys.member("east"))).kv
        assert after is not None
        assert (after.create_revision, connections) == (before.create_revision, 1)


async def test_a_token_stays_owed_until_the_member_answers(hub: MemoryStore, member: MemoryStore) -> None:
    answers = True

    async def connect() -> Store:
        if not answers:
            raise Unavailable("no answer")
        return member.client()

    one = agent(hub, connect)
    async with serving(one):
        await put_member(hub)
        await until(lambda: one.state == "ok")
        answers = False
        await hub.delete(placement_keys.member_cluster("east"))
        await asyncio.sleep(0.2)
        answers = True
        await until(lambda: _gone(member))


async def test_a_process_that_starts_late_gives_the_token_back(hub: MemoryStore, member: MemoryStore) -> None:
    await join(member, JoinToken(hub=await hub_id(hub), name="east", identity=7))
    connections = 0

    async def connect() -> Store:
        nonlocal connections
        connections += 1
        return member.client()

    async with serving(agent(hub, connect)):
        await until(lambda: _gone(member))
        await asyncio.sleep(0.3)
    assert connections == 1


async def test_tokens_of_others_are_not_given_back(hub: MemoryStore, member: MemoryStore) -> None:
    other = JoinToken(hub=await hub_id(hub), name="west", identity=7)
    await join(member, other)
    async with serving(agent(hub, member)):
        await asyncio.sleep(0.1)
        assert await token_of(member) == other


async def test_a_lost_token_is_put_again(hub: MemoryStore, member: MemoryStore) -> None:
    one = agent(hub, member)
    async with serving(one):
        identity = await put_member(hub)
        await until(lambda: one.state == "ok")
        await member.delete(placement_keys.PLACED_MEMBER)
        await until(lambda: there(member, placement_keys.PLACED_MEMBER))
        assert await token_of(member) == JoinToken(hub=await hub_id(hub), name="east", identity=identity)


async def test_another_hubs_token_is_told_when_it_comes(hub: MemoryStore, member: MemoryStore) -> None:
    one = agent(hub, member)
    async with serving(one):
        await put_member(hub)
        await until(lambda: one.state == "ok")
        await member.put(placement_keys.PLACED_MEMBER, JoinToken(hub="other", name="east").to_bytes())
        await until(lambda: one.state == "JoinConflict: the cluster is a member of another hub")

        async def told() -> bool:
            joined = (await conditions(hub)).get("Joined", {})  # nothing is reported yet at first
            return joined.get("reason") == "MemberClusterJoinConflict"

        await until(told)


async def test_a_next_lifes_token_is_not_taken_away(member: MemoryStore) -> None:
    old, new = (JoinToken(hub="h", name="east", identity=identity) for identity in (3, 8))

    async def gone() -> bool:
        return True

    async def gone_and_back() -> bool:
        assert await join(member, new) == ""
        return True

    assert await join(member, old) == ""
    await leave(member, old, gone_and_back)
    assert await token_of(member) == new
    await leave(member, old, gone)
    assert await token_of(member) == new
    assert await join(member, old) == ""
    assert await token_of(member) == new
    await leave(member, new, gone)
    assert await token_of(member) is None


async def test_a_token_of_an_earlier_release_is_of_any_life(member: MemoryStore) -> None:
    await member.put(placement_keys.PLACED_MEMBER, b'{"hub":"h","name":"east"}')

    async def gone() -> bool:
        return True

    await leave(member, JoinToken(hub="h", name="east", identity=3), gone)
    assert await token_of(member) is None


class Denied(MemoryStore):
    """Lists nothing."""

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        raise AccessDenied("permission denied")
        yield


async def test_rights_that_are_missing_are_told(hub: MemoryStore) -> None:
    one = agent(hub, Denied())
    async with serving(one):
        await put_member(hub)
        await until(lambda: there(hub, placement_keys.member_status("east")))
        told = await conditions(hub)
        assert (told["Joined"]["status"], told["Healthy"]["status"]) == ("True", "False")
        assert told["Healthy"]["message"].endswith(": permission denied")
        assert "does not list" in one.state


class Silent(MemoryStore):
    """Lists for ever."""

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        await asyncio.sleep(3600)
        yield Page([], 1)


async def test_a_list_that_takes_long_delays_no_status(hub: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_agent, "UNKNOWN_AFTER", 0.05)
    async with serving(agent(hub, Silent())):
        await put_member(hub)
        await until(lambda: there(hub, placement_keys.member_status("east")))
        assert await status(hub) == {"Joined": "True", "Healthy": "True", "nodes": ""}
        kv = (await hub.get(placement_keys.member_status("east"))).kv
        assert kv is not None
        assert [one["status"] for one in json.loads(kv.value)["status"]["conditions"]] == ["False"]
