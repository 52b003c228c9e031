"""Rooms that are held while plugins are called: their end wakes other pods, and no record of one is left behind."""

from __future__ import annotations

from tests.scheduling.stage import Stage, pod_bytes
from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete, Put
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.records import HoldRecord

KEY = keys.hold("default", "p")


async def hold(stage: Stage, name: str = "p", node: str = "n") -> None:
    """As `bind` does it while plugins are to be called."""
    kv = (await stage.store.get(keys.pod("default", name))).kv
    assert kv is not None
    record = HoldRecord(node=node, create_revision=kv.create_revision, attempt="workflow@run")
    await stage.store.txn([], [Put(keys.hold("default", name), record.to_bytes()), Put(keys.binding(node), b"{}")])


async def is_held(stage: Stage, name: str = "p") -> bool:
    return (await stage.store.get(keys.hold("default", name))).kv is not None


async def removed(stage: Stage) -> None:
    await stage.until(lambda: not stage.cache.held_places)
    assert not await is_held(stage)


async def test_a_room_that_is_given_back_wakes_others_but_not_its_pod() -> None:
    """Else the pod would take it again, to be refused by the same plugin, for ever."""
    async with Stage() as stage:
        await stage.put_node("n", cpu="1")
        await stage.put_pod("p")
        await hold(stage)
        await stage.waiting("rival")
        decided_on = stage.store.revision
        await stage.store.delete(KEY)
        await stage.refuse("p", plugins=("Licences",), snapshot=decided_on)
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()
        assert [(name, wake.event) for name, wake in stage.attempts.woken] == [("rival", "AssignedPodDelete")]


async def test_a_bind_on_the_held_node_wakes_no_pod_for_its_room() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="1")
        await stage.put_pod("p")
        await hold(stage)
        await stage.waiting("rival")
        await stage.store.txn([], [Put(keys.pod("default", "p"), pod_bytes("p", node="n")), Delete(KEY)])
        await stage.caught_up()
        assert stage.attempts.woken == []


async def test_a_held_pod_that_is_bound_wakes_who_may_preempt_it() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="1")
        await stage.put_pod("p")
        await hold(stage)
        await stage.waiting("high", priority=10)
        await stage.caught_up()
        assert stage.attempts.woken == []
        await stage.store.txn([], [Put(keys.pod("default", "p"), pod_bytes("p", node="n")), Delete(KEY)])
        await stage.until(lambda: stage.attempts.woken_names == ["high"])


async def test_a_deleted_pod_leaves_no_record_and_frees_its_room() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="1")
        await stage.put_pod("p")
        await hold(stage)
        await stage.waiting("rival")
        await stage.store.delete(keys.pod("default", "p"))
        await removed(stage)
        await stage.until(lambda: stage.attempts.woken_names == ["rival"])


async def test_a_pod_that_is_bound_or_refused_leaves_no_record() -> None:
    async with Stage() as stage:
        await stage.put_pod("p")
        await hold(stage)
        await stage.applied()
        await stage.put_pod("p", node="n")
        await removed(stage)

        await stage.put_pod("q")
        await hold(stage, "q")
        await stage.refuse("q")
        await stage.until(lambda: not stage.cache.held_places)


async def test_records_of_pods_that_are_gone_are_removed_at_the_start() -> None:
    first = Stage()
    record = HoldRecord(node="n", create_revision=3, attempt="workflow@run")
    await first.store.put(KEY, record.to_bytes())
    async with first:
        await removed(first)


async def test_a_room_that_is_still_held_is_left_alone() -> None:
    async with Stage() as stage:
        await stage.put_pod("p")
        await stage.refuse("p")
        await hold(stage)
        await stage.put_pod("p", labels={"edited": "yes"})
        await stage.caught_up()
        assert await is_held(stage)
        assert stage.cache.held_places[PodKey("default", "p")].node == "n"


async def test_a_record_that_cannot_be_read_holds_nothing() -> None:
    async with Stage() as stage:
        await stage.put_pod("p")
        await stage.store.put(KEY, b"{")
        await stage.caught_up()
        assert not stage.cache.held_places
