"""Which objects of members, and which records of evictions, a hub removes."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.fleet.agent.hosts import until
from tests.placement.objects import eviction_object, pick, placement_object, status_record
from tests.placement.scene import HubScene
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import EvictionRecord
from wharfinger.placement.hub.leavers import UNREACHABLE, Leavers
from wharfinger.process.parts import ProcessParts

LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SICK = {"agentStatus": [{"type": "MemberAgent", "conditions": [{"type": "Healthy", "status": "False"}]}]}


def leavers(scene: HubScene) -> Leavers:
    return Leavers(ProcessParts(scene.store, clock=scene.clock), scene.view, mine=lambda key: True, every=0.001)


async def leaving_and_silent() -> tuple[HubScene, int]:
    """A member `a` that leaves, has a work and does not answer; its identity."""
    scene = HubScene()
    identity = await scene.member("a", **LEAVING)
    await scene.put(placement_object(**pick(1)))
    await scene.see()
    await scene.work("a")
    await scene.store.put(placement_keys.member_status("a"), status_record(identity, **SICK))
    await scene.see()
    return scene, identity


async def there(scene: HubScene) -> set[str]:
    return {
        kv.key.rpartition("/")[2]
        async for page in scene.store.list(placement_keys.member_cluster.prefix)
        for kv in page.items
    }


async def test_finalizers_that_are_none_keep_no_other_member(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = HubScene()
    await scene.member("a", **LEAVING, finalizers="mine")
    await scene.member("b", **LEAVING)
    await scene.see()

    async def only_a() -> bool:
        return await there(scene) == {"a"}

    task = asyncio.create_task(leavers(scene).run())
    await until(only_a)
    await asyncio.sleep(0.05)
    assert not task.done()
    task.cancel()
    assert await only_a()
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_a_member_that_cannot_be_removed_keeps_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = HubScene()
    for name in "abc":
        await scene.member(name, **LEAVING)
    await scene.see()
    found, remove = leavers(scene), Leavers._remove

    async def amiss(self: Leavers, name: str, one: object) -> None:
        if name == "b":
            raise RuntimeError("amiss")
        await remove(self, name, one)  # type: ignore[arg-type]

    monkeypatch.setattr(Leavers, "_remove", amiss)
    with caplog.at_level(logging.ERROR):
        await found.look()
        await found.look()
    assert await there(scene) == {"b"}
    assert len([one for one in caplog.records if one.levelno >= logging.ERROR]) == 1


async def test_a_member_that_does_not_answer_goes_after_a_quarter_of_an_hour() -> None:
    scene, _ = await leaving_and_silent()
    found = leavers(scene)
    await found.look()
    scene.clock.advance(UNREACHABLE - 1)
    await found.look()
    assert await there(scene) == {"a"}
    scene.clock.advance(2)
    await found.look()
    assert await there(scene) == set()


async def test_a_member_that_answers_again_is_waited_for() -> None:
    scene, identity = await leaving_and_silent()
    found = leavers(scene)
    await found.look()
    await scene.store.put(placement_keys.member_status("a"), status_record(identity))
    await scene.see()
    scene.clock.advance(UNREACHABLE + 1)
    await found.look()
    assert await there(scene) == {"a"}


async def test_the_record_of_an_eviction_goes_with_its_object() -> None:
    scene = HubScene()
    await scene.put(eviction_object("kept", "nothing", "a"))
    await scene.store.put(placement_keys.PLACEMENT_EVICTIONS + "unreadable", b"{")
    for name in ("kept", "unreadable", "gone"):
        record = EvictionRecord(valid=True, executed=True, message="", identity=1)
        await scene.store.put(placement_keys.evicted(name), record.to_bytes())
    await scene.see()
    await leavers(scene).look()
    left = [
        kv.key.rpartition("/")[2] async for page in scene.store.list(placement_keys.evicted.prefix) for kv in page.items
    ]
    assert left == ["kept", "unreadable"]
