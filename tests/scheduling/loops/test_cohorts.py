"""Groups: of what has arrived, tracked by what etcd tells, and nothing is lost with one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.names import FailureType
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod
from wharfinger.scheduling.loops.cohorts import CohortNames, InputBudget
from wharfinger.scheduling.loops.dispatcher import CHAINS
from wharfinger.scheduling.loops.starts import LATER
from wharfinger.scheduling.model.promises import KubernetesSide
from wharfinger.scheduling.state.queue.entry import Entry, Part, Reason
from wharfinger.settings import DispatchSettings

BOOM = ApplicationError("boom", type=FailureType.SCHEDULER_ERROR)
SETTINGS = DispatchSettings(hold=0.0, cohort_most=6, cohorts_in_flight=2, parked_chains=3)


async def flood(stage: Stage, *names: str, **fields: Any) -> None:
    """Pods that are all there before any of them is started."""
    stage.loops.scheduling.dispatcher.serve(False)
    for name in names:
        await stage.put_pod(name, **fields)
    await stage.until(lambda: all(stage.part(name) is Part.ACTIVE for name in names))
    stage.loops.scheduling.dispatcher.serve(True)


async def turn_away(stage: Stage, name: str, **record: Any) -> None:
    """As `record_many` does it: a record that names the cohort, and no chain."""
    await stage.refuse(name, **{"workflow_id": "wharfinger/cohort/c", "parked": False, **record})


async def wake(stage: Stage, *names: str) -> None:
    """Have waiting pods placed with the next group; their back-off of one second is over."""
    for name in names:
        entry = stage.entry(name)
        assert entry is not None
        stage.queue.wake(entry, Reason("NodeAdd"))
    stage.later(1)


def sli_seconds(stage: Stage) -> float:
    """What `pod_scheduling_sli_duration_seconds` came to, of all pods."""
    return float(stage.metrics.sli_duration.labels("1")._sum.get())


# --- settings -------------------------------------------------------------------------------------


async def test_cohorts_larger_than_temporal_can_list_are_capped_with_a_log(caplog: pytest.LogCaptureFixture) -> None:
    """The command refuses such a limit; one that was stored before goes on working."""
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohort_most=400)) as stage:
        assert stage.queue.window.size == 204

    said = [record.getMessage() for record in caplog.records if "cohorts_capped" in record.getMessage()]
    assert said == ["cohorts_capped cohort_most=400 effect=204"]


async def test_settings_without_effect_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    settings = DispatchSettings(hold=0.0, cohort_from=24, completing=20)
    async with Stage(dispatching=settings) as stage:
        stage.loops.scheduling.dispatcher.configure(replace(settings, cohort_most=100))

    said = [record.getMessage() for record in caplog.records if "without_effect" in record.getMessage()]
    assert said == [
        "setting_without_effect name=cohort_from reason=groups_take_what_has_arrived",
        "setting_without_effect name=completing reason=groups_take_what_has_arrived",
    ]


def test_input_of_a_cohort_stays_within_its_bytes() -> None:
    def entry(name: str) -> Entry:
        return Entry(Pod(namespace="ns", name=name, uid="u" * 36), 0.0, 0.0, Part.ACTIVE, "seen")

    budget = InputBudget(1000)
    taken = [name for name in ("a" * 200, "é" * 200, "b" * 200, "c" * 200) if budget.fits(entry(name))]

    assert [name[0] for name in taken] == ["a", "b", "c"]


def test_turns_of_cohorts_that_were_not_started_are_taken_by_the_next() -> None:
    """Workers wait for the cohort before: a turn that never comes would cost the next one a second."""
    names = CohortNames(random.Random(1))
    turns = [names.next_turn() for _ in range(4)]
    names.not_started(turns[0])
    names.started(turns[1])
    names.not_started(turns[2])
    names.not_started(turns[3])

    assert names.next_turn().number == 3


# --- forming and following ------------------------------------------------------------------------


async def test_pod_in_a_quiet_system_goes_alone_and_what_follows_goes_together() -> None:
    async with Stage() as stage:
        await stage.put_pod("first")
        await stage.until(lambda: stage.attempts.names == ["first"])
        for name in "abc":
            await stage.put_pod(name)
        await stage.caught_up()
        assert stage.attempts.cohorts == []

        await stage.bind("first", "n")
        await stage.until(lambda: stage.attempts.cohorts)
        assert stage.attempts.cohorts[0].names == ["a", "b", "c"]
        assert stage.attempts.names == ["first"]


async def test_a_flood_is_placed_by_full_groups_in_order_and_in_turns() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stage.loops.scheduling.dispatcher.serve(False)
        for number in range(6):
            await stage.put_pod(f"low{number}")
        for number in range(7):
            await stage.put_pod(f"high{number}", priority=5)
        await stage.caught_up()
        stage.loops.scheduling.dispatcher.serve(True)
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)
        await stage.caught_up()

        assert stage.attempts.cohorts[0].names == [f"high{number}" for number in range(6)]
        assert stage.attempts.cohorts[1].names == ["high6", "low0", "low1", "low2", "low3", "low4"]
        first, second = stage.attempts.cohorts
        assert first.turn.dispatcher == second.turn.dispatcher
        assert (first.turn.number, second.turn.number) == (1, 2)
        assert first.name != second.name
        assert first.cause == "seen"
        assert stage.attempts.started == []
        assert stage.part("low5") is Part.ACTIVE


async def test_group_counts_until_the_api_shows_its_binds() -> None:
    """[etcd shows a promised pod bound before the API does]: the next group would compete with these binds."""
    async with Stage(dispatching=SETTINGS) as stage:
        await flood(stage, "p0", "p1", "p2")
        await stage.until(lambda: stage.attempts.cohorts)
        stage.cache.kubernetes = KubernetesSide()
        p0, p1, p2 = (PodKey("default", name) for name in ("p0", "p1", "p2"))
        with stage.cache.unanswered.of([p0, p1, p2], promised={p0}) as bound:
            for name in ("p0", "p1", "p2"):
                await stage.bind(name, "n")
            await stage.put_pod("late")
            await stage.store.delete("/registry/pods/default/p2")
            stage.clock.advance(1.0)
            await stage.caught_up()
            stage.run_ends.failed(f"wharfinger/cohort/{stage.attempts.cohorts[0].name}", BOOM)
            await stage.caught_up()
            assert stage.attempts.names == []
            assert [stage.part(name) for name in ("p0", "p1", "p2")] == [None] * 3
            assert sli_seconds(stage) == 0
            stage.clock.advance(1.0)
            bound.update((p0, p1))
        await stage.caught_up()
        assert stage.attempts.names == []
        await stage.store.put(keys.promise(*p0), b"not proven")  # it shows no more than a copy that ends one
        await stage.until(lambda: stage.attempts.names == ["late"])
        assert sli_seconds(stage) == 4.0


async def test_a_pod_whose_bind_waits_for_the_api_is_not_started_again() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.attempts.names)
        with stage.cache.unanswered.of([PodKey("default", "p")]):
            await stage.bind("p", "n")
            await stage.caught_up()
            stage.later(31)
            await stage.caught_up()

        assert stage.attempts.names == ["p"]


async def test_a_pod_whose_bind_the_api_refused_keeps_its_first_time() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.attempts.names)
        with stage.cache.unanswered.of([PodKey("default", "p")]):
            await stage.bind("p", "n")
            await stage.applied()
            stage.clock.advance(5)
            await stage.put_pod("p")
            await stage.applied()
            entry = stage.entry("p")
            assert entry is not None
            assert entry.since == stage.clock() - 5
            assert len(stage.queue.window) == 0
        assert stage.entry("p") is entry


async def test_group_that_hangs_lets_the_next_one_start_when_it_is_overdue() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.put_pod("hangs")
        await stage.until(lambda: stage.attempts.names == ["hangs"])
        await stage.put_pod("next")
        await stage.caught_up()
        stage.later(2.9)
        await stage.caught_up()
        assert stage.attempts.names == ["hangs"]

        stage.later(0.2)
        await stage.until(lambda: stage.attempts.names == ["hangs", "next"])
        stage.later(3.1)
        await stage.put_pod("third")
        await stage.caught_up()
        assert len(stage.attempts.names) == 2  # as many as may be in flight


async def test_with_cohorts_off_every_pod_has_its_own_attempt() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohorts=False)) as stage:
        await flood(stage, *[f"p{number}" for number in range(20)])
        await stage.until(lambda: len(stage.attempts.started) == 20)

        assert stage.attempts.cohorts == []


async def test_cohorts_off_leaves_woken_pods_with_a_parked_chain_to_a_cohort() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.waiting("p")
        entry = stage.entry("p")
        assert entry is not None
        stage.loops.scheduling.dispatcher.serve(False)
        stage.queue.wake(entry, Reason("NodeAdd"))
        stage.loops.scheduling.dispatcher.configure(replace(SETTINGS, cohorts=False))
        stage.loops.scheduling.dispatcher.serve(True)
        stage.later(1)
        await stage.until(lambda: stage.attempts.cohorts)

        assert stage.attempts.cohorts[0].names == ["p"]


async def test_cohort_without_outcomes_in_etcd_is_formed_again() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: len(stage.attempts.cohorts) == 1)
        stage.later(29)
        await stage.caught_up()
        assert len(stage.attempts.cohorts) == 1

        stage.later(2)
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)

        assert stage.attempts.cohorts[1].names == ["a", "b", "c", "d"]
        assert stage.attempts.cohorts[1].cause == "unconfirmed"
        assert stage.attempts.cohorts[1].name != stage.attempts.cohorts[0].name


async def test_start_that_succeeded_but_lost_its_answer_counts_as_accepted() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stage.attempts.losing = 1
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)
        await stage.caught_up()

        assert stage.attempts.cohorts[0] == stage.attempts.cohorts[1]
        assert all(entry is not None and entry.started_at for entry in map(stage.entry, "abcd"))


async def test_pods_of_a_failed_start_keep_their_places_and_one_of_them_probes() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stage.attempts.failing.add("*")
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: stage.queue.window.size == 1)
        await stage.put_pod("e")
        await stage.put_pod("urgent", priority=9)
        await stage.applied()
        assert len(stage.queue.in_flight) <= 1

        stage.attempts.failing.clear()
        await stage.until(lambda: stage.attempts.names)
        assert stage.attempts.cohorts == []
        [probe] = stage.attempts.names
        await stage.bind(probe, "n")
        await stage.until(lambda: stage.attempts.cohorts)
        assert [probe, *stage.attempts.cohorts[0].names] in (["a", "urgent", *"bcde"], ["urgent", *"abcde"])


async def test_pod_whose_input_temporal_refuses_costs_the_others_one_start() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stage.attempts.error = RPCError("no such name", RPCStatusCode.INVALID_ARGUMENT, b"")
        stage.attempts.failing.add("poison")
        await flood(stage, "a", "b", "poison", "d")
        await stage.until(lambda: sorted(stage.attempts.names) == ["a", "b", "d"])

        assert stage.attempts.cohorts == []
        assert stage.part("poison") is not None
        await stage.put_pod("later")
        await stage.until(lambda: "later" in stage.attempts.names)


async def test_pod_whose_start_alone_fails_twice_delays_no_others() -> None:
    """Temporal says nothing about the pod, as in an outage: only that others are accepted shows whose fault it is."""
    async with Stage(dispatching=SETTINGS) as stage:
        stage.attempts.failing.add("poison")
        await flood(stage, "poison", "b", "c", "d")
        await stage.until(lambda: stage.attempts.names == ["b"])
        await stage.bind("b", "n")
        await stage.until(lambda: stage.attempts.cohorts)

        assert stage.attempts.cohorts[0].names == ["c", "d"]
        entry = stage.entry("poison")
        assert entry is not None
        assert not entry.alone  # Temporal has accepted no other start since it failed last
        stage.later(LATER)
        await stage.until(lambda: entry.alone)
        stage.attempts.failing.clear()
        stage.later(LATER)
        await stage.until(lambda: "poison" in stage.attempts.names)
        await turn_away(stage, "poison")
        await stage.until(lambda: not entry.alone)


# --- a run that fails -----------------------------------------------------------------------------


async def test_pods_of_a_failed_run_return_at_once_and_the_second_time_alone() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        names = ["a", "b", "c", "d"]
        await flood(stage, *names)
        await stage.until(lambda: stage.attempts.cohorts)
        first = stage.attempts.cohorts[0].name
        await stage.bind("a", "n")
        await stage.until(lambda: stage.part("a") is None)
        stage.run_ends.failed("wharfinger/cohort/other", BOOM)
        stage.run_ends.failed(f"wharfinger/cohort/{first}", BOOM)
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)
        assert stage.attempts.cohorts[1].names == ["b", "c", "d"]
        assert stage.attempts.cohorts[1].cause == "run failed"

        stage.run_ends.failed(f"wharfinger/cohort/{stage.attempts.cohorts[1].name}", BOOM)
        await stage.until(lambda: stage.attempts.names == ["b", "c", "d"])
        assert len(stage.attempts.cohorts) == 2
        await turn_away(stage, "b")
        await turn_away(stage, "c")
        await stage.until(lambda: stage.part("c") is Part.WAITING)
        entries = {name: stage.entry(name) for name in "bcd"}
        assert {name: entry.alone for name, entry in entries.items() if entry} == {"b": False, "c": False, "d": True}


async def test_run_that_the_store_did_not_answer_sets_no_pod_apart() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await flood(stage, "a", "b", "c", "d")
        for cohorts in range(1, 5):
            await stage.until(lambda cohorts=cohorts: len(stage.attempts.cohorts) == cohorts)
            outage = ApplicationError("the scheduler failed", type=FailureType.SCHEDULER_ERROR)
            outage.__cause__ = ApplicationError("no answer from the store", type=FailureType.UNAVAILABLE)
            stage.run_ends.failed(f"wharfinger/cohort/{stage.attempts.cohorts[-1].name}", outage)
        await stage.until(lambda: len(stage.attempts.cohorts) == 5)

        assert stage.attempts.cohorts[4].names == ["a", "b", "c", "d"]
        assert stage.attempts.cohorts[4].cause == "unanswered"
        assert stage.attempts.started == []


async def test_overdue_run_that_failed_elsewhere_returns_its_pods() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: stage.attempts.cohorts)
        workflow_id = f"wharfinger/cohort/{stage.attempts.cohorts[0].name}"
        stage.later(2.9)
        await stage.caught_up()
        assert stage.attempts.watched == []
        stage.later(0.2)
        await stage.until(lambda: stage.attempts.watched == [workflow_id])
        stage.attempts.ends[workflow_id].set_result(BOOM)
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)

        assert stage.attempts.cohorts[1].names == ["a", "b", "c", "d"]
        assert stage.attempts.cohorts[1].cause == "run failed"
        assert stage.attempts.watched == [workflow_id]


async def test_the_end_of_an_overdue_run_is_asked_for_again_whatever_the_error() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await flood(stage, "a", "b")
        await stage.until(lambda: stage.attempts.cohorts)
        workflow_id = f"wharfinger/cohort/{stage.attempts.cohorts[0].name}"
        stage.later(3.1)
        await stage.until(lambda: stage.attempts.watched)
        stage.attempts.ends.pop(workflow_id).set_exception(RuntimeError("the failure cannot be decoded"))
        await stage.until(lambda: stage.attempts.watched == [workflow_id] * 2)
        stage.attempts.ends[workflow_id].set_result(BOOM)
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)


async def test_lone_run_that_failed_counts_no_more_and_its_chain_goes_on() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.put_pod("fails")
        await stage.until(lambda: stage.attempts.names == ["fails"])
        await stage.put_pod("next")
        entry = stage.entry("fails")
        assert entry is not None
        stage.run_ends.failed(stage.attempts.workflow_id(entry.pod), BOOM)
        await stage.until(lambda: stage.attempts.names == ["fails", "next"])

        assert stage.part("fails") is Part.IN_FLIGHT
        await stage.bind("next", "n")
        await stage.until(lambda: stage.part("next") is None)
        stage.later(31)
        await stage.until(lambda: stage.attempts.names.count("fails") == 2)


# --- who is turned away ---------------------------------------------------------------------------


async def test_pods_refused_by_a_group_are_woken_together_without_a_chain() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        names = ["a", "b", "c", "d"]
        await flood(stage, *names, cpu="2")
        await stage.until(lambda: stage.attempts.cohorts)
        for name in names:
            await turn_away(stage, name, attempt=2)
        await stage.caught_up()
        assert [stage.part(name) for name in names] == [Part.WAITING] * 4
        assert (stage.queue.waiting.chains, stage.queue.waiting.chainless) == (0, 4)

        await stage.put_node("n", cpu="8")
        await stage.until(lambda: all(stage.part(name) is Part.ACTIVE for name in names))
        stage.later(1.9)
        await stage.caught_up()
        assert len(stage.attempts.cohorts) == 1  # the back-off after the second attempt is two seconds
        stage.later(0.2)
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)
        second = stage.attempts.cohorts[1]

        assert sorted(second.names) == names
        assert second.cause == "NodeAdd"
        assert {(pod.attempt, pod.chained, pod.recorded) for pod in second.pods} == {(3, False, True)}
        assert stage.attempts.started == []
        assert stage.attempts.woken == []


async def test_the_number_of_a_refused_pods_attempt_survives_its_worker() -> None:
    """And its back-off begins anew with the worker that takes it over: never shorter, at most ten seconds longer."""
    async with Stage(dispatching=SETTINGS) as first:
        await first.put_pod("p", cpu="2")
        await turn_away(first, "p", attempt=9)
    async with Stage(first.store, clock=first.clock, dispatching=SETTINGS) as stage:
        await stage.until(lambda: stage.part("p") is Part.WAITING)
        await stage.put_node("n", cpu="4")
        await stage.until(lambda: stage.part("p") is Part.ACTIVE)
        await stage.caught_up()
        assert stage.attempts.cohorts == []
        stage.later(10)
        await stage.until(lambda: stage.attempts.cohorts)

        assert stage.attempts.cohorts[0].pods[0].attempt == 10


async def test_a_pod_without_a_chain_goes_into_a_group_again_slowly_for_ever() -> None:
    """Whatever was missed, and without an event."""
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.put_pod("p")
        await turn_away(stage, "p")
        await stage.until(lambda: stage.part("p") is Part.WAITING)
        for number in (1, 2):
            stage.later(450)
            await stage.until(lambda number=number: len(stage.attempts.cohorts) == number)
            await turn_away(stage, "p", attempt=number + 1)
            await stage.until(lambda: stage.part("p") is Part.WAITING)

        assert [cohort.cause for cohort in stage.attempts.cohorts] == ["level", "level"]
        assert [cohort.pods[0].attempt for cohort in stage.attempts.cohorts] == [2, 3]


async def test_a_pod_that_its_own_attempt_may_help_is_started_at_once() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, parked_chains=0)) as stage:
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: stage.attempts.cohorts)
        await turn_away(stage, "a")
        await turn_away(stage, "b", urgent=True, reason="Contended", attempt=3)
        await stage.until(lambda: stage.attempts.started)
        await stage.caught_up()

        [(name, cause, check_queue)] = stage.attempts.started
        assert (name, check_queue) == ("b", True)
        assert cause.startswith("cohort wharfinger/cohort/c@")
        assert stage.attempts.counted_from == {"b": 3}


async def test_pods_without_outcomes_of_two_cohorts_start_one_by_one() -> None:
    """One of them may be what the cohorts fail by: together they would fail for ever."""
    async with Stage(dispatching=SETTINGS) as stage:
        names = ["a", "b", "c", "d"]
        await flood(stage, *names)
        for cohorts in (1, 2):
            await stage.until(lambda cohorts=cohorts: len(stage.attempts.cohorts) == cohorts)
            await stage.until(lambda: all(stage.part(name) is Part.IN_FLIGHT for name in names))
            await stage.caught_up()
            assert stage.attempts.started == []
            stage.later(31)
        await stage.until(lambda: len(stage.attempts.started) == 4)

        assert len(stage.attempts.cohorts) == 2
        assert stage.attempts.names == names


async def test_chains_that_no_record_confirms_do_not_keep_others_from_theirs() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        stuck = [f"a{number:02}" for number in range(CHAINS)]
        names = [*stuck, "late"]
        await flood(stage, *stuck)
        stage.clock.advance(0.1)
        await stage.put_pod("late")
        await stage.until(lambda: stage.part("late") is not None)
        stage.loops.scheduling.dispatcher.serve(False)
        for name in names:
            await turn_away(stage, name, urgent=True)
        await stage.until(lambda: all(stage.part(name) is Part.WAITING for name in names))
        stage.loops.scheduling.dispatcher.serve(True)
        await stage.until(lambda: stage.queue.waiting.urgent.unconfirmed == CHAINS)
        await stage.caught_up()
        assert "late" not in stage.attempts.names
        stage.later(31)
        await stage.until(lambda: "late" in stage.attempts.names)


async def test_a_chain_no_record_confirms_is_started_again() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await flood(stage, "a", "b", "c", "d")
        await stage.until(lambda: stage.attempts.cohorts)
        await turn_away(stage, "a", urgent=True)
        await stage.until(lambda: stage.attempts.names == ["a"])
        assert stage.attempts.woken == []
        stage.later(31)
        await stage.until(lambda: stage.attempts.names.count("a") == 2)

        # Its start may have joined a chain that is parked, though the record does not say so.
        await stage.until(lambda: ("a", Wake(event="Unconfirmed")) in stage.attempts.woken)


async def test_pod_without_a_chain_that_fits_now_is_started_not_signalled() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, parked_chains=0)) as stage:
        await flood(stage, "a", "b", "c", "d", cpu="3")
        await stage.until(lambda: stage.attempts.cohorts)
        await turn_away(stage, "a")
        await stage.until(lambda: stage.part("a") is Part.WAITING)
        for name in "bcd":
            await stage.store.delete(f"/registry/pods/default/{name}")
        await stage.put_node("n", cpu="4")
        await stage.until(lambda: stage.part("a") is Part.ACTIVE)
        stage.later(1)
        await stage.until(lambda: stage.part("a") is Part.IN_FLIGHT)

        assert stage.attempts.woken == []


# --- who was woken with others --------------------------------------------------------------------


async def test_woken_pod_goes_by_cohort_and_its_parked_chain_is_signalled_later() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.waiting("p")
        entry = stage.entry("p")
        assert entry is not None
        await wake(stage, "p")
        await stage.until(lambda: stage.attempts.cohorts)
        [cohort] = stage.attempts.cohorts

        assert cohort.cause == "NodeAdd"
        [pod] = cohort.pods
        assert pod == CohortPod(
            namespace="default",
            name="p",
            uid=entry.pod.uid,
            revision=entry.pod.mod_revision,
            attempt=2,
            recorded=True,
            chained=True,
            record_revision=entry.record_revision,
            wake=Wake(event="NodeAdd"),
        )
        assert stage.attempts.names == ["p"]  # before it was refused

        await stage.bind("p", "n")
        await stage.until(lambda: stage.attempts.woken)
        assert [(name, wake.event) for name, wake in stage.attempts.woken] == [("p", "PodBound")]
        assert len(stage.queue) == 0


async def test_a_woken_pod_that_is_refused_again_waits_with_its_chain() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.waiting("p")
        entry = stage.entry("p")
        assert entry is not None
        await wake(stage, "p")
        await stage.until(lambda: stage.attempts.cohorts)
        await stage.refuse("p")
        await stage.until(lambda: stage.part("p") is Part.WAITING)

        assert not entry.together
        assert stage.queue.waiting.chains == 1


async def test_the_parked_chain_of_a_pod_whose_room_was_taken_is_woken_at_once() -> None:
    """No event would tell: the room that the cohort chose is gone, and its runners-up, but perhaps no other."""
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.waiting("p")
        entry = stage.entry("p")
        assert entry is not None
        await wake(stage, "p")
        await stage.until(lambda: stage.attempts.cohorts)
        await stage.refuse("p", reason="Contended", plugins=(), urgent=True)
        await stage.until(lambda: stage.attempts.woken)

        assert stage.attempts.woken == [("p", Wake(event="OwnAttempt", attempts=1))]
        assert stage.part("p") is Part.WAITING


async def test_chain_started_beside_a_cohort_is_signalled_when_its_pod_is_bound() -> None:
    """Its start told nothing in time; by now its run may be parked, and no record need say so."""
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.attempts.names == ["p"])
        await stage.caught_up()
        stage.loops.scheduling.dispatcher.serve(False)
        stage.later(31)
        stage.queue.return_overdue()
        await flood(stage, "a", "b", "c")
        await stage.until(lambda: stage.attempts.cohorts)
        assert sorted(stage.attempts.cohorts[0].names) == ["a", "b", "c", "p"]
        for name in "abcp":
            await stage.bind(name, "n")
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()

        assert [(name, wake.event) for name, wake in stage.attempts.woken] == [("p", "PodBound")]


async def test_chains_of_bound_pods_are_not_signalled_during_a_flood() -> None:
    async with Stage(dispatching=SETTINGS) as stage:
        await stage.waiting("p")
        await wake(stage, "p")
        await stage.until(lambda: stage.attempts.cohorts)
        names = [f"f{number:02}" for number in range(12)]
        await flood(stage, *names)
        await stage.until(lambda: len(stage.attempts.cohorts) == 2)
        await stage.bind("p", "n")
        await stage.until(lambda: len(stage.attempts.cohorts) == 3)
        await stage.caught_up()
        assert stage.attempts.woken == []

        for name in names[:6]:
            await stage.bind(name, "n")
        await stage.until(lambda: stage.attempts.woken_names == ["p"])
