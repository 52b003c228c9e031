"""The loop's bookkeeping: seen time, gaps, open steps, and that nothing that happens during a plan is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.deciding.builders import brief, keep, roll, rolling, standing
from wharfinger.fleet.deciding.actor import PAUSE, ActorState, StepResult
from wharfinger.fleet.model.fleet import FleetSpec
from wharfinger.fleet.model.rollout import (
    IDLE,
    SLICE,
    AwaitedIncarnation,
    Crashed,
    Drop,
    HostMissing,
    Memory,
    Plan,
    ReadySince,
    Retire,
    Up,
)

UP = Up(1, 1, "a")


def looked(actor: ActorState, wait: float = IDLE, **memory: object) -> Plan:
    """One plan that took no time."""
    known, _ = actor.look()
    return actor.looked(Plan(memory=replace(known, **memory), wait=wait), 0.0)  # type: ignore[arg-type]


def test_it_plans_at_once_and_then_when_the_wait_is_over() -> None:
    actor = ActorState("fleet", Memory())
    assert actor.due
    looked(actor, wait=12.0)
    assert not actor.due
    assert actor.timeout == SLICE
    actor.slept(5.0, 5.0)
    actor.slept(5.0, 5.0)
    assert actor.timeout == pytest.approx(2.0)
    assert not actor.due
    actor.slept(2.0, 2.0)
    assert actor.due
    assert actor.memory.clock == pytest.approx(12.0)


def test_with_nothing_under_way_it_sleeps_long_and_that_counts_once() -> None:
    actor = ActorState("fleet", Memory())
    looked(actor)
    assert actor.timeout == IDLE
    actor.slept(IDLE, IDLE)
    assert actor.memory.clock == SLICE
    assert actor.due


def test_soak_longer_than_an_idle_pause_takes_its_seconds_and_no_more() -> None:
    picture = rolling(2, soak=1200.0, progress_deadline=3000.0).without(0).without(1)
    picture.life(0, 2, revision=2, assign=True).life(1, 2, revision=2, assign=True)
    actor, passed = ActorState("rollout", picture.memory()), 0.0
    while (plan := actor.looked(roll(picture, actor.look()[0]), 0.0)).done is None and passed < 5000.0:
        while not actor.due:
            wait = actor.timeout
            actor.slept(wait, wait)
            passed += wait
    assert (plan.done, passed) == ("completed", pytest.approx(1200.0))


def test_thousand_fleets_at_rest_make_less_than_a_tenth_of_a_plan_a_second() -> None:
    actor = ActorState("fleet", standing(3).memory())
    actor.look()
    actor.looked(keep(standing(3)), 0.0)
    assert 1000 / actor.timeout < 0.1


def test_a_late_timer_counts_once_and_breaks_the_view() -> None:
    actor = ActorState("rollout", Memory(ready=(ReadySince(0, 1, 9, 0.0),), hosts=(HostMissing("a", 0.0),)))
    looked(actor, wait=30.0)
    actor.slept(5.0, 3600.0)
    assert actor.memory.clock == SLICE
    assert actor.memory.sight_since == SLICE
    assert actor.memory.ready[0].since == SLICE
    assert actor.memory.hosts[0].since == SLICE


def test_a_plan_that_came_late_is_not_followed() -> None:
    actor = ActorState("rollout", Memory())
    memory, _ = actor.look()
    followed = actor.looked(Plan(memory=memory, steps=(UP,)), 6.0)
    assert followed.steps == ()
    assert actor.due
    assert actor.memory.sight_since == actor.memory.clock > 0
    memory, _ = actor.look()
    assert actor.looked(Plan(memory=memory, steps=(UP,)), 0.1, retried=True).steps == ()
    memory, _ = actor.look()
    assert actor.looked(Plan(memory=memory, steps=(UP,)), 0.1).steps == (UP,)


def test_what_happens_during_a_plan_is_not_lost() -> None:
    actor = ActorState("rollout", Memory(clock=50.0, spec=standing(1).spec))
    key = actor.begun(UP)
    memory, busy = actor.look()
    assert [step.slot for step in busy] == [1]
    actor.granted(key, 4)
    actor.ended(key, StepResult("ready", mod_revision=77))
    actor.signalled()
    actor.looked(Plan(memory=memory), 1.0)
    assert actor.due
    assert actor.idle
    assert actor.memory.ready == (ReadySince(1, 4, 77, 40.0),)  # counted already: min_ready is 10 s
    assert actor.memory.waiting == (AwaitedIncarnation(1, 4, 50.0),)
    assert actor.memory.clock == pytest.approx(50.0)


def test_a_step_that_met_something_moved_is_looked_at_again_after_a_pause() -> None:
    actor = ActorState("rollout", Memory())
    key = actor.begun(Retire(0, 1, "a", 5))
    looked(actor, wait=IDLE)
    actor.ended(key, StepResult("moved"))
    assert not actor.due
    assert actor.timeout == PAUSE
    actor.slept(PAUSE, PAUSE)
    assert actor.due


def test_a_silent_host_is_remembered_until_it_answers() -> None:
    actor = ActorState("fleet", Memory(clock=7.0))
    actor.ended(actor.begun(UP), StepResult("silent", incarnation=1))
    assert actor.memory.silent_hosts == (HostMissing("a", 7.0),)
    actor.ended(actor.begun(UP), StepResult("ready", mod_revision=3, incarnation=2))
    assert actor.memory.silent_hosts == ()


def test_killed_incarnation_is_surely_gone_and_a_fenced_one_is_not() -> None:
    actor = ActorState("fleet", Memory())
    actor.ended(actor.begun(Drop(1, 3, "a")), StepResult("gone"))
    actor.ended(actor.begun(Drop(2, 3, "lost", kill=False)), StepResult("gone"))
    assert actor.memory.gone == ((1, 3),)


def test_what_was_not_fenced_off_after_all_has_not_crashed() -> None:
    before = Crashed(1, 500.0, 2)
    actor = ActorState("fleet", Memory(crashed=(before, Crashed(2, 90.0))))
    memory, _ = actor.look()
    actor.looked(Plan(memory=replace(memory, crashed=(Crashed(1, 900.0, 3), Crashed(2, 90.0)))), 0.1)
    late = actor.begun(Drop(1, 3, "a", registered=0))
    fenced = actor.begun(Drop(2, 3, "a", registered=0))

    actor.ended(late, StepResult("moved", incarnation=3))
    actor.ended(fenced, StepResult("gone", incarnation=3))

    assert actor.memory.crashed == (before, Crashed(2, 90.0))


def test_crash_is_counted_once_while_its_plan_waits_for_a_free_step() -> None:
    picture = standing(40)
    for slot in range(40):
        picture.life(slot, state=None)
    refused = tuple(AwaitedIncarnation(slot, 1, 1000.0, refused="no secret tls/3") for slot in range(40))
    actor = ActorState("fleet", picture.memory(waiting=refused))
    dropped = []
    for _ in range(5):
        memory, _ = actor.look()
        plan = actor.looked(keep(picture, memory), 0.1)
        steps = [step for step in plan.steps if isinstance(step, Drop)]
        for step in steps[:8]:
            actor.ended(actor.begun(step), StepResult("gone", incarnation=step.incarnation))
            dropped.append(step.slot)
            picture.without(step.slot)
        for step in steps[8:]:
            actor.put_off(step)
        assert [(crash.slot, crash.times) for crash in actor.memory.crashed] == [(slot, 1) for slot in dropped]
    assert dropped == list(range(40))


def test_crash_stays_counted_when_another_end_in_its_slot_is_put_off() -> None:
    before = Crashed(1, 500.0, 2, "exit 1")
    actor = ActorState("fleet", Memory(crashed=(before,)))
    memory, _ = actor.look()
    counted = (Crashed(1, 900.0, 3, "exit 1", revision=1),)
    actor.looked(Plan(memory=replace(memory, crashed=counted)), 0.1)

    actor.put_off(Drop(1, 4, "a", why="it is not ready, and another one is wanted"))
    actor.put_off(UP)

    assert actor.memory.crashed == counted


def test_an_end_without_an_exit_record_is_no_reason_to_start_it_for_ever() -> None:
    picture = standing(2).life(1, state=None)
    actor = ActorState("fleet", picture.memory())
    actor.ended(actor.begun(Up(1, 1, "a", incarnation=1)), StepResult("ended", why="exit 3"))
    decided = keep(picture, actor.memory)
    assert brief(decided) == ["drop 1.1"]
    assert decided.memory.crashed[0].why == "exit 3"
    picture.died(1)
    decided = keep(picture, actor.memory)
    assert brief(decided) == []
    assert decided.writes.clears[0].crashes == 1


def test_shorter_wait_than_min_ready_now_demands_does_not_count_yet() -> None:
    spec = FleetSpec(min_ready=60.0)
    actor = ActorState("fleet", Memory(clock=100.0, spec=spec))
    actor.ended(actor.begun(UP), StepResult("ready", mod_revision=3, incarnation=2, waited=10.0))
    assert [entry.since for entry in actor.memory.ready] == [90.0]


def test_a_refusal_is_kept_with_the_newcomer() -> None:
    actor = ActorState("fleet", Memory(clock=3.0))
    key = actor.begun(UP)
    actor.granted(key, 2)
    actor.slept(1.0, 1.0)
    actor.ended(key, StepResult("refused", why="no secret tls/3"))
    assert actor.memory.waiting == (AwaitedIncarnation(1, 2, 3.0, "no secret tls/3"),)
    assert actor.due


def test_duration_of_a_read_does_not_count_as_ready_time() -> None:
    actor = ActorState("rollout", Memory(clock=10.0))
    memory, _ = actor.look()
    seen = ReadySince(0, 1, 9, since=memory.clock)  # the read came 4 s after the question
    actor.looked(Plan(memory=replace(memory, ready=(seen,))), 4.0)
    assert actor.memory.clock - actor.memory.ready[0].since == 0.0


def test_unwritten_plan_is_forgotten_but_not_what_happened_meanwhile() -> None:
    actor = ActorState("fleet", Memory(clock=10.0, target=1))
    key = actor.begun(UP)
    memory, _ = actor.look()
    actor.granted(key, 4)
    actor.looked(Plan(memory=replace(memory, target=2, frozen=2)), 0.1)
    actor.slept(0.0, 0.5)
    actor.unwritten()
    assert (actor.memory.target, actor.memory.frozen) == (1, 0)
    assert [(waiting.slot, waiting.incarnation) for waiting in actor.memory.waiting] == [(1, 4)]
    assert actor.memory.clock == 10.5
    assert actor.timeout <= PAUSE


def test_rollout_whose_start_was_not_followed_is_started_later() -> None:
    """The writes of a plan took too long, so its steps were not started."""
    picture = rolling(2)
    actor = ActorState("fleet", picture.memory())
    memory, _ = actor.look()
    wanted = actor.looked(keep(picture, memory), 0.1)
    assert wanted.rollout

    memory, _ = actor.look()
    again = actor.looked(keep(picture, memory), 0.1)
    assert again.rollout == wanted.rollout
    assert again.writes.outcomes == ()
