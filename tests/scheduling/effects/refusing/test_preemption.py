"""Making room for a more important pod: nomination, eviction, and what may happen in between.

Interleavings that would lose the preemptor, or evict a pod for nothing, are named by the test.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.patience import patient
from tests.scheduling.world import NOW, Hand, World, turns
from wharfinger.errors import RequestTooLarge
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.objects.model.pod import Pod
from wharfinger.process.names import pod_workflow_id
from wharfinger.scheduling.contracts.attempts import AttemptInput
from wharfinger.scheduling.contracts.eviction import LISTED, Evicted, EvictInput, Victim
from wharfinger.scheduling.contracts.group_payloads import numbered, placed_group, refusal_input
from wharfinger.scheduling.contracts.scheduling import EvictOutcome, Gone, Placed, Recorded, RefusalInput, Refused
from wharfinger.scheduling.effects.placing import payload
from wharfinger.scheduling.effects.refusing import nominations
from wharfinger.settings import BindSettings

PAUSE = 20
"""The most turns of the event loop for which a chain or a watch pauses."""
CALM = BindSettings(tries=4, catch_up=1.0, behind=1.0)
MARK = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod default/high",
}


async def full_node(world: World, *low: str, name: str = "node-1") -> None:
    """A node of as many CPUs as it has pods of priority 1, each of one CPU."""
    await world.put_node(name, cpu=str(len(low)))
    for pod in low:
        await world.put_pod(pod, spec={"nodeName": name, "priority": 1})


async def preemptor(world: World, hand: Hand, *, name: str = "high", priority: int = 10, cpu: str = "1") -> Refused:
    """A pending pod of a higher priority, refused with victims."""
    await world.put_pod(name, cpu=cpu, spec={"priority": priority})
    await hand.seen()
    return await hand.refused(name)


def refusal(refused: Refused, *, name: str = "high", attempt: int = 1, run: str = "run-1") -> RefusalInput:
    workflow_id = pod_workflow_id("test", "default", name, refused.uid)
    placed = placed_group(AttemptInput(namespace="default", name=name), refused)
    (one,) = numbered(placed.turned_away, attempt)
    return refusal_input(placed, "Unschedulable", one, workflow_id=workflow_id, run_id=run)


async def nominate(hand: Hand, refused: Refused, **more: Any) -> Recorded:
    outcome = await hand.activities.record_refusal(refusal(refused, **more))
    assert isinstance(outcome, Recorded), outcome
    return outcome


def eviction(refused: Refused, recorded: Recorded, *, name: str = "high") -> EvictInput:
    return EvictInput(
        namespace="default",
        name=name,
        uid=refused.uid,
        create_revision=refused.create_revision,
        node=refused.nominated_node,
        victims=refused.victims,
        in_record=refused.victim_count > len(refused.victims),
        record_revision=recorded.revision,
        workflow_id=pod_workflow_id("test", "default", name, refused.uid),
        run_id="run-1",
    )


async def evict(hand: Hand, request: EvictInput) -> EvictOutcome:
    """What the activity answers, but for the revision."""
    outcome = await hand.activities.evict(request)
    return outcome.model_copy(update={"revision": 0}) if isinstance(outcome, Evicted) else outcome


async def changes_of(world: World, name: str) -> list[str]:
    """What happened to a pod: `mark` for each time it was newly a disruption target, `delete`."""
    found: list[str] = []
    marked = False
    async with world.store.watch(keys.pod("default", name), 1) as batches:
        async for batch in batches:
            for event in batch.events:
                if event.deleted:
                    found.append("delete")
                elif (b"DisruptionTarget" in event.kv.value) and not marked:
                    found.append("mark")
                    marked = True
            if batch.revision >= world.store.revision:
                return found
    return found


# --- the whole way --------------------------------------------------------------------------------


async def test_a_more_important_pod_gets_its_room_and_is_bound_there(world: World) -> None:
    await full_node(world, "low-1", "low-2")
    hand = await world.hand(eviction="immediate")

    refused = await preemptor(world, hand)
    assert (refused.nominated_node, [one.pod for one in refused.victims]) == ("node-1", ["default/low-2"])
    recorded = await nominate(hand, refused)
    await hand.seen()
    assert (await world.pod("high"))["status"]["nominatedNodeName"] == "node-1"
    record = await world.record_of("high")
    assert (record["nominated_node"], record["victims"]) == ("node-1", ["default/low-2"])
    evicted = await evict(hand, eviction(refused, recorded))
    await hand.seen()

    assert evicted == Evicted(evicted=("default/low-2",))
    assert await changes_of(world, "low-2") == ["mark", "delete"]
    assert await world.node_of("low-1") == "node-1"
    assert (await hand.bind("high", await hand.placed("high"))).kind == "bound"
    assert "nominatedNodeName" not in (await world.pod("high"))["status"]


async def test_decisions_that_preempt_are_counted_and_so_are_their_victims(world: World) -> None:
    await full_node(world, "low-1", "low-2")
    hand = await world.hand()
    await preemptor(world, hand, cpu="2")

    samples = {one.name: one.value for metric in hand.metrics.registry.collect() for one in metric.samples}
    assert samples["scheduler_preemption_attempts_total"] == 1
    assert (samples["scheduler_preemption_victims_count"], samples["scheduler_preemption_victims_sum"]) == (1, 2)


async def test_graceful_eviction_marks_the_victim_and_leaves_its_deletion(world: World) -> None:
    await world.put_node("node-1", cpu="1")
    await world.put_pod("low", spec={"nodeName": "node-1", "terminationGracePeriodSeconds": 45})
    hand = await world.hand()
    refused = await preemptor(world, hand)

    evicted = await evict(hand, eviction(refused, await nominate(hand, refused)))

    assert evicted == Evicted(evicted=("default/low",), leaving=75.0)
    pod = await world.pod("low")
    assert pod["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:45Z"
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 45
    [condition] = pod["status"]["conditions"]
    assert {name: condition[name] for name in MARK} == MARK
    assert pod["unknown"] == {"kept": True}


async def test_pod_keeps_its_nomination_and_preempts_no_more_while_victims_leave(world: World) -> None:
    await full_node(world, "low-1")
    await full_node(world, "low-2", name="node-2")
    hand = await world.hand()
    refused = await preemptor(world, hand)
    await hand.activities.evict(eviction(refused, await nominate(hand, refused)))
    await hand.seen()

    again = await hand.refused("high")

    assert (again.nominated_node, again.victims, again.leaving) == (refused.nominated_node, (), 60.0)
    assert "preemption: not eligible due to a terminating pod on the nominated node." in again.message
    await nominate(hand, again, attempt=2)
    assert (await world.pod("high"))["status"]["nominatedNodeName"] == refused.nominated_node


async def test_victims_that_stay_are_reported_and_never_forced(world: World) -> None:
    await full_node(world, "low-1")
    now = [NOW]
    hand = await world.hand(utc_now=lambda: now[0])
    refused = await preemptor(world, hand)
    await hand.activities.evict(eviction(refused, await nominate(hand, refused)))
    await hand.seen()
    now[0] += timedelta(seconds=61)

    late = await hand.refused("high")
    await nominate(hand, late, attempt=2)

    report = "Evicted pods are still there though their grace is over: default/low-1."
    assert late.message.endswith(report)
    assert late.leaving == 0.0
    [_, condition] = sorted((await world.pod("high"))["status"]["conditions"], key=lambda one: one["type"])[-1:] * 2
    assert report in condition["message"]
    assert report in (await world.record_of("high"))["message"]
    assert hand.metrics.evictions_overdue._value.get() == 1
    assert await world.node_of("low-1") == "node-1"


# --- a crash at any step --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["immediate", "graceful"])
@pytest.mark.parametrize("applied", [True, False], ids=["done", "not done"])
@pytest.mark.parametrize("step", range(5))
async def test_worker_that_dies_at_a_step_is_replaced_without_a_second_eviction(
    world: World, mode: str, applied: bool, step: int
) -> None:
    """Steps: nominate, mark, delete, mark, delete; at one of them the worker dies, before or after it happened."""
    await full_node(world, "low-1", "low-2")
    first, second = await world.hand(eviction=mode), await world.hand(eviction=mode)
    refused = await preemptor(world, first, cpu="2")
    seen = 0

    async def dying(_: Any, success: Any) -> None:
        nonlocal seen
        if seen == step:
            first.store.fail_next(applied=applied)
        seen += 1

    first.store.before_txn = dying
    recorded = await either(first, second, lambda hand: hand.activities.record_refusal(refusal(refused)))
    assert isinstance(recorded, Recorded)
    await world.seen()
    await either(first, second, lambda hand: hand.activities.evict(eviction(refused, recorded)))
    await world.seen()

    for name in ("low-1", "low-2"):
        assert await changes_of(world, name) == (["mark", "delete"] if mode == "immediate" else ["mark"])
    if mode == "graceful":
        for name in ("low-1", "low-2"):
            await world.store.delete(keys.pod("default", name))
        await world.seen()
    assert (await second.bind("high", await second.placed("high"))).kind == "bound"


async def either(first: Hand, second: Hand, act: Callable[[Hand], Awaitable[Any]]) -> Any:
    """What Temporal does: an activity that fails is tried again, by another worker."""
    try:
        return await act(first)
    except ApplicationError:
        first.store.before_txn = None
        return await act(second)


async def test_an_eviction_that_runs_again_finds_everything_done(world: World) -> None:
    await full_node(world, "low-1", "low-2")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand, cpu="2")
    request = eviction(refused, await nominate(hand, refused))
    await hand.activities.evict(request)
    revision = world.store.revision

    again = await hand.activities.evict(request)

    assert isinstance(again, Evicted)
    assert (again.evicted, again.complete) == ((), True)
    assert world.store.revision == revision


# --- the preemptor is not what it was -------------------------------------------------------------


async def deleted(world: World, hand: Hand, refused: Refused) -> None:
    await world.store.delete(keys.pod("default", "high"))


async def recreated(world: World, hand: Hand, refused: Refused) -> None:
    await world.store.delete(keys.pod("default", "high"))
    await world.put_pod("high", spec={"priority": 10})


async def terminating(world: World, hand: Hand, refused: Refused) -> None:
    await world.change_pod("high", lambda pod: pod["metadata"].update(deletionTimestamp="2026-03-01T12:00:00Z"))


async def bound_elsewhere(world: World, hand: Hand, refused: Refused) -> None:
    await world.put_node("node-9")
    await hand.seen()
    assert (await hand.bind("high", await hand.placed("high"))).kind == "bound"


@pytest.mark.parametrize("vanish", [deleted, recreated, terminating, bound_elsewhere])
@pytest.mark.parametrize("late", [False, True], ids=["before evict", "just before its transaction"])
async def test_no_pod_is_evicted_for_a_pod_that_needs_the_room_no_more(
    world: World, vanish: Callable[[World, Hand, Refused], Awaitable[None]], late: bool
) -> None:
    await full_node(world, "low-1")
    hand, other = await world.hand(eviction="immediate"), await world.hand()
    refused = await preemptor(world, hand)
    request = eviction(refused, await nominate(hand, refused))
    await world.seen()
    if late:

        async def meanwhile(_: Any, __: Any) -> None:
            hand.store.before_txn = None
            await vanish(world, other, refused)

        hand.store.before_txn = meanwhile
    else:
        await vanish(world, other, refused)

    outcome = await evict(hand, request)

    assert isinstance(outcome, Gone)
    assert await changes_of(world, "low-1") == []


async def test_no_pod_is_evicted_for_a_record_that_was_replaced(world: World) -> None:
    """Steps: the run was thought dead, a new attempt decided otherwise and recorded that; the old run's eviction
    comes late.
    """
    await full_node(world, "low-1")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand)
    request = eviction(refused, await nominate(hand, refused))
    await hand.record("high", attempt=2, run_id="run-2")

    outcome = await evict(hand, request)

    assert outcome == Evicted(complete=False)
    assert await changes_of(world, "low-1") == []


async def test_no_victim_is_evicted_for_a_nomination_taken_by_a_higher_priority(world: World) -> None:
    """Steps: A is nominated; before it evicts, B, more important, takes the node and clears A's nomination. A's
    record still names its victims, but their room would be B's.
    """
    await full_node(world, "low-1", "low-2")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand)
    request = eviction(refused, await nominate(hand, refused))
    await world.change_pod("high", lambda pod: pod["status"].pop("nominatedNodeName"))

    outcome = await hand.activities.evict(request)

    assert isinstance(outcome, Evicted)
    assert (outcome.evicted, outcome.complete) == ((), False)
    assert outcome.revision == world.store.revision
    assert [await changes_of(world, name) for name in ("low-1", "low-2")] == [[], []]


async def test_an_eviction_stops_where_it_is_when_the_nomination_is_taken_away(world: World) -> None:
    await full_node(world, "low-1", "low-2")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand, cpu="2")
    request = eviction(refused, await nominate(hand, refused))
    sent = 0

    async def meanwhile(_: Any, __: Any) -> None:
        nonlocal sent
        sent += 1
        if sent == 3:
            await world.change_pod("high", lambda pod: pod["status"].pop("nominatedNodeName"))

    hand.store.before_txn = meanwhile

    outcome = await hand.activities.evict(request)

    assert isinstance(outcome, Evicted)
    assert (outcome.evicted, outcome.complete) == ((request.victims[0].pod,), False)
    assert await changes_of(world, request.victims[1].pod.removeprefix("default/")) == []


async def test_no_pod_is_evicted_from_a_node_that_is_gone(world: World) -> None:
    await full_node(world, "low-1")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand)
    request = eviction(refused, await nominate(hand, refused))
    await world.store.delete(keys.node("node-1"))

    outcome = await hand.activities.evict(request)

    assert isinstance(outcome, Evicted)
    assert not outcome.complete
    assert await changes_of(world, "low-1") == []


async def test_plugin_failure_while_victims_leave_keeps_the_nomination(world: World) -> None:
    """Without its nomination the pod would not know whom it waits for, and preempt others."""
    await full_node(world, "low-1")
    await full_node(world, "low-2", name="node-2")
    hand = await world.hand()
    refused = await preemptor(world, hand)
    await hand.activities.evict(eviction(refused, await nominate(hand, refused)))
    await hand.seen()

    await hand.record("high", attempt=2, reason="SchedulerError", message="a plugin broke", rejectors=())
    await hand.seen()

    assert (await world.pod("high"))["status"]["nominatedNodeName"] == refused.nominated_node
    assert (await hand.refused("high")).victims == ()


async def test_no_pod_is_evicted_for_a_pod_too_large_for_its_nomination(world: World) -> None:
    """It could not be written bound either."""
    await full_node(world, "low-1")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand)

    async def too_large(_: Any, success: Any) -> None:
        if any(isinstance(one, Put) and one.key.startswith(keys.PODS) for one in success):
            raise RequestTooLarge("etcdserver: request is too large")

    hand.store.before_txn = too_large

    recorded = await hand.activities.record_refusal(refusal(refused))

    assert isinstance(recorded, Recorded)
    assert not recorded.nominated
    record = await world.record_of("high")
    assert (record.get("nominated_node", ""), list(record.get("victims", ()))) == ("", [])


# --- the victims are not what they were -----------------------------------------------------------


async def test_a_victim_of_the_same_name_is_another_pod(world: World) -> None:
    await full_node(world, "low-1")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand)
    request = eviction(refused, await nominate(hand, refused))
    await world.store.delete(keys.pod("default", "low-1"))
    await world.put_pod("low-1", spec={"nodeName": "node-1", "priority": 1})

    outcome = await evict(hand, request)

    assert outcome == Evicted(notes=("default/low-1 had left already",))
    assert await world.node_of("low-1") == "node-1"


async def test_victim_of_equal_priority_by_now_is_spared_and_the_pod_retried(world: World) -> None:
    await full_node(world, "low-1")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand)
    request = eviction(refused, await nominate(hand, refused))
    await world.change_pod("low-1", lambda pod: pod["spec"].update(priority=10))

    outcome = await evict(hand, request)

    assert isinstance(outcome, Evicted)
    assert not outcome.complete
    assert await world.node_of("low-1") == "node-1"


async def test_a_victim_that_changes_just_now_is_looked_at_again(world: World) -> None:
    await full_node(world, "low-1")
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand)
    request = eviction(refused, await nominate(hand, refused))

    async def meanwhile(_: Any, __: Any) -> None:
        hand.store.before_txn = None
        await world.change_pod("low-1", lambda pod: pod["metadata"].update(labels={"new": "label"}))

    hand.store.before_txn = meanwhile

    assert await evict(hand, request) == Evicted(evicted=("default/low-1",))


async def test_pod_that_an_assumed_pod_keeps_from_evicting_tries_again_at_once(world: World) -> None:
    """Steps: another writer takes the room of a pod that is assumed here. Once that is known, evicting `low` helps, but
    no event will announce it.
    """
    await world.put_node("node-1", cpu="2")
    await world.put_pod("low", spec={"nodeName": "node-1", "priority": 1})
    await world.put_pod("middle", spec={"priority": 1})
    hand = await world.hand()
    await hand.placed("middle")
    await world.put_pod("taker", spec={"nodeName": "node-1", "priority": 10})

    refused = await preemptor(world, hand)

    assert (refused.only_assumed, refused.nominated_node) == (True, "")


async def test_pods_that_are_only_assumed_are_no_victims(world: World) -> None:
    """Steps: a less important pod was just placed and not bound yet; it is not in etcd to be evicted."""
    await world.put_node("node-1", cpu="1")
    await world.put_pod("low", spec={"priority": 1})
    hand = await world.hand()
    await hand.placed("low")

    refused = await preemptor(world, hand)

    assert (refused.only_assumed, refused.nominated_node, refused.victims) == (True, "", ())


# --- very many victims ----------------------------------------------------------------------------


def long_name(number: int) -> str:
    return f"low-{number:04d}." + ".".join(["x" * 60] * 4)[:240]


async def crowd(world: World, number: int) -> None:
    """A node full of pods of long names."""
    await world.put_node("node-1", cpu=str(number), pods="5000")
    for index in range(number):
        spec = {"nodeName": "node-1", "priority": 1}
        await world.put_pod(long_name(index), uid=f"uid-{index}", spec=spec)


async def test_payload_of_very_many_victims_is_small_and_all_are_evicted(world: World) -> None:
    await crowd(world, 300)
    hand = await world.hand(eviction="immediate", settings=CALM)
    await world.hand()

    refused = await preemptor(world, hand, cpu="300")
    assert len(refused.model_dump_json()) <= payload.LIMIT
    assert refused.victim_count == 300
    recorded = await nominate(hand, refused)
    assert recorded.nominated
    assert len((await world.record_of("high"))["victims"]) == 300
    request = eviction(refused, recorded)
    outcome = await hand.activities.evict(request)
    assert isinstance(outcome, Evicted)
    assert outcome.complete
    assert len(request.model_dump_json()) <= payload.LIMIT
    assert len(outcome.model_dump_json()) <= payload.LIMIT
    again = await hand.activities.evict(request)
    assert len(again.model_dump_json()) <= payload.LIMIT
    await hand.seen()

    assert (await hand.bind("high", await hand.placed("high"))).kind == "bound"


async def test_no_pod_is_nominated_when_its_many_victims_have_changed(world: World) -> None:
    await crowd(world, 20)
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand, cpu="20")
    await world.store.delete(keys.pod("default", long_name(3)))
    await world.put_pod("low-new", spec={"nodeName": "node-1", "priority": 1})
    await hand.seen()

    recorded = await nominate(hand, refused)

    assert not recorded.nominated


async def test_the_record_names_the_victims_only_while_it_is_the_attempts_own(world: World) -> None:
    await crowd(world, 20)
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand, cpu="20")
    request = eviction(refused, await nominate(hand, refused))
    assert request.in_record
    await hand.seen()
    await nominate(hand, refused, attempt=2)

    outcome = await hand.activities.evict(request)

    assert isinstance(outcome, Evicted)
    assert (outcome.evicted, outcome.complete) == ((), False)


# --- the nomination -------------------------------------------------------------------------------


async def test_a_bind_on_the_nominated_node_has_seen_the_nomination(world: World) -> None:
    """Steps: A nominates and makes room; B, who has seen neither, binds a less important pod into what it thinks is
    left. Were the binding version not rewritten by the nomination, B's bind would take room of the nominated pod.
    """
    await world.put_node("node-1", cpu="3")
    await world.put_pod("low-1", cpu="2", spec={"nodeName": "node-1", "priority": 1})
    await world.put_pod("thief", spec={"priority": 5})
    one, two = await world.hand(eviction="immediate"), await world.hand(settings=CALM)
    placed = await two.placed("thief")
    two.store.pause_watches()
    refused = await preemptor(world, one, cpu="3")
    await one.activities.evict(eviction(refused, await nominate(one, refused)))

    two.store.after_txn = lambda *_: two.store.resume_watches()  # once the first transaction has failed

    assert (await two.bind("thief", placed)).kind == "contended"
    assert two.conflicts("binding") == 1
    await world.seen()
    assert (await one.bind("high", await one.placed("high"))).kind == "bound"


async def test_placement_in_the_room_of_a_later_nomination_is_not_bound(world: World) -> None:
    """Steps: a less important pod is placed in the last room; before its bind, a pod is nominated there whose
    victims free more than that room. Nothing was counted on the node since, so only the nomination tells.
    """
    await world.put_node("node-1", cpu="3")
    await world.put_pod("low-1", cpu="2", spec={"nodeName": "node-1", "priority": 1})
    await world.put_pod("thief", spec={"priority": 5})
    one, two = await world.hand(eviction="immediate"), await world.hand(settings=CALM)
    placed = await two.placed("thief")
    refused = await preemptor(world, one, cpu="3")
    await nominate(one, refused)
    await world.seen()

    outcome = await two.bind("thief", placed)

    assert outcome.kind == "contended"
    assert await world.node_of("thief") == ""


async def test_nomination_that_no_longer_helps_is_dropped_with_its_victims(world: World) -> None:
    """Steps: between decision and record a pod as important takes part of the room that the victims would leave."""
    await world.put_node("node-1", cpu="2")
    await world.put_pod("low-1", spec={"nodeName": "node-1", "priority": 1})
    hand = await world.hand(settings=CALM)
    refused = await preemptor(world, hand, cpu="2")
    await world.put_pod("equal", spec={"nodeName": "node-1", "priority": 10})
    await hand.seen()

    recorded = await nominate(hand, refused)

    assert not recorded.nominated
    assert "nominatedNodeName" not in (await world.pod("high"))["status"]
    assert (await world.record_of("high"))["victims"] == []


async def test_a_bind_elsewhere_between_decision_and_record_is_caught_up_with(world: World) -> None:
    await full_node(world, "low-1", "low-2", "low-3")
    await world.store.delete(keys.pod("default", "low-3"))
    await world.put_pod("late", spec={"priority": 1})
    one, two = await world.hand(settings=CALM), await world.hand(settings=CALM)
    refused = await preemptor(world, one, cpu="3")
    placed = await two.placed("late")

    async def meanwhile(_: Any, __: Any) -> None:
        one.store.before_txn = None
        assert (await two.bind("late", placed)).kind == "bound"

    one.store.before_txn = meanwhile
    recorded = await nominate(one, refused)

    assert not recorded.nominated  # the three CPUs would not be free without the third pod's leaving
    assert "nominatedNodeName" not in (await world.pod("high"))["status"]


async def test_a_refusal_without_nomination_clears_the_one_before(world: World) -> None:
    await full_node(world, "low-1")
    hand = await world.hand()
    refused = await preemptor(world, hand)
    await nominate(hand, refused)

    await hand.record("high", attempt=2)

    assert "nominatedNodeName" not in (await world.pod("high"))["status"]


async def crowded_by_an_equal(world: World) -> tuple[Hand, Refused, Recorded]:
    """A pod whose victims have left node-1, and an equal one that was just nominated there, with victims of its own.

    There is another node with pods to evict; the second one's refusal and record.
    """
    await full_node(world, "low-1", "low-2")
    hand = await world.hand(eviction="immediate", settings=CALM)
    refused = await preemptor(world, hand)
    await hand.activities.evict(eviction(refused, await nominate(hand, refused)))
    second = await preemptor(world, hand, name="second")
    recorded = await nominate(hand, second, name="second")
    assert (second.nominated_node, recorded.nominated) == ("node-1", True)
    await world.put_node("node-2", cpu="1")
    await world.put_pod("low-3", spec={"nodeName": "node-2", "priority": 0})
    await hand.seen()
    return hand, second, recorded


async def test_no_more_pods_are_evicted_where_an_equal_pods_victims_leave_next(world: World) -> None:
    hand, second, recorded = await crowded_by_an_equal(world)
    refused = await hand.refused("high")
    assert refused.nominated_node == "node-2"  # as kube-scheduler would decide

    again = await nominate(hand, refused, attempt=2)

    assert not again.nominated
    assert (await world.pod("high"))["status"]["nominatedNodeName"] == "node-1"
    await hand.activities.evict(eviction(second, recorded, name="second"))
    await hand.seen()
    for name in ("high", "second"):
        placed = await hand.placed(name)
        assert placed.node == "node-1"
        assert (await hand.bind(name, placed)).kind == "bound"
    assert await world.pod("low-3") is not None


@pytest.mark.parametrize(
    ("record", "nominated"),
    [
        ({}, False),
        ({"time": "2026-03-01T12:00:20Z"}, False),  # by a clock that is a little ahead
        ({"time": "2026-03-01T11:59:00Z"}, True),  # its evictions are not coming
        ({"time": "2100-01-01T00:00:00Z"}, True),
        ({"time": "soon"}, True),
        ({"nominated_node": "node-2"}, True),
        ({"create_revision": 1}, True),  # of an earlier pod of that name
        ({"victims": []}, True),
        ({"attempt": "many"}, True),  # a stranger's
    ],
)
async def test_only_evictions_that_are_about_to_happen_are_waited_for(
    world: World, record: dict[str, Any], nominated: bool
) -> None:
    hand, *_ = await crowded_by_an_equal(world)
    changed = await world.record_of("second") | record
    await world.store.put(keys.attempt("default", "second"), json.dumps(changed).encode())
    refused = await hand.refused("high")

    assert (await nominate(hand, refused, attempt=2)).nominated is nominated


async def test_a_pod_that_came_back_by_a_victims_name_is_not_about_to_leave(world: World) -> None:
    hand, second, _ = await crowded_by_an_equal(world)
    [victim] = second.victims
    name = victim.pod.split("/")[1]
    await world.store.delete(keys.pod("default", name))
    await world.put_pod(name, spec={"nodeName": "node-1", "priority": 1})
    await hand.seen()

    assert (await nominate(hand, await hand.refused("high"), attempt=2)).nominated


async def test_what_is_bound_while_the_records_of_others_are_read_counts(world: World) -> None:
    """The record is old, so the pod does not wait for the other's evictions; but its own would not help any more."""
    hand, *_ = await crowded_by_an_equal(world)
    old = await world.record_of("second") | {"time": "2026-03-01T11:59:00Z"}
    await world.store.put(keys.attempt("default", "second"), json.dumps(old).encode())
    refused = await hand.refused("high")
    get = hand.store.get

    async def slow(key: str, **more: Any) -> Any:
        if key == keys.attempt("default", "second"):
            await world.put_pod("late", spec={"nodeName": "node-2", "priority": 20})
            await hand.seen()
        return await get(key, **more)

    hand.store.get = slow  # type: ignore[method-assign]

    assert not (await nominate(hand, refused, attempt=2)).nominated
    assert await world.pod("late") is not None


async def test_a_nomination_that_was_cleared_meanwhile_is_not_kept(world: World) -> None:
    hand, *_ = await crowded_by_an_equal(world)
    refused = await hand.refused("high")

    async def cleared(_: Any, __: Any) -> None:
        hand.store.before_txn = None
        await world.change_pod("high", lambda pod: pod["status"].pop("nominatedNodeName"))

    hand.store.before_txn = cleared

    assert not (await nominate(hand, refused, attempt=2)).nominated
    assert "nominatedNodeName" not in (await world.pod("high"))["status"]


async def test_less_important_pods_lose_their_nomination_to_the_node(world: World) -> None:
    await full_node(world, "low-1")
    hand = await world.hand(eviction="immediate")
    await world.put_pod("middle", spec={"priority": 5}, status={"nominatedNodeName": "node-1"})
    await world.put_pod("equal", spec={"priority": 10}, status={"nominatedNodeName": "node-2"})
    refused = await preemptor(world, hand)

    await hand.activities.evict(eviction(refused, await nominate(hand, refused)))

    assert "nominatedNodeName" not in (await world.pod("middle"))["status"]
    assert (await world.pod("equal"))["status"] == {"nominatedNodeName": "node-2"}
    assert await world.pod("low-1") is None


async def test_decision_records_the_nominations_it_included(world: World) -> None:
    await world.put_node("node-1")
    created = await world.put_pod("other", spec={"priority": 9}, status={"nominatedNodeName": "node-1"})
    await world.put_pod("web")
    hand = await world.hand()

    [nominated] = (await hand.placed("web")).computation.nominated

    assert (nominated.pod, nominated.create_revision, nominated.node) == ("default/other", created, "node-1")


async def test_what_travels_of_a_preemption_names_every_victim_of_a_few(world: World) -> None:
    names = [f"low-{number}-{'x' * 40}" for number in range(LISTED)]
    await full_node(world, *names)
    hand = await world.hand()

    refused = await preemptor(world, hand, cpu=str(LISTED))

    assert sorted(one.pod for one in refused.victims) == sorted(f"default/{name}" for name in names)
    assert (refused.victim_count, refused.victims_digest) == (0, "")


# --- how long to wait -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "seconds"),
    [
        ("2026-03-01T12:00:30Z", 60.0),
        ("2026-03-01T13:00:30+01:00", 60.0),
        ("2026-03-01T11:59:00Z", -30.0),
        ("soon", 30.0),
    ],
)
def test_a_victim_is_overdue_thirty_seconds_after_its_grace(timestamp: str, seconds: float) -> None:
    assert nominations.until_overdue(timestamp, NOW) == seconds


def test_a_victim_is_the_very_pod() -> None:
    [victim] = nominations.as_victims((Pod("default", "low", "uid-low", create_revision=7),))

    assert victim == Victim(pod="default/low", create_revision=7, uid="uid-low")
    assert nominations.victim_identity(victim) == ("default", "low", 7)


# --- many preemptors, many turns ------------------------------------------------------------------


async def chain(hands: list[Hand], name: str, rng: random.Random, standing: asyncio.TaskGroup) -> bool:
    """What a pod's chain does, each activity on any worker, again when its answer is lost. Whether it was bound."""

    async def act(do: Callable[[Hand], Awaitable[Any]]) -> Any:
        while True:
            hand = rng.choice(hands)
            if rng.random() < 0.1:
                hand.store.fail_next(applied=rng.random() < 0.5)
            try:
                return await do(hand)
            except ApplicationError:
                await asyncio.sleep(0)

    async def stand_still(watching: Hand) -> None:
        watching.store.pause_watches()
        await turns(rng.randrange(PAUSE))
        watching.store.resume_watches()

    seen = 0
    for _ in range(40):
        decider = rng.choice(hands)
        if rng.random() < 0.2:
            standing.create_task(stand_still(decider))
        try:
            decided = await decider.place(name, revision=seen)
        except ApplicationError:
            continue
        if isinstance(decided, Placed):
            if (await act(lambda hand, placed=decided: hand.bind(name, placed))).kind == "bound":
                return True
        elif isinstance(decided, Gone):
            return decided.reason == "bound"
        elif not decided.only_assumed:
            recorded = await act(lambda hand, r=decided: hand.activities.record_refusal(refusal(r, name=name)))
            if isinstance(recorded, Recorded) and recorded.nominated and decided.victims:
                request = eviction(decided, recorded, name=name)
                evicted = await act(lambda hand, request=request: hand.activities.evict(request))
                seen = evicted.revision if isinstance(evicted, Evicted) else 0
        await turns(rng.randrange(PAUSE))
    return False


# By seed 95 an equal pod is nominated to a preemptor's node when its own victims have left and it is placed again.
@pytest.mark.parametrize("seed", [*range(6), 95])
async def test_preemptors_on_three_workers_bind_without_needless_evictions(world: World, seed: int) -> None:
    """Answers are lost and watches stand still for a while; every preemptor needs exactly two victims."""
    rng = random.Random(seed)
    low = {f"node-{number}": [f"low-{number}-{index}" for index in range(4)] for number in range(4)}
    for node, pods in low.items():
        await full_node(world, *pods, name=node)
    names = [f"high-{number}" for number in range(6)]
    for name in names:
        await world.put_pod(name, cpu="2", spec={"priority": 10})
    patience = BindSettings(catch_up=patient(20), behind=patient(20))
    hands = [await world.hand(settings=patience, eviction="immediate") for _ in range(3)]

    async with asyncio.TaskGroup() as standing:
        chains = [standing.create_task(chain(hands, name, rng, standing)) for name in names]

    assert all(one.result() for one in chains)
    left = [await world.pod(name) for pods in low.values() for name in pods]
    assert sum(pod is None for pod in left) == 2 * len(names)
    for node, pods in low.items():
        used = sum([await world.pod(name) is not None for name in pods])
        used += 2 * sum([await world.node_of(name) == node for name in names])
        assert used <= 4


# --- priorities by class --------------------------------------------------------------------------


async def put_class(world: World, name: str, value: int, **fields: Any) -> None:
    obj = {"metadata": {"name": name}, "value": value, **fields}
    await world.store.put(keys.stored("priorityclasses", "", name), json.dumps(obj).encode())


async def test_victims_are_chosen_and_evicted_by_the_values_of_their_classes(world: World) -> None:
    await put_class(world, "low", 1)
    await put_class(world, "high", 10)
    await world.put_node("node-1", cpu="1")
    await world.put_pod("low-1", spec={"nodeName": "node-1", "priorityClassName": "low"})
    hand = await world.hand(eviction="immediate")
    await world.put_pod("high", spec={"priorityClassName": "high"})
    await hand.seen()

    refused = await hand.refused("high")
    assert [one.pod for one in refused.victims] == ["default/low-1"]
    recorded = await nominate(hand, refused)
    await hand.seen()

    assert await evict(hand, eviction(refused, recorded)) == Evicted(evicted=("default/low-1",))


async def test_a_victim_whose_class_has_become_as_high_is_spared(world: World) -> None:
    await put_class(world, "low", 1)
    await world.put_node("node-1", cpu="1")
    await world.put_pod("low-1", spec={"nodeName": "node-1", "priorityClassName": "low"})
    hand = await world.hand(eviction="immediate")
    refused = await preemptor(world, hand)
    recorded = await nominate(hand, refused)
    await put_class(world, "low", 10)
    await hand.seen()

    outcome = await evict(hand, eviction(refused, recorded))

    assert outcome == Evicted(notes=("default/low-1 was not evicted: its priority is not lower",), complete=False)


async def test_a_class_that_never_preempts_keeps_its_pods_from_it(world: World) -> None:
    await put_class(world, "calm", 10, preemptionPolicy="Never")
    await full_node(world, "low-1")
    hand = await world.hand()
    await world.put_pod("high", spec={"priorityClassName": "calm"})
    await hand.seen()

    refused = await hand.refused("high")

    assert (refused.nominated_node, refused.victims) == ("", ())
    assert "preemption: not eligible due to preemptionPolicy=Never" in refused.message


async def test_pod_whose_priority_class_is_missing_is_refused(world: World) -> None:
    await world.put_node("node-1")
    hand = await world.hand()
    await world.put_pod("high", spec={"priorityClassName": "high"})
    await hand.seen()

    refused = await hand.refused("high")

    assert (refused.rejectors, refused.message) == (
        ("PriorityClass",),
        "no PriorityClass with name high was found, or it is invalid",
    )
