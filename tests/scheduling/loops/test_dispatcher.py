"""Starting: bounded, level-triggered, never waiting for results, and nothing stands in the way."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.scheduling.stage import Stage, turns
from wharfinger.etcd import keys
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.loops import dispatcher
from wharfinger.scheduling.loops.starts import LATER, LONGEST_TRICKLE, TRICKLE
from wharfinger.scheduling.state.queue.entry import Part
from wharfinger.settings import DispatchSettings
from wharfinger.telemetry import Metrics


async def test_a_pod_seen_is_started_once_and_its_task_queue_is_not_asked_for() -> None:
    async with Stage() as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.attempts.started)

        assert stage.attempts.started == [("p", "seen", False)]
        assert stage.part("p") is Part.IN_FLIGHT


async def test_no_more_than_the_bound_are_in_flight_and_facts_of_etcd_make_room() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohorts=False, in_flight=3)) as stage:
        for number in range(5):
            await stage.put_pod(f"p{number}")
        await stage.until(lambda: len(stage.attempts.names) == 3 and len(stage.queue.active) == 2)
        assert stage.attempts.names == ["p0", "p1", "p2"]

        await stage.bind("p0", "n")
        await stage.until(lambda: len(stage.attempts.names) == 4)

        await stage.refuse("p1")
        await stage.until(lambda: len(stage.attempts.names) == 5)
        assert stage.part("p0") is None
        assert stage.part("p1") is Part.WAITING


async def test_the_urgent_pod_goes_first() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohorts=False, in_flight=1)) as stage:
        await stage.put_pod("first")
        await stage.put_pod("low", priority=1)
        await stage.put_pod("high", priority=9)
        await stage.caught_up()
        await stage.bind("first", "n")
        await stage.until(lambda: len(stage.attempts.names) == 2)

        assert stage.attempts.names == ["first", "high"]


async def test_a_start_that_joined_a_dying_run_is_repeated() -> None:
    """[A start may join a run that is just ending]: accepted, and nothing ever comes of it."""
    async with Stage() as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.attempts.started)
        stage.later(29)
        await stage.caught_up()
        assert len(stage.attempts.started) == 1

        stage.later(2)
        await stage.until(lambda: len(stage.attempts.started) == 2)

        assert stage.attempts.started[1] == ("p", "unconfirmed", True)


async def test_a_pod_that_lost_its_node_is_started_once_its_run_has_ended() -> None:
    """[A writer that does not compare puts the document that it read before the bind]"""
    async with Stage() as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.attempts.started)
        await stage.bind("p", "n")
        await stage.until(lambda: stage.part("p") is None)
        await stage.put_pod("p")
        await stage.caught_up()
        assert stage.attempts.names == ["p"]

        stage.later(2.1)
        await stage.until(lambda: stage.attempts.names == ["p", "p"])


async def test_start_that_joined_a_parked_run_without_a_record_wakes_it_once() -> None:
    """[Etcd restored to before the record, Temporal not; or an operator deleted it]: it would be parked for an hour."""
    async with Stage() as stage:
        await stage.waiting("p")
        await stage.store.delete(keys.attempt("default", "p"))
        await stage.until(lambda: len(stage.attempts.started) == 2)
        for starts in (3, 4):
            await stage.caught_up()
            stage.later(31)
            await stage.until(lambda wanted=starts: len(stage.attempts.started) == wanted)
        await stage.caught_up()

        assert stage.attempts.woken_names == ["p"]
        assert stage.attempts.woken[0][1] == Wake(event="Unconfirmed")


async def test_during_an_outage_starts_are_tried_again_until_accepted() -> None:
    """[The SDK's client gives up during a long outage]: the dispatcher does not."""
    async with Stage() as stage:
        stage.attempts.failing.add("*")
        await stage.put_pod("p")
        await stage.until(lambda: stage.attempts.tries >= 3)
        stage.attempts.failing.clear()
        await stage.until(lambda: stage.attempts.started)

        assert stage.attempts.names == ["p"]
        assert stage.metrics.start_failures._value.get() >= 3


async def test_pod_that_cannot_be_started_delays_no_other_pod() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohorts=False, in_flight=1)) as stage:
        stage.attempts.failing.add("poison")
        await stage.put_pod("poison", priority=10)
        await stage.put_pod("good")
        await stage.until(lambda: stage.attempts.names == ["good"])
        assert stage.part("poison") is Part.ACTIVE

        stage.attempts.failing.clear()
        await stage.bind("good", "n")
        await stage.caught_up()
        stage.later(LATER)
        await stage.until(lambda: stage.attempts.names == ["good", "poison"])


async def test_pods_found_at_the_start_are_taken_over_after_the_hold() -> None:
    stage = Stage(dispatching=DispatchSettings(hold=2.0, cohorts=False))
    await stage.put_pod("fresh")
    await stage.put_pod("refused")
    await stage.refuse("refused")
    await stage.put_pod("tenant", labels={"wharfinger.dev/tenant": "gone"})
    async with stage.in_place_of_another():
        await stage.caught_up()
        assert stage.attempts.started == []

        stage.later(2.0)
        await stage.until(lambda: len(stage.attempts.started) == 3)

        # A chain may sit on an unpolled task queue only where there was a tenant or an attempt before.
        assert sorted(stage.attempts.started) == [
            ("fresh", "take-over", False), ("refused", "level", True), ("tenant", "take-over", True),
        ]  # fmt: skip


async def test_a_waiting_pod_is_started_again_slowly_for_ever() -> None:
    """A chain that an operator terminated comes back, though no event shows it."""
    async with Stage() as stage:
        await stage.waiting("p")
        for times in (1, 2, 3):
            stage.later(450)
            await stage.until(lambda times=times: stage.attempts.names == ["p"] * (times + 1))

        assert stage.attempts.started[1:] == [("p", "level", True)] * 3
        assert stage.part("p") is Part.WAITING


async def test_a_worker_that_does_not_dispatch_starts_and_owns_nothing() -> None:
    stage = Stage(dispatch="none")
    await stage.put_pod("p")
    async with stage:
        await stage.until(lambda: stage.loops.checks()["serving"] == "ok")
        await stage.caught_up()

        assert stage.attempts.started == []
        assert stage.loops.scheduling.shards.members == frozenset()


async def test_starts_follow_each_other_without_a_tick_from_the_lowest_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "TICK", 600.0)  # each start is followed by the next, no clock has to come round
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohorts=False)) as stage:
        stage.loops.scheduling.dispatcher.serve(False)
        for number in range(40):
            await stage.put_pod(f"p{number}")
        await stage.caught_up()
        stage.loops.scheduling.dispatcher.serve(True)
        await stage.until(lambda: len(stage.attempts.started) == 40)


async def test_few_pods_start_in_an_outage_and_the_most_urgent_first_after_it() -> None:
    """Those that wait for an answer are few, so that a later one of more importance comes next."""
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohorts=False)) as stage:
        stage.attempts.failing.add("*")
        for number in range(200):
            await stage.put_pod(f"p{number}")
        await stage.until(lambda: stage.attempts.tries >= 12)
        assert len(stage.queue.in_flight) <= 4

        await stage.put_pod("urgent", priority=9)
        await stage.caught_up()
        stage.loops.scheduling.dispatcher.serve(False)
        await stage.until(lambda: not len(stage.queue.in_flight))  # each start was given up, and is deferred
        stage.attempts.failing.clear()
        stage.later(LATER)
        stage.loops.scheduling.dispatcher.serve(True)
        await stage.until(lambda: "urgent" in stage.attempts.names)
        assert stage.attempts.names.index("urgent") <= 4


async def test_while_temporal_is_late_pods_wait_in_the_queue_instead_of_in_there() -> None:
    """Twelve workers that share one would fill it with more than it answers in time, and nothing would get done."""
    async with Stage(dispatching=DispatchSettings(hold=0.0, cohorts=False)) as stage:
        stage.attempts.meanwhile = lambda: stage.later(1.0)
        for number in range(20):
            await stage.put_pod(f"p{number}")
        await stage.caught_up()
        assert len(stage.attempts.started) <= 2

        stage.attempts.meanwhile = lambda: None
        for number in range(20):
            stage.later(LONGEST_TRICKLE if number == 0 else TRICKLE)
            await stage.until(lambda least=number: len(stage.attempts.started) > least)


async def test_held_pods_that_are_due_cause_no_busy_loop_in_a_pause() -> None:
    """A worker that may not bind in a Kubernetes API used up a core: it waited for a time that had passed."""
    looks, pause = 0, True

    def paused() -> bool:
        nonlocal looks
        looks += 1
        return pause

    stage = Stage(dispatching=DispatchSettings(hold=2.0))
    await stage.put_pod("p")
    async with stage.in_place_of_another():
        await stage.caught_up()
        stage.loops.scheduling.dispatcher.serve(False)
        process = ProcessParts(stage.own, Metrics(), clock=stage.clock, rng=random.Random(1))
        settings = stage.settings.dispatching
        standby = dispatcher.Dispatcher(process, stage.pool, stage.queue, stage.attempts, settings)
        standby.pause_while(paused)
        standby.serve(True)
        running = asyncio.create_task(standby.run())
        try:
            stage.clock.advance(2.0)
            standby.kick()
            await turns()
            assert stage.queue.active.held == 1
            assert 0 < looks < 10

            pause = False
            standby.kick()
            await stage.until(lambda: stage.attempts.names == ["p"])
        finally:
            running.cancel()


async def test_held_pods_that_are_due_cause_no_busy_loop_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """While Temporal is late all starts are under way, and none of the held pods can be released."""
    steps = 0
    step = dispatcher.Dispatcher._step

    def counted(self: dispatcher.Dispatcher) -> None:
        nonlocal steps
        steps += 1
        step(self)

    stage = Stage(dispatching=DispatchSettings(hold=2.0))
    async with stage.in_place_of_another():
        monkeypatch.setattr(dispatcher.Dispatcher, "_step", counted)
        monkeypatch.setattr("wharfinger.scheduling.loops.starts.Starts.room", False)
        await stage.put_pod("p")
        await stage.caught_up()
        stage.clock.advance(2.0)
        stage.loops.scheduling.dispatcher.kick()
        await turns()

        assert len(stage.queue.active) == 1
        assert 0 < steps < 10
