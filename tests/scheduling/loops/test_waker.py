"""Waking: those that fit now, no others, and no event is lost."""

from __future__ import annotations

import pytest
from temporalio.service import RPCError, RPCStatusCode

from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.state.queue.entry import Part, Reason
from wharfinger.settings import DispatchSettings


async def test_node_that_fits_wakes_the_pod_with_the_reason() -> None:
    async with Stage() as stage:
        await stage.waiting("p", cpu="2")
        revision = await stage.put_node("n", cpu="4")
        await stage.until(lambda: stage.attempts.woken)

        assert stage.attempts.woken == [
            ("p", Wake(revision=revision, event="NodeAdd", object="n", plugin="NodeResourcesFit", attempts=1))
        ]


async def test_node_that_fits_no_pod_wakes_no_pod() -> None:
    async with Stage() as stage:
        await stage.waiting("p", cpu="8")
        await stage.put_node("small", cpu="4")
        await stage.caught_up()

        assert stage.attempts.woken == []


async def test_full_node_wakes_no_pod_despite_its_hint() -> None:
    async with Stage() as stage:
        await stage.bind("tenant-of-it", "n", cpu="3")
        await stage.waiting("p", cpu="2")
        await stage.put_node("n", cpu="4")
        await stage.caught_up()

        assert stage.attempts.woken == []
        assert stage.metrics.wake_decisions.labels("no")._value.get() >= 1


async def test_event_without_interest_to_the_rejectors_costs_no_decision() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="1")
        await stage.waiting("p", cpu="2")
        await stage.bind("other", "n", cpu="100m")
        await stage.caught_up()

        assert stage.metrics.wake_decisions.labels("no")._value.get() == 0


async def test_room_wakes_a_pod_whose_recorded_reason_is_gone() -> None:
    """Steps: the node that was closed opens and is full by then, so its room counts, which no record says."""
    async with Stage() as stage:
        await stage.put_node("n", cpu="4", unschedulable=True)
        await stage.bind("tenant-of-it", "n", cpu="3")
        await stage.waiting("p", cpu="2", plugins=("NodeUnschedulable",))
        await stage.put_node("n", cpu="4")
        await stage.caught_up()
        assert stage.attempts.woken == []
        await stage.put_pod("p", cpu="2", labels={"a": "label"})
        await stage.caught_up()

        await stage.store.delete(keys.pod("default", "tenant-of-it"))
        await stage.until(lambda: stage.attempts.woken)

        assert stage.attempts.woken_names == ["p"]


async def test_one_room_wakes_one_pod_the_most_urgent_one() -> None:
    async with Stage() as stage:
        for name, priority in (("low", 0), ("high", 5), ("middle", 3)):
            await stage.waiting(name, cpu="3", priority=priority)
        await stage.put_node("n", cpu="4")
        await stage.caught_up()

        assert stage.attempts.woken_names == ["high"]


async def test_pods_that_arrived_at_one_moment_are_woken_in_order_of_creation() -> None:
    """[The younger one is a candidate first, because it came to wait after the event was noted]"""
    async with Stage() as stage:
        await stage.waiting("z", cpu="3")
        await stage.waiting("a", cpu="3")
        younger, older = stage.entry("a"), stage.entry("z")
        assert younger is not None
        assert older is not None
        candidacy = stage.loops.scheduling.waker._candidacy
        for entry in (younger, older):
            candidacy.add(entry, Reason("NodeAdd"))

        assert [entry.key.name for entry, _ in candidacy.take()] == ["z", "a"]


async def test_two_events_in_a_row_do_not_wake_two_pods_for_one_room() -> None:
    async with Stage() as stage:
        await stage.waiting("a", cpu="3")
        await stage.waiting("b", cpu="3")
        await stage.put_node("n", cpu="4")
        await stage.until(lambda: stage.attempts.woken)
        await stage.put_node("n", cpu="5")
        await stage.caught_up()

        assert stage.attempts.woken_names == ["a"]


async def test_pod_kept_out_by_a_woken_pod_is_decided_again_if_that_never_came() -> None:
    """No event tells that an expected pod did not come: only looking again does."""
    async with Stage() as stage:
        await stage.waiting("a", cpu="3")
        await stage.waiting("b", cpu="3")
        await stage.put_node("n", cpu="4")
        await stage.until(lambda: stage.attempts.woken)
        await stage.store.delete(keys.pod("default", "a"))
        await stage.caught_up()
        stage.later(1.5)
        await stage.until(lambda: "b" in stage.attempts.woken_names)


async def test_room_of_an_assumed_pod_is_decided_again_when_it_is_forgotten() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="4")
        await stage.put_pod("assumed", cpu="3")
        await stage.until(lambda: stage.part("assumed"))
        pod = stage.cache.pods[PodKey("default", "assumed")]
        stage.cache.assume(pod, "n")
        await stage.waiting("b", cpu="3", snapshot=1)
        await stage.caught_up()
        assert stage.attempts.woken == []

        stage.cache.forget(pod.identity)
        stage.later(1.5)
        await stage.until(lambda: stage.part("b") is not Part.WAITING)


async def test_an_event_between_the_refusals_snapshot_and_its_record_is_not_lost() -> None:
    async with Stage() as stage:
        await stage.put_pod("p", cpu="2")
        await stage.until(lambda: stage.part("p") is Part.IN_FLIGHT)
        snapshot = stage.cache.progress.revision
        await stage.put_node("n", cpu="4")
        await stage.caught_up()
        await stage.refuse("p", snapshot=snapshot)
        await stage.until(lambda: stage.attempts.woken)

        assert stage.attempts.woken[0][1].event == "NodeAdd"


async def test_an_event_the_refusal_knew_does_not_wake() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="1")
        await stage.waiting("p", cpu="2")
        await stage.caught_up()

        assert stage.attempts.woken == []
        assert stage.metrics.wake_decisions.labels("no")._value.get() == 0


async def test_gathered_event_does_not_wake_a_pod_whose_refusal_included_it() -> None:
    """The record may arrive while older events are being gathered."""
    async with Stage() as stage:
        await stage.waiting("other", cpu="9")
        await stage.put_pod("p", cpu="2")
        await stage.put_node("n", cpu="4")
        await stage.refuse("p")
        await stage.caught_up()

        assert stage.part("p") is Part.WAITING
        assert stage.attempts.woken == []


async def test_a_record_older_than_the_list_is_decided_once_at_the_start() -> None:
    """The events since were never seen: only the state can tell."""
    stage = Stage()
    await stage.put_pod("fits", cpu="2")
    await stage.refuse("fits")
    await stage.put_pod("does-not", cpu="9")
    await stage.refuse("does-not")
    await stage.put_node("n", cpu="4")
    async with stage:
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()

        assert [(name, wake.event) for name, wake in stage.attempts.woken] == [("fits", "TakeOver")]


async def test_sweep_wakes_a_missed_pod_with_a_signal_that_always_counts() -> None:
    stage = Stage(dispatching=DispatchSettings(hold=0.0, restart_every=300))
    async with stage:
        await stage.put_node("n", cpu="4")
        await stage.caught_up()
        await stage.waiting("p", cpu="2")  # refused by mistake: it fits, and nothing happens any more
        await stage.caught_up()
        assert stage.attempts.woken == []

        stage.clock.advance(301)
        stage.loops.scheduling.waker._kicked.set()  # type: ignore[attr-defined]
        await stage.until(lambda: stage.attempts.woken)

        assert [(name, wake.event) for name, wake in stage.attempts.woken] == [("p", "Sweep")]
        record = stage.loops.scheduling.view.records[PodKey("default", "p")]
        assert stage.attempts.woken[0][1].revision == 0 or stage.attempts.woken[0][1].revision > record.revision


async def test_a_pod_whose_chain_is_gone_is_started_instead() -> None:
    async with Stage() as stage:
        await stage.waiting("p", cpu="2")
        stage.attempts.closed.add("p")
        await stage.put_node("n", cpu="4")
        await stage.until(lambda: len(stage.attempts.started) == 2)

        assert stage.attempts.started[1] == ("p", "chain gone", True)


@pytest.mark.parametrize("error", [RPCError("away", RPCStatusCode.UNAVAILABLE, b""), RuntimeError("not connected")])
async def test_a_signal_that_fails_is_sent_again(error: Exception) -> None:
    async with Stage() as stage:
        stage.attempts.error = error
        await stage.waiting("p", cpu="2")
        stage.attempts.failing.add("p")
        await stage.put_node("n", cpu="4")
        await stage.caught_up_without_signals()
        assert stage.attempts.woken == []

        stage.attempts.failing.clear()
        await stage.until(lambda: stage.attempts.woken_names == ["p"])


async def test_chains_that_failed_otherwise_retry_by_themselves() -> None:
    async with Stage() as stage:
        await stage.waiting("p", cpu="2", reason="SchedulerError", plugins=())
        await stage.put_node("n", cpu="4")
        await stage.caught_up()

        assert stage.attempts.woken == []


async def test_the_pods_own_update_wakes_it_when_it_fits_now() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="4")
        await stage.caught_up()
        await stage.waiting("p", cpu="8")
        await stage.put_pod("p", cpu="2")
        await stage.until(lambda: stage.attempts.woken)

        assert stage.attempts.woken[0][1].object == "default/p"


async def test_status_only_change_of_the_pod_wakes_no_pod() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="4")
        await stage.caught_up()
        await stage.waiting("p", cpu="2")  # would fit, so that only the missing event keeps it
        await stage.put_pod("p", cpu="2", phase="Pending")
        await stage.caught_up()

        assert stage.attempts.woken == []


async def test_a_bound_pod_that_ends_makes_room() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="4")
        await stage.bind("old", "n", cpu="3")
        await stage.waiting("p", cpu="2")
        await stage.put_pod("old", cpu="3", node="n", phase="Succeeded")
        await stage.until(lambda: stage.attempts.woken)

        assert stage.attempts.woken[0][1].event == "AssignedPodDelete"


async def test_a_pod_refused_when_there_were_no_nodes_is_woken_by_the_first() -> None:
    async with Stage() as stage:
        await stage.waiting("p", cpu="2", plugins=())
        await stage.put_node("n", cpu="4")
        await stage.until(lambda: stage.attempts.woken_names == ["p"])


async def test_the_end_of_a_victim_wakes_its_preemptor() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="4")
        await stage.bind("low", "n", cpu="4")
        await stage.waiting("high", cpu="4", priority=10)
        await stage.caught_up()
        await stage.store.delete(keys.pod("default", "low"))
        await stage.until(lambda: stage.attempts.woken)

        [(name, wake)] = stage.attempts.woken
        assert (name, wake.event, wake.object) == ("high", "AssignedPodDelete", "default/low")


async def test_a_pod_is_woken_when_room_can_be_made_for_it() -> None:
    """Steps: a node appears, full of less important pods that were there before: nothing fits, but evicting helps."""
    async with Stage() as stage:
        await stage.bind("low", "n", cpu="4")
        await stage.waiting("high", cpu="4", priority=10)
        await stage.waiting("equal", cpu="4", priority=0)
        await stage.put_node("n", cpu="4")
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()

        assert stage.attempts.woken_names == ["high"]


MANY = DispatchSettings(hold=0.0, cohort_most=10)


async def test_pods_that_are_woken_go_together_after_their_back_off() -> None:
    async with Stage(dispatching=MANY) as stage:
        for number in range(9):
            await stage.waiting(f"p{number}", cpu="2")
        await stage.put_node("n", cpu="64")
        await stage.until(lambda: all(stage.part(f"p{number}") is Part.ACTIVE for number in range(9)))
        stage.later(1)
        await stage.until(lambda: stage.attempts.cohorts)
        await stage.caught_up()

        [cohort] = stage.attempts.cohorts
        assert sorted(cohort.names) == [f"p{number}" for number in range(9)]
        assert all(pod.chained and pod.recorded and pod.attempt == 2 for pod in cohort.pods)
        assert cohort.cause == "NodeAdd"
        assert stage.attempts.woken == []


async def test_pod_that_is_woken_while_a_group_counts_joins_the_next() -> None:
    """In a quiet system its own chain is signalled instead, as all tests above show."""
    async with Stage(dispatching=MANY) as stage:
        await stage.waiting("p", cpu="2")
        await stage.put_pod("counts", cpu="9")
        await stage.until(lambda: "counts" in stage.attempts.names)
        await stage.put_node("n", cpu="4")
        await stage.until(lambda: stage.part("p") is Part.ACTIVE)
        stage.later(1)
        await stage.bind("counts", "other", cpu="9")
        await stage.until(lambda: stage.attempts.cohorts)

        [pod] = stage.attempts.cohorts[0].pods
        assert (pod.name, pod.attempt, pod.woken_by) == ("p", 2, "")
        assert pod.wake == Wake(event="NodeAdd", object="n", plugin="NodeResourcesFit")
        assert stage.attempts.woken == []


async def test_with_cohorts_off_each_pod_that_fits_is_signalled() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohorts=False)) as stage:
        for number in range(8):
            await stage.waiting(f"p{number}", cpu="2")
        await stage.put_node("n", cpu="64")
        await stage.until(lambda: len(stage.attempts.woken) == 8)

        assert stage.attempts.cohorts == []


async def test_the_room_of_pods_on_their_way_together_is_kept_in_mind() -> None:
    """Steps: seven wait, the room is for six; another event, while they are on their way, wakes no pod again."""
    async with Stage(dispatching=MANY) as stage:
        for number in range(7):
            await stage.waiting(f"p{number}", cpu="2")
        await stage.put_node("n", cpu="12")
        await stage.until(lambda: len(stage.queue.active) == 6)
        stage.later(1)
        await stage.until(lambda: stage.attempts.cohorts)
        await stage.put_node("n", cpu="13")
        await stage.caught_up()

        assert stage.attempts.woken == []
        [cohort] = stage.attempts.cohorts
        assert len(cohort.pods) == 6
        # Which of seven equal pods stays behind depends on the order in which their records arrived.
        parts = [stage.part(f"p{number}") for number in range(7)]
        assert (parts.count(Part.IN_FLIGHT), parts.count(Part.WAITING)) == (6, 1)


async def test_pods_that_an_event_may_help_are_asked_for_once_a_class() -> None:
    """A hint for each of many equal pods would cost more than deciding."""
    async with Stage() as stage:
        for number in range(20):
            await stage.waiting(f"p{number}", cpu="8")
        for number in range(3):
            await stage.put_node(f"n{number}", cpu="4")
        await stage.caught_up()

        assert stage.metrics.wake_decisions.labels("no")._value.get() <= 3


async def test_no_room_is_kept_for_a_pod_whose_bind_waits_for_the_api() -> None:
    """It was woken for one node, and etcd shows it on another."""
    async with Stage() as stage:
        await stage.waiting("a", cpu="2")
        await stage.put_node("n", cpu="3")
        await stage.until(lambda: stage.attempts.woken_names == ["a"])
        await stage.put_node("m", cpu="2")
        await stage.caught_up()
        with stage.cache.unanswered.of([PodKey("default", "a")]):
            await stage.bind("a", "m", cpu="2")
            await stage.caught_up()
            await stage.waiting("b", cpu="2", snapshot=1)
            await stage.until(lambda: stage.attempts.woken_names == ["a", "b"])
