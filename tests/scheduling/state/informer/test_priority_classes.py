"""PriorityClasses are followed, and what pods leave to them is resolved as they are now."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.state.informer.decoding import kind_of
from wharfinger.scheduling.state.queue.entry import Part
from wharfinger.settings import DispatchSettings


def encoded(name: str, value: object, **fields: Any) -> bytes:
    obj = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    return json.dumps({**obj, **fields}).encode()


async def put_class(stage: Stage, name: str, value: object = 0, **fields: Any) -> int:
    return await stage.store.put(keys.stored("priorityclasses", "", name), encoded(name, value, **fields))


async def remove_class(stage: Stage, name: str) -> None:
    await stage.store.delete(keys.stored("priorityclasses", "", name))


async def put_pod(stage: Stage, name: str, *, cpu: str = "1", gang: str = "", **spec: Any) -> int:
    labels = {"pod-group.scheduling.sigs.k8s.io/name": gang, "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
    obj = {
        "metadata": {"name": name, "labels": labels if gang else {}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}], **spec},
    }
    return await stage.store.put(keys.pod("default", name), json.dumps(obj).encode())


async def waiting(stage: Stage, name: str, **spec: Any) -> None:
    await put_pod(stage, name, **spec)
    await stage.refuse(name)
    await stage.until(lambda: stage.part(name) is Part.WAITING)


def known(stage: Stage, name: str) -> Pod:
    return stage.cache.pods[PodKey("default", name)]


def priority(stage: Stage, name: str) -> int:
    return known(stage, name).priority


def part(stage: Stage, name: str) -> tuple[Part, str] | None:
    entry = stage.entry(name)
    return (entry.part, entry.gate) if entry is not None else None


async def test_a_pod_has_the_priority_and_policy_of_its_class() -> None:
    stage = Stage()
    await put_class(stage, "high", 1000, preemptionPolicy="Never")
    await put_pod(stage, "listed", priorityClassName="high")
    async with stage:
        await put_pod(stage, "watched", priorityClassName="high")
        await put_pod(stage, "own", priorityClassName="high", priority=7, preemptionPolicy="PreemptLowerPriority")
        await put_pod(stage, "system", priorityClassName="system-node-critical")
        await put_pod(stage, "plain")
        await stage.caught_up()

        found = {name: (known(stage, name).priority, known(stage, name).preemption_policy)
                 for name in ("listed", "watched", "own", "system", "plain")}  # fmt: skip
        assert found == {
            "listed": (1000, "Never"),
            "watched": (1000, "Never"),
            "own": (7, "PreemptLowerPriority"),
            "system": (2_000_001_000, "PreemptLowerPriority"),
            "plain": (0, "PreemptLowerPriority"),
        }


async def test_of_several_global_defaults_the_lowest_counts() -> None:
    async with Stage() as stage:
        await put_pod(stage, "plain")
        await put_pod(stage, "bound", nodeName="n")
        await put_class(stage, "base", 20, globalDefault=True)
        await put_class(stage, "lower", 10, globalDefault=True)
        await stage.caught_up()
        assert [priority(stage, name) for name in ("plain", "bound")] == [10, 10]

        await remove_class(stage, "lower")
        await stage.caught_up()
        assert [priority(stage, name) for name in ("plain", "bound")] == [20, 20]


async def test_a_pod_whose_class_does_not_exist_is_held_until_it_comes() -> None:
    async with Stage() as stage:
        await put_pod(stage, "p", priorityClassName="high")
        await stage.caught_up()
        assert part(stage, "p") == (Part.GATED, "PriorityClass")
        assert stage.attempts.started == []

        await put_class(stage, "high", 1000)
        await stage.until(lambda: stage.attempts.names)

        assert stage.attempts.names == ["p"]
        assert priority(stage, "p") == 1000


async def test_a_waiting_pod_that_loses_its_class_is_woken_when_it_is_back() -> None:
    async with Stage() as stage:
        await put_class(stage, "high", 1000)
        await waiting(stage, "p", cpu="2", priorityClassName="high")
        await remove_class(stage, "high")
        await stage.caught_up()
        assert part(stage, "p") == (Part.GATED, "PriorityClass")

        await stage.put_node("n")
        await stage.caught_up()
        assert stage.attempts.woken == []

        revision = await put_class(stage, "high", 5)
        await stage.until(lambda: stage.attempts.woken)
        expected = Wake(revision=revision, event="PriorityClassUpdate", plugin="NodeResourcesFit", attempts=1)
        assert stage.attempts.woken == [("p", expected)]


async def test_an_attempt_that_met_no_class_is_woken_when_the_class_comes() -> None:
    """A start that was on its way as the class went: `place` refuses, and its record names what refused."""
    async with Stage() as stage:
        await stage.put_node("n")
        await put_pod(stage, "p", priorityClassName="high")
        await stage.refuse("p", plugins=("PriorityClass",))
        await stage.put_node("other")
        await stage.caught_up()
        assert (part(stage, "p"), stage.attempts.woken) == ((Part.GATED, "PriorityClass"), [])

        await put_class(stage, "high", 5)
        await stage.until(lambda: stage.attempts.woken_names == ["p"])


async def test_a_changed_class_changes_the_order_of_the_queue() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, in_flight=1, cohorts=False)) as stage:
        await put_class(stage, "high", 10)
        await put_class(stage, "low", 1)
        await put_pod(stage, "first", priority=100)
        await stage.until(lambda: stage.attempts.names == ["first"])
        for name, of in (("a", "low"), ("b", "high")):
            await put_pod(stage, name, priorityClassName=of)
        await put_class(stage, "low", 20)
        await stage.caught_up()
        assert part(stage, "a") == part(stage, "b") == (Part.ACTIVE, "")

        await stage.store.delete(keys.pod("default", "first"))
        await stage.until(lambda: len(stage.attempts.names) == 2)

        assert stage.attempts.names == ["first", "a"]


async def test_changed_class_changes_which_pod_is_woken_first() -> None:
    async with Stage() as stage:
        await put_class(stage, "high", 10)
        await put_class(stage, "low", 1)
        for name, of in (("a", "low"), ("b", "high")):
            await waiting(stage, name, cpu="3", priorityClassName=of)

        await put_class(stage, "low", 20)
        await stage.put_node("n", cpu="4")
        await stage.caught_up()

        assert stage.attempts.woken_names == ["a"]


async def test_a_pod_may_preempt_once_the_class_of_those_in_its_way_is_lower() -> None:
    async with Stage() as stage:
        await put_class(stage, "theirs", 100)
        await put_class(stage, "ours", 50)
        await stage.put_node("n", cpu="1")
        await put_pod(stage, "there", nodeName="n", priorityClassName="theirs")
        await waiting(stage, "p", priorityClassName="ours")
        await stage.caught_up()
        assert stage.attempts.woken == []

        await put_class(stage, "theirs", 10)
        await stage.until(lambda: stage.attempts.woken_names == ["p"])

        assert stage.attempts.woken[0][1].event == "PriorityClassUpdate"


async def test_a_bound_pod_without_its_class_counts_as_0() -> None:
    async with Stage() as stage:
        await put_class(stage, "high", 100)
        await put_pod(stage, "p", nodeName="n", priorityClassName="high")
        await stage.put_node("n")
        await stage.caught_up()
        assert [pod.priority for pod in stage.cache.snapshot().info("n").pods.values()] == [100]

        await remove_class(stage, "high")
        await stage.caught_up()
        assert [pod.priority for pod in stage.cache.snapshot().info("n").pods.values()] == [0]


async def test_a_nomination_counts_with_the_priority_that_its_class_has_now() -> None:
    async with Stage() as stage:
        await put_class(stage, "a", 1)
        for name, of in (("p", {"priorityClassName": "a"}), ("q", {"priority": 5})):
            obj = {"metadata": {"name": name}, "spec": of, "status": {"nominatedNodeName": "n"}}
            await stage.store.put(keys.pod("default", name), json.dumps(obj).encode())
        await stage.caught_up()
        assert [pod.name for pod in stage.cache.nominated_on("n")] == ["q", "p"]

        await put_class(stage, "a", 9)
        await stage.caught_up()
        assert [pod.name for pod in stage.cache.nominated_on("n")] == ["p", "q"]


async def test_a_member_whose_class_is_missing_holds_its_gang() -> None:
    async with Stage() as stage:
        await put_pod(stage, "a", gang="team")
        await put_pod(stage, "b", gang="team", priorityClassName="high")
        await stage.caught_up()
        assert part(stage, "a") == (Part.GATED, "PodGroup: 1 of 2 members exist")
        assert part(stage, "b") == (Part.GATED, "PriorityClass")

        await put_class(stage, "high", 5)
        await stage.until(lambda: stage.attempts.gangs)

        assert [entry.part for entry in map(stage.entry, ("a", "b")) if entry is not None] == [Part.IN_FLIGHT] * 2


async def test_a_class_and_its_pods_in_one_transaction_are_taken_in_together() -> None:
    async with Stage() as stage:
        obj = {"metadata": {"name": "p"}, "spec": {"priorityClassName": "high"}}
        of = {"metadata": {"name": "high"}, "value": 3}
        pod, its_class = keys.pod("default", "p"), keys.stored("priorityclasses", "", "high")
        operations = [Put(pod, json.dumps(obj).encode()), Put(its_class, json.dumps(of).encode())]
        await stage.store.txn([], operations)
        await stage.until(lambda: stage.attempts.names == ["p"])

        assert priority(stage, "p") == 3


async def test_a_change_behind_a_compaction_is_found_by_the_list() -> None:
    async with Stage() as stage:
        await put_class(stage, "high", 3)
        await put_pod(stage, "p", priorityClassName="high")
        await stage.caught_up()
        stage.own.pause_watches()
        stage.store.compact(await put_class(stage, "high", 8))
        stage.own.resume_watches()
        await stage.caught_up()

        assert priority(stage, "p") == 8


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (2**31, {}),
        ("5", {}),
        (1_000_000_001, {}),
        (1, {"preemptionPolicy": "Sometimes"}),
        (1, {"globalDefault": "yes"}),
        (1, {"apiVersion": "v1"}),
    ],
)
async def test_an_invalid_class_is_reported_and_counts_as_absent(value: object, fields: dict[str, Any]) -> None:
    async with Stage() as stage:
        await put_class(stage, "high", value, **fields)
        await put_pod(stage, "p", priorityClassName="high")
        await stage.caught_up()

        assert part(stage, "p") == (Part.GATED, "PriorityClass")
        kind = kind_of(keys.PRIORITY_CLASSES)
        assert kind == "priorityclass"
        assert stage.metrics.invalid_objects.labels(kind)._value.get() == 1
