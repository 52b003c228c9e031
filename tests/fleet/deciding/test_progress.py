"""A rollout observes what it updates: unproven slots bound it, one end holds it, failed slots stop it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.deciding.builders import CLOCK, LEASE, Picture, brief, keep, later, roll, rolling, standing
from wharfinger.fleet.model.fleet import Decisions, RolloutRequest, SlotTrial
from wharfinger.fleet.model.rollout import Crashed, Memory, Plan, ReadySince
from wharfinger.objects.model.quantities import IntOrPercent

SOAK = 30.0


def updated(replicas: int = 3, slots: int = 1, **spec: object) -> tuple[Picture, Memory]:
    """A rollout whose `slots` highest slots were updated just now, and memory of one that begins to see that."""
    picture = rolling(replicas, **{"soak": SOAK, **spec})  # type: ignore[arg-type]
    memory = picture.memory(progress_mark=(0, replicas))
    for slot in range(replicas - slots, replicas):
        picture.without(slot).life(slot, 2, revision=2, assign=True)
    return picture, counting(memory, picture)


def counting(memory: Memory, picture: Picture) -> Memory:
    """Memory that sees all ready instances for as long as they must have been to count, and nothing else new."""
    known = {(entry.slot, entry.incarnation): entry for entry in memory.ready}
    ready = tuple(
        entry
        if (entry := known.get(key)) is not None and entry.mod_revision == record.mod_revision
        else ReadySince(*key, record.mod_revision, memory.clock - picture.spec.min_ready)
        for key, record in sorted(picture.instances.items())
        if record.state == "ready"
    )
    return replace(memory, ready=ready)


def condition(decided: Plan, kind: str) -> tuple[str, str] | None:
    """Reason and message of a condition that holds."""
    assert decided.writes.status is not None
    return next(
        ((one.reason, one.message) for one in decided.writes.status.conditions if one.type == kind and one.status), None
    )


def trial(decided: Plan, slot: int) -> SlotTrial:
    return next(one for one in decided.memory.trials if one.slot == slot)


# --- unproven slots -------------------------------------------------------------------------------


def test_the_next_former_instance_stays_until_the_updated_slot_is_proven() -> None:
    picture, memory = updated()
    first = roll(picture, memory)
    assert brief(first) == ["up 1 r2"]
    picture.life(1, 2, revision=2)

    waiting = roll(picture, counting(later(first, 10.0), picture))
    assert brief(waiting) == []
    assert waiting.writes.status is not None
    assert "waits until slot 2 is proven" in waiting.writes.status.phase
    assert [slot.unproven for slot in waiting.writes.status.slots] == [False, True, True]
    assert waiting.wait == pytest.approx(20.0)
    assert brief(roll(picture, later(waiting, 19.9))) == []

    proven = roll(picture, later(waiting, 20.0))
    assert brief(proven) == ["retire 1.1"]
    assert trial(proven, 2).proven
    assert not trial(proven, 1).proven


def test_without_surge_the_next_one_goes_when_the_one_before_is_proven() -> None:
    picture, memory = updated(max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1))
    first = roll(picture, memory)
    assert brief(first) == []
    assert brief(roll(picture, later(first, SOAK))) == ["retire 1.1"]


@pytest.mark.parametrize(("surge", "unavailable", "ended"), [(0, 2, 2), (2, 2, 2), (0, 9, 6)])
def test_no_more_than_surge_and_unavailable_together_are_exposed(surge: int, unavailable: int, ended: int) -> None:
    """Of six slots the two highest are updated and unproven; `ended`: what may be exposed beside a surge."""
    picture = rolling(6, soak=SOAK, max_surge=IntOrPercent(surge), max_unavailable=IntOrPercent(unavailable))
    first = roll(picture)
    gone = [step for step in brief(first) if step.startswith("retire")]
    assert len(gone) == min(ended, 6)
    for step in gone:
        slot = int(step.split()[1].split(".")[0])
        picture.without(slot).life(slot, 2, revision=2, assign=True)
    memory = counting(later(first, 10.0), picture)
    second = roll(picture, memory)
    exposed = len(gone) + sum(step.startswith("retire") for step in brief(second))
    assert exposed <= max(1, surge + unavailable)


def test_waiting_slot_names_the_slot_whose_former_instance_ends_now() -> None:
    picture = rolling(3, soak=SOAK).life(2, 2, revision=2).life(1, 2, revision=2)  # both began under a larger surge

    decided = roll(picture, counting(picture.memory(ready=()), picture))

    assert brief(decided) == ["retire 1.1"]
    assert decided.writes.status is not None
    assert decided.writes.status.slots[2].note == "waits until slot 1 is proven"


def test_an_unhealthy_former_instance_is_replaced_whatever_is_unproven() -> None:
    picture, memory = updated(4)
    picture.without(1)
    assert "up 1 r2" in brief(roll(picture, memory))


def test_no_soak_proves_a_slot_as_soon_as_it_counts() -> None:
    picture, memory = updated(soak=0.0)
    picture.life(1, 2, revision=2)
    assert "retire 1.1" in brief(roll(picture, counting(memory, picture)))


def test_a_break_begins_the_observation_anew() -> None:
    picture, memory = updated()
    first = roll(picture, memory)
    picture.life(2, 2, revision=2, state="withdrawn")
    away = roll(picture, later(first, 20.0))
    picture.life(2, 2, revision=2).life(1, 2, revision=2)
    back = roll(picture, counting(later(away, 5.0), picture))
    assert "retire 1.1" not in brief(roll(picture, later(back, 29.0)))
    assert "retire 1.1" in brief(roll(picture, later(back, 30.0)))


def test_newcomer_proven_beside_its_former_instance_exposes_nothing() -> None:
    picture, memory = updated()
    picture.life(1, 2, revision=2)
    first = roll(picture, counting(memory, picture))
    picture.life(2, 2, revision=2, state="withdrawn")  # begins anew as soon as it is back
    assert "retire 1.1" in brief(roll(picture, later(first, SOAK)))


def test_newer_target_removes_the_unproven_newcomer_not_its_predecessor() -> None:
    picture, memory = updated()
    picture.life(1, 2, revision=2)
    first = roll(picture, counting(memory, picture))
    picture.revision(3, "t3").want("t3")
    picture.target = 3
    assert brief(roll(picture, later(first, 1.0)))[0] == "retire 1.2"


# --- ends -----------------------------------------------------------------------------------------


def test_end_of_an_unproven_slot_holds_the_next_until_observed_anew() -> None:
    picture, memory = updated(max_surge=IntOrPercent(1), max_unavailable=IntOrPercent(1))
    picture.life(1, 2, revision=2)
    first = roll(picture, counting(memory, picture))
    assert "retire 1.1" in brief(first)  # two may be exposed
    picture.died(2, 2)
    held = roll(picture, later(first, 5.0))
    assert brief(held) == []
    assert (trial(held, 2).ends, trial(held, 2).why) == (1, "exit 1")
    assert held.memory.halted == ""
    assert held.writes.status is not None
    assert "slot 2 ended unasked, and must be observed anew first" in held.writes.status.slots[1].note

    picture.without(2, 2).life(2, 3, revision=2)
    again = roll(picture, counting(later(held, 30.0), picture))
    assert brief(again) == []
    assert "retire 1.1" in brief(roll(picture, later(again, SOAK)))


def test_brief_loss_of_a_former_instances_lease_is_ignored_while_held() -> None:
    picture, memory = updated()
    picture.life(1, 2, revision=2)
    first = roll(picture, counting(memory, picture))
    picture.died(2, 2).without_record(1)
    held = roll(picture, later(first, 5.0))

    assert brief(held) == []
    assert brief(roll(picture.without(2, 2), later(held, LEASE + 9.0))) == ["up 2 r2"]
    assert "retire 1.1" in brief(roll(picture, later(held, LEASE + 10.0)))  # it does not come back


def test_while_a_slot_is_held_a_former_one_that_ends_returns_as_it_was() -> None:
    picture, memory = updated(max_unavailable=IntOrPercent(2), max_surge=IntOrPercent(2))
    first = roll(picture, memory)
    picture.died(2, 2).died(0)
    held = roll(picture, later(first, 5.0))
    picture.without(2, 2).without(0)
    steps = brief(roll(picture, later(held, 20.0)))
    assert "up 0 r1" in steps
    assert "up 2 r2" in steps


@pytest.mark.parametrize("state", ["ready", "starting"])
def test_slot_that_ends_twice_stops_the_rollout_with_a_reason(state: str) -> None:
    picture, memory = updated()
    if state == "starting":
        picture.life(2, 2, revision=2, state="starting")
    first = roll(picture, memory)
    picture.died(2, 2)
    second = roll(picture, later(first, 5.0))
    picture.without(2, 2).life(2, 3, revision=2, state=state).life(1, 2, revision=2)  # type: ignore[arg-type]
    third = roll(picture, counting(later(second, 30.0), picture))
    assert third.memory.halted == ""
    picture.died(2, 3)
    stopped = roll(picture, later(third, 5.0))
    assert stopped.memory.halted == "slot 2 ended unasked 2 times (exit 1)"
    assert condition(stopped, "Paused") == ("FailureThresholdExceeded", stopped.memory.halted)
    assert not [step for step in brief(stopped) if step.startswith("retire")]
    much_later = roll(picture.without(2, 3), later(stopped, 5000.0))
    assert brief(much_later) == ["up 2 r2"]  # crashed slots return all the same
    assert much_later.done is None


def test_a_stopped_rollout_is_not_completed_before_it_is_resumed() -> None:
    picture, memory = updated(1)
    decided = roll(picture, memory)
    for incarnation in (2, 3):
        picture.died(0, incarnation)
        decided = roll(picture, later(decided, 5.0))
        picture.without(0, incarnation).life(0, incarnation + 1, revision=2)
        decided = roll(picture, counting(later(decided, 5.0), picture))
    assert decided.memory.halted
    decided = roll(picture, later(decided, 500.0))
    assert decided.done is None
    picture.want(request=RolloutRequest(100, "resume"))
    resumed = roll(picture, later(decided, 1.0))
    assert (resumed.memory.halted, resumed.done) == ("", "completed")


def test_after_a_resume_a_slot_fails_by_two_further_ends() -> None:
    picture, memory = updated()
    memory = replace(
        memory, trials=(SlotTrial(2, ends=2, incarnation=1, why="exit 1"),), halted="slot 2 ...", halted_by="failures"
    )
    picture.want(request=RolloutRequest(100, "resume"))
    decided = roll(picture, memory)
    assert (decided.memory.halted, trial(decided, 2).ends) == ("", 0)
    picture.died(2, 2)
    once = roll(picture, later(decided, 1.0))
    assert (once.memory.halted, trial(once, 2).ends) == ("", 1)
    picture.without(2, 2).life(2, 3, revision=2).died(2, 3)
    assert roll(picture, later(once, 1.0)).memory.halted


def test_failed_slot_reverts_the_rollout_where_the_spec_asks_for_it() -> None:
    picture, memory = updated(on_deadline="revert")
    memory = replace(memory, trials=(SlotTrial(2, ends=1, incarnation=1),))
    picture.died(2, 2)
    decided = roll(picture, memory)
    assert decided.writes.target == 1
    assert [(one.revision, one.outcome, one.why) for one in decided.writes.outcomes] == [
        (2, "failed", "slot 2 ended unasked 2 times (exit 1)")
    ]


def test_as_many_slots_may_fail_as_the_threshold_allows() -> None:
    picture, memory = updated(4, 2, failure_threshold=2)
    memory = replace(memory, trials=(SlotTrial(2, ends=1, incarnation=1), SlotTrial(3, ends=1, incarnation=1)))
    picture.died(3, 2)
    one = roll(picture, memory)
    assert one.memory.halted == ""
    picture.died(2, 2)
    assert "slot 2 ended unasked 2 times (exit 1); slot 3" in roll(picture, later(one, 1.0)).memory.halted


@pytest.mark.parametrize("why", ["planned", "drained", "fenced", "host restarted"])
def test_ends_that_were_asked_for_or_came_with_the_host_do_not_count(why: str) -> None:
    picture, memory = updated()
    picture.died(2, 2, planned=why == "planned")
    if why == "drained":
        picture.grants[2, 2] = replace(picture.grants[2, 2], want="drain")
    if why == "fenced":
        picture.grants.pop((2, 2))
    if why == "host restarted":
        picture.exits[2, 2] = replace(picture.exits[2, 2], host_restarted=True)
    decided = roll(picture, memory)
    assert [one.ends for one in decided.memory.trials if one.slot == 2] in ([], [0])


def test_an_end_is_counted_once_however_often_it_is_seen() -> None:
    picture, memory = updated()
    picture.died(2, 2)
    first = roll(picture, memory)
    assert trial(roll(picture, later(first, 1.0)), 2).ends == 1


def test_the_end_of_a_proven_slot_is_repaired_and_holds_nothing() -> None:
    picture, memory = updated(max_unavailable=IntOrPercent(1))
    first = roll(picture, memory)
    picture.life(1, 2, revision=2)
    proven = roll(picture, counting(later(first, SOAK), picture))
    assert trial(proven, 2).proven
    picture.without(1, 1).died(2, 2)
    picture.slots[1] = replace(picture.slots[1], revision=2)
    crashed = roll(picture, counting(later(proven, 1.0), picture))
    assert trial(crashed, 2) == SlotTrial(2, proven=True, ends=1, incarnation=2, why="exit 1")
    picture.without(2, 2)
    assert "up 2 r2" in brief(roll(picture, later(crashed, 2.0)))


def test_ends_are_recorded_for_a_memory_that_is_lost() -> None:
    picture, memory = updated()
    picture.died(2, 2)
    decided = roll(picture, memory)
    said = decided.writes.decisions
    assert said is not None
    assert said.trials == (SlotTrial(2, ends=1, incarnation=2, why="exit 1"),)
    picture.decisions = said
    picture.without(2, 2).life(2, 3, revision=2).died(2, 3)
    assert "slot 2 ended unasked 2 times" in roll(picture, Memory(clock=CLOCK)).memory.halted


def test_what_an_earlier_release_remembers_of_an_open_rollout_goes_on() -> None:
    """Its memory knows since when instances are ready, and nothing of trials."""
    picture, memory = updated(3, 2)
    picture.decisions = Decisions(1, 2, promoted=True)
    first = roll(picture, replace(memory, decisions=1))
    assert brief(first) == ["up 0 r2"]
    picture.life(0, 2, revision=2)
    assert brief(roll(picture, counting(later(first, 29.0), picture))) == []
    assert brief(roll(picture, counting(later(first, 30.0), picture))) == ["retire 0.1"]


# --- completed ------------------------------------------------------------------------------------


def test_rollout_completes_when_all_slots_have_counted_for_the_soak_time() -> None:
    picture, memory = updated(2, 2)
    first = roll(picture, memory)
    assert (first.done, first.wait) == (None, pytest.approx(SOAK))
    assert first.writes.status is not None
    assert first.writes.status.rollout == "running"
    assert first.writes.status.phase == "revision 2: 2 of 2 slots updated; completed once all have counted for 30 s"
    assert roll(picture, later(first, 29.0)).done is None
    assert roll(picture, later(first, 30.0)).done == "completed"


def test_a_proven_slot_that_breaks_begins_the_completion_anew() -> None:
    picture, memory = updated(2, 2)
    first = roll(picture, memory)
    picture.died(1, 2)
    broken = roll(picture, later(first, 29.0))
    picture.without(1, 2).life(1, 3, revision=2)
    back = roll(picture, counting(later(broken, 10.0), picture))
    assert back.done is None
    assert roll(picture, later(back, 29.0)).done is None
    assert roll(picture, later(back, 30.0)).done == "completed"


def test_what_counted_long_before_needs_no_further_observation() -> None:
    picture = standing(2, soak=SOAK).revision(2, "t2", "completed").want("t1")
    kept = keep(picture)
    assert roll(picture, later(kept, SOAK)).done == "completed"


# --- the deadline ---------------------------------------------------------------------------------


def test_deadline_stops_during_observation_and_a_proven_slot_is_progress() -> None:
    picture, memory = updated(progress_deadline=40.0, instance_deadline=35.0)
    memory = replace(memory, progress_mark=(1, 2), progress_at=CLOCK - 39.0)
    first = roll(picture, memory)
    observing = roll(picture, later(first, 10.0))
    assert observing.memory.halted == ""
    proven = roll(picture, later(observing, 20.0))
    assert trial(proven, 2).proven
    assert (proven.memory.halted, proven.memory.progress_at) == ("", proven.memory.clock)
    assert "no progress for 40 s" in roll(picture, later(proven, 40.0)).memory.halted


# --- reverts --------------------------------------------------------------------------------------


def failing_after(number: int, looping: int) -> Plan:
    """Revision 3 fails; 1 and 2 were completed, 2 last, and instances of `looping` ended again and again."""
    picture = standing(3, on_deadline="revert", soak=SOAK).revision(2, "t2", "completed").revision(3, "t3").want("t3")
    picture.target = number
    for slot in range(3):
        picture.life(slot, 2, revision=2, assign=True).without(slot, 1)
    memory = picture.memory(stable=2, crashed=(Crashed(0, CLOCK - 5.0, 2, "exit 1", "a", looping),))
    first = roll(picture, memory)
    picture.life(2, 3, revision=3).died(2, 3)
    crashed = replace(later(first, 5.0), crashed=(), trials=(SlotTrial(2, ends=1, incarnation=1),))
    return roll(picture, crashed)


def test_revert_skips_a_revision_in_a_crash_loop_for_an_older_healthy_one() -> None:
    assert failing_after(3, looping=2).writes.target == 1


def test_revert_goes_to_the_last_completed_revision_if_it_is_healthy() -> None:
    assert failing_after(3, looping=3).writes.target == 2


def test_a_crash_loop_is_forgotten_once_no_rollout_is_open_and_it_is_over() -> None:
    picture = standing(2)
    looping = keep(picture, picture.memory(crashed=(Crashed(0, CLOCK, 2, "exit 1", "a", 1),)))
    assert looping.memory.looping == (1,)
    assert keep(picture, later(looping, 601.0)).memory.looping == ()
