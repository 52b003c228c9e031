"""Preemption in a cluster of rk8s: nominations are in attempt records alone, and no document says anything of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.patience import patient
from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Rk8sCluster
from tests.rk8s.rk8s_world import Rk8sWorld
from tests.scheduling.effects.refusing.test_preemption import CALM, evict, eviction, nominate
from tests.scheduling.world import Hand
from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete, Get
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.eviction import Evicted
from wharfinger.scheduling.contracts.scheduling import Gone, Recorded, Refused

HIGH = PodKey("default", "high")


async def full(world: Rk8sWorld, *low: str, name: str = "node-1", priority: int = 1) -> None:
    """A node of as many CPUs as it has pods of low priority, each of one CPU."""
    await world.put(docs.node(name, cpu=str(len(low))))
    await world.put(*(docs.pod(pod, cpu="1", memory="1Mi", priority=priority, node_name=name) for pod in low))


async def preemptor(
    world: Rk8sWorld, hand: Hand, name: str = "high", *, priority: int = 10, cpu: str = "1", **more: Any
) -> Refused:
    """A pending pod of a higher priority, refused with victims."""
    await world.put(docs.pod(name, cpu=cpu, memory="1Mi", priority=priority, **more))
    await world.seen()
    return await hand.refused(name)


async def documents(world: Rk8sWorld) -> Mapping[str, bytes]:
    return {kv.key: kv.value async for page in world.store.list(keys.PODS) for kv in page.items}


async def history(world: Rk8sWorld, name: str) -> list[str]:
    """What happened to a pod: `put` or `delete`, once for each revision."""
    found: list[str] = []
    async with world.store.watch(f"/registry/pods/{name}", 1) as batches:
        async for batch in batches:
            found += ["delete" if event.deleted else "put" for event in batch.events]
            if batch.revision >= world.store.revision:
                return found
    return found


async def nominated_by(world: Rk8sWorld, name: str) -> str:
    record = await world.record_of(name)
    return "" if record is None else str(record.get("nominated_node", ""))


async def test_a_more_important_pod_gets_its_room_and_no_document_changes(world: Rk8sWorld) -> None:
    await full(world, "low-1", "low-2")
    hand = await world.hand(settings=CALM)
    refused = await preemptor(world, hand)
    before = await documents(world)

    recorded = await nominate(hand, refused)
    assert await nominated_by(world, "high") == "node-1"
    evicted = await evict(hand, eviction(refused, recorded))
    await hand.seen()

    assert evicted == Evicted(evicted=("default/low-2",))
    assert await history(world, "low-2") == ["put", "delete"]
    assert await documents(world) == {key: raw for key, raw in before.items() if not key.endswith("low-2")}
    assert (await hand.bind("high", await hand.placed("high"))).kind == "bound"
    assert await world.record_of("high") is None
    await world.judge("high")


async def test_a_nomination_holds_its_room_on_every_worker(world: Rk8sWorld) -> None:
    """Also while the victim is gone and the preemptor is not bound yet, and for a worker that starts then."""
    await full(world, "low-1")
    first, second = await world.hand(settings=CALM), await world.hand(settings=CALM)
    refused = await preemptor(world, first)
    recorded = await nominate(first, refused)
    await evict(first, eviction(refused, recorded))
    await world.put(docs.pod("middle", cpu="1", memory="1Mi", priority=5))
    third = await world.hand(settings=CALM)
    await world.seen()

    for hand in (first, second, third):
        assert hand.cache.pods[HIGH].nominated_node_name == "node-1"
        assert (await hand.refused("middle")).victims == ()
    assert (await third.bind("high", await third.placed("high"))).kind == "bound"


async def test_a_lower_nomination_is_cleared_in_its_own_record(world: Rk8sWorld) -> None:
    """Steps: A is nominated; before it evicts, B, more important, takes the node. A's eviction comes late."""
    await full(world, "low-1")
    one, two = await world.hand(settings=CALM), await world.hand(settings=CALM)
    first = await preemptor(world, one, "a", priority=5)
    late = eviction(first, await nominate(one, first, name="a"), name="a")
    await world.seen()
    second = await preemptor(world, two, "b", priority=10)
    assert second.nominated_node == "node-1"
    before = await documents(world)

    request = eviction(second, await nominate(two, second, name="b"), name="b")
    assert await evict(two, request) == Evicted(evicted=("default/low-1",))
    await world.seen()

    assert (await nominated_by(world, "a"), await nominated_by(world, "b")) == ("", "node-1")
    record = await world.record_of("a")
    assert record["victims"] == ["default/low-1"]
    assert one.cache.pods[PodKey("default", "a")].nominated_node_name == ""
    outcome = await evict(one, late)
    assert outcome == Evicted(complete=False)
    assert await documents(world) == {key: raw for key, raw in before.items() if not key.endswith("low-1")}


async def test_no_victim_is_evicted_once_the_nomination_was_taken_away(world: Rk8sWorld) -> None:
    """In the middle of an eviction: the record that names the victims is not the one that was written."""
    await full(world, "low-1", "low-2")
    hand = await world.hand(settings=CALM)
    refused = await preemptor(world, hand, cpu="2")
    request = eviction(refused, await nominate(hand, refused))
    sent = 0

    async def meanwhile(_: Any, operations: Any) -> None:
        nonlocal sent
        sent += any(isinstance(one, Delete) for one in operations)
        if sent == 2:
            record = await world.store.get(keys.attempt(*HIGH))
            assert record.kv is not None
            await world.store.put(keys.attempt(*HIGH), record.kv.value.replace(b"node-1", b""))

    hand.store.before_txn = meanwhile

    outcome = await hand.activities.evict(request)

    assert isinstance(outcome, Evicted)
    assert (len(outcome.evicted), outcome.complete) == (1, False)
    left = await documents(world)
    assert len([key for key in left if "low" in key]) == 1


@pytest.mark.parametrize("applied", [True, False], ids=["done", "not done"])
@pytest.mark.parametrize("step", range(3))
async def test_worker_that_dies_at_a_step_is_replaced(world: Rk8sWorld, applied: bool, step: int) -> None:
    await full(world, "low-1", "low-2")
    first, second = await world.hand(settings=CALM), await world.hand(settings=CALM)
    refused = await preemptor(world, first, cpu="2")
    sent = 0

    async def dies(_: Any, operations: Any) -> None:
        nonlocal sent
        if not all(isinstance(one, Get) for one in operations):
            if sent == step:
                first.store.fail_next(applied=applied)
            sent += 1

    first.store.before_txn = dies
    hand = first
    try:
        recorded = await nominate(hand, refused)
    except ApplicationError:
        hand = second
        recorded = await nominate(hand, refused)
    await world.seen()
    try:
        await evict(hand, eviction(refused, recorded))
    except ApplicationError:
        hand = second
        await evict(hand, eviction(refused, recorded))
    await world.seen()

    assert [await history(world, name) for name in ("low-1", "low-2")] == [["put", "delete"]] * 2
    assert (await second.bind("high", await second.placed("high"))).kind == "bound"
    await world.judge("high")


async def test_no_pod_is_evicted_for_a_pod_that_libscheduler_bound(world: Rk8sWorld) -> None:
    await full(world, "low-1")
    hand = await world.hand(settings=CALM)
    refused = await preemptor(world, hand)
    request = eviction(refused, await nominate(hand, refused))
    await hand.seen()

    async def meanwhile(_: Any, __: Any) -> None:
        hand.store.before_txn = None
        await world.bind_as_libscheduler("high", "node-9")

    hand.store.before_txn = meanwhile

    outcome = await evict(hand, request)

    assert isinstance(outcome, Gone)
    assert (outcome.reason, outcome.node, outcome.bound_by) == ("bound", "node-9", "")
    assert await history(world, "low-1") == ["put"]


async def test_nomination_of_an_earlier_life_of_the_pod_means_nothing(world: Rk8sWorld) -> None:
    await full(world, "low-1")
    hand = await world.hand(settings=CALM)
    refused = await preemptor(world, hand)
    await nominate(hand, refused)
    await world.store.delete("/registry/pods/high")
    await world.put(docs.pod("high", cpu="1", memory="1Mi"))
    await hand.seen()

    assert hand.cache.pods[HIGH].nominated_node_name == ""


async def test_a_later_refusal_keeps_the_nomination_only_while_it_helps(world: Rk8sWorld) -> None:
    await full(world, "low-1")
    hand = await world.hand(settings=CALM)
    refused = await preemptor(world, hand)
    await nominate(hand, refused)
    await hand.seen()

    assert isinstance(await hand.record("high", attempt=2, run_id="run-2"), Recorded)
    await hand.seen()

    assert await nominated_by(world, "high") == ""
    assert hand.cache.pods[HIGH].nominated_node_name == ""


PREEMPTING = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: DefaultPreemption}]
"""


async def test_more_important_pods_are_bound_in_the_room_of_others(rk8s: Rk8sCluster, tmp_path: Path) -> None:
    """With real servers: each victim is deleted once, and documents differ in `node_name` alone."""
    low = [f"low-{number}" for number in range(8)]
    high = [f"high-{number}" for number in range(4)]
    await rk8s.put(*(docs.node(f"node-{number}", cpu="2") for number in range(4)))
    await rk8s.put(*(docs.pod(name, cpu="1", memory="1Mi") for name in low))
    config = tmp_path / "preempting.yaml"
    config.write_text(PREEMPTING)
    await rk8s.worker(config=config)
    await rk8s.bound(*low)
    await rk8s.put(*(docs.pod(name, cpu="2", memory="1Mi", priority=100) for name in high))

    nodes = await rk8s.bound(*high, seconds=60)

    assert sorted(nodes.values()) == [f"node-{number}" for number in range(4)]
    async with asyncio.timeout(patient(30)):
        while [kv async for page in rk8s.store.list(keys.ATTEMPTS) for kv in page.items]:
            await asyncio.sleep(0.05)
    left = [kv.key async for page in rk8s.store.list(keys.PODS) for kv in page.items]
    assert left == [f"/registry/pods/{name}" for name in high]
    for name in high:
        before = rk8s.stored[f"/registry/pods/{name}"]
        assert await rk8s.value(name) == before.replace(b"node_name: null", f"node_name: {nodes[name]}".encode())
