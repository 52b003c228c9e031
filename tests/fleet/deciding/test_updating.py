"""A rollout, slot by slot: who is next, what stays inside the slot, and what the floor and the ceiling allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.deciding.builders import LEASE, brief, keep, later, roll, rolling, standing
from wharfinger.fleet.deciding.draft import Budget
from wharfinger.fleet.deciding.lives import LOOK_AGAIN
from wharfinger.fleet.deciding.planner import Asked, plan
from wharfinger.fleet.model.fleet import FleetSpec, Host
from wharfinger.fleet.model.rollout import Busy, Counted, Drop, Retire
from wharfinger.objects.model.quantities import IntOrPercent


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "floor", "ceiling"),
    [
        (IntOrPercent(1), IntOrPercent(0), 3, 3, 4),
        (IntOrPercent(0), IntOrPercent(0), 3, 3, 4),
        (IntOrPercent(0), IntOrPercent(1), 3, 2, 3),
        (IntOrPercent(25, percent=True), IntOrPercent(25, percent=True), 10, 8, 13),
        (IntOrPercent(10, percent=True), IntOrPercent(10, percent=True), 3, 3, 4),
        (IntOrPercent(0), IntOrPercent(100, percent=True), 4, 0, 4),
        (IntOrPercent(1), IntOrPercent(5), 2, 0, 3),
        (IntOrPercent(1), IntOrPercent(0), 0, 0, 1),
    ],
)
def test_surge_rounds_up_unavailable_down_and_both_nought_surge_one(
    surge: IntOrPercent, unavailable: IntOrPercent, replicas: int, floor: int, ceiling: int
) -> None:
    spec = FleetSpec(replicas=replicas, max_surge=surge, max_unavailable=unavailable)
    assert Budget.of(spec) == Budget(floor, ceiling)


def test_a_stored_budget_of_nothing_surges_one_and_a_condition_says_so() -> None:
    decided = roll(rolling(3, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(0)))
    assert brief(decided) == ["up 2 r2"]
    assert decided.writes.status is not None
    (told,) = [one.message for one in decided.writes.status.conditions if one.type == "Progressing"]
    assert told == "maxSurge and maxUnavailable are both 0: one instance surges all the same"


def test_highest_slot_gets_a_newcomer_first_and_surge_limits_newcomers() -> None:
    decided = roll(rolling(3))
    assert brief(decided) == ["up 2 r2"]
    assert not decided.steps[0].assign  # type: ignore[union-attr]
    assert brief(roll(rolling(3, max_surge=IntOrPercent(2)))) == ["up 2 r2", "up 1 r2"]


def test_former_instance_leaves_when_its_newcomer_counts_and_relies_on_it() -> None:
    picture = rolling(3).life(2, 2, revision=2)
    decided = roll(picture)
    assert brief(decided) == ["retire 2.1"]
    step = decided.steps[0]
    assert isinstance(step, Retire)
    assert step.counted == (Counted(2, 2, picture.instances[2, 2].mod_revision),)
    assert step.assign == 2


def test_a_newcomer_that_is_asked_for_and_not_granted_yet_was_never_ready() -> None:
    decided = roll(rolling(3), None, Busy("up", 2, 0, 2, "a"))
    assert brief(decided) == []
    assert decided.writes.status is not None
    assert "unknown" not in str(decided.writes.status)


def test_a_newcomer_that_is_ready_is_not_counted_before_min_ready() -> None:
    picture = rolling(3, min_ready=10.0)
    memory = picture.memory()
    picture.life(2, 2, revision=2)
    first = roll(picture, memory)
    assert brief(first) == []
    assert first.wait == pytest.approx(10.0)
    assert brief(roll(picture, later(first, 9.9))) == []
    assert brief(roll(picture, later(first, 10.0))) == ["retire 2.1"]


def test_a_ready_record_that_was_rewritten_begins_anew() -> None:
    picture = rolling(3)
    memory = picture.memory()
    picture.life(2, 2, revision=2)
    first = roll(picture, memory)
    picture.life(2, 2, revision=2)  # another mod revision
    assert brief(roll(picture, later(first, 10.0))) == []


def test_drain_comes_first_without_surge_and_relies_on_the_floor() -> None:
    picture = rolling(3, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1))
    decided = roll(picture)
    assert brief(decided) == ["retire 2.1"]
    step = decided.steps[0]
    assert isinstance(step, Retire)
    assert [counted.slot for counted in step.counted] == [0, 1]
    assert step.assign == 0


def test_drain_comes_first_where_every_host_is_full_despite_surge() -> None:
    picture = rolling(3, max_surge=IntOrPercent(1), max_unavailable=IntOrPercent(1))
    for slot in range(3):
        picture.life(slot, host="a")
    picture.hosts = {"a": Host("a", capacity=3)}
    decided = roll(picture)
    assert brief(decided) == ["retire 2.1"]
    status = decided.writes.status
    assert status is not None
    assert not status.slots[2].note  # it has a place: its own

    picture.spec = replace(picture.spec, max_unavailable=IntOrPercent(0))
    assert brief(roll(picture)) == []


def test_two_drains_of_one_plan_never_count_on_each_other() -> None:
    decided = roll(rolling(4, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(2)))
    assert brief(decided) == ["retire 3.1", "retire 2.1"]
    for step in decided.steps:
        assert isinstance(step, Retire)
        assert [counted.slot for counted in step.counted] == [0, 1]


def test_uncommitted_drain_keeps_the_instances_that_it_relies_on() -> None:
    picture = rolling(4, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(2))
    busy = Busy("retire", 3, 1, host="b")
    assert brief(roll(picture, None, busy)) == []
    picture.life(3, 1, host="b", want="drain", state="draining")
    assert brief(roll(picture, None, busy)) == ["retire 2.1"]


def test_recreate_lets_all_go_at_once() -> None:
    decided = roll(rolling(3, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(100, percent=True)))
    assert brief(decided) == ["retire 2.1", "retire 1.1", "retire 0.1"]
    assert all(step.counted == () for step in decided.steps if isinstance(step, Retire))


def test_recreate_brings_a_slot_back_while_others_still_end() -> None:
    picture = rolling(3, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(100, percent=True))
    for slot in (0, 1, 2):
        picture.life(slot, want="drain", state="draining")
    picture.died(2, planned=True)

    assert brief(roll(picture, None, Busy("retire", 0, 1, host="a"), Busy("retire", 1, 1, host="a"))) == ["up 2 r2"]


def test_what_is_not_ready_and_outdated_is_replaced_at_once() -> None:
    picture = rolling(3)
    memory = picture.memory()
    decided = roll(picture.life(0, state="withdrawn"), memory)
    assert brief(decided) == ["retire 0.1", "up 2 r2"]
    withdrawn = picture.instances[0, 1].mod_revision
    retired = [step for step in decided.steps if isinstance(step, Retire)]
    assert [step.counted for step in retired] == [(Counted(0, 1, withdrawn),)]  # nothing is lost by it while it is so


def test_unseen_outdated_instance_is_kept_until_its_lease_expires() -> None:
    picture = rolling(3, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1))
    memory = picture.memory()
    decided = roll(picture.without_record(0), memory)
    assert brief(decided) == []  # one less is all that the floor allows, and it is unknown whether slot 0 serves
    assert decided.wait <= LEASE + LOOK_AGAIN

    later_on = roll(picture, later(decided, LEASE + LOOK_AGAIN - 1.0))
    assert brief(later_on) == []
    assert brief(roll(picture, later(later_on, 1.0))) == ["retire 0.1"]


def test_what_comes_and_goes_is_not_ready_in_the_end() -> None:
    picture = rolling(3, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1), min_ready=30.0)
    memory = picture.memory()
    decided = roll(picture.without_record(0), memory)
    for _ in range(2):
        decided = roll(picture.life(0, host="a"), later(decided, 6.0))
        assert brief(decided) == []
        decided = roll(picture.without_record(0), later(decided, 6.0))
    assert brief(roll(picture, later(decided, 1.0))) == ["retire 0.1"]  # its first absence was so long ago


def test_what_counts_again_begins_anew() -> None:
    picture = rolling(3, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1), min_ready=2.0)
    memory = picture.memory()
    decided = roll(picture.without_record(0), memory)
    assert [entry.lost for entry in decided.memory.ready if entry.slot == 0] == [memory.clock]
    decided = keep(picture.life(0, host="a"), later(decided, 20.0))
    decided = keep(picture, later(decided, 3.0))
    assert [entry.lost for entry in decided.memory.ready if entry.slot == 0] == [0.0]


def test_host_of_an_unseen_instance_is_asked_before_a_long_lease_expires() -> None:
    picture = rolling(3, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1))
    asked = Asked("rollout", "acme", picture.generation, (), 60.0)
    memory = picture.memory()
    picture.without_record(0)
    decided = plan(picture.observed(), memory, asked)
    steps = []
    for _ in range(16):
        decided = plan(picture.observed(), later(decided, 5.0), asked)
        steps += brief(decided)
    assert steps[0] == "up 0 r1 .1"  # does it run?
    assert "retire 0.1" in steps


def test_what_was_only_unseen_serves_until_its_successor_does() -> None:
    picture = rolling(3)
    memory = picture.memory()
    decided = roll(picture.without_record(2), memory)
    assert brief(decided) == ["up 1 r2"]
    picture.life(2).life(1, 2, revision=2, state="starting")
    assert brief(roll(picture, later(decided, 2.0), Busy("up", 1, 2, 2, "b"))) == []


def test_outdated_instances_leave_one_at_a_time_after_a_great_loss() -> None:
    picture = rolling(5)
    memory = picture.memory()
    for slot in (1, 2, 3):
        picture.life(slot, state="withdrawn", host="ab"[slot % 2])
    decided = roll(picture, memory)
    assert decided.memory.careful
    assert brief(decided) == ["retire 1.1"]
    picture.life(1, want="drain", state="draining")
    assert brief(roll(picture, later(decided, 1.0), Busy("retire", 1, 1, host="b"))) == []


def test_a_starting_outdated_instance_is_dropped() -> None:
    picture = rolling(3).life(0, state="starting")
    memory = replace(picture.memory(), ready=())
    decided = roll(picture, memory)
    assert "drop 0.1" in brief(decided)
    starting = picture.instances[0, 1].mod_revision  # should it be ready by then, it stays
    assert [step.registered for step in decided.steps if isinstance(step, Drop)] == [starting]


def test_outdated_instance_that_is_ready_but_uncounted_is_not_unhealthy() -> None:
    picture = rolling(1)
    memory = replace(picture.memory(), ready=())  # as after a gap
    decided = roll(picture, memory)
    assert brief(decided) == []
    assert decided.wait <= picture.spec.min_ready


def test_partition_is_kept_and_reported() -> None:
    picture = rolling(3, partition=2).life(2, 2, revision=2).without(2, 1)
    picture.slots[2] = replace(picture.slots[2], revision=2)
    decided = roll(picture)
    assert brief(decided) == []
    assert decided.done is None
    assert decided.writes.status is not None
    assert "PartitionComplete" in [condition.type for condition in decided.writes.status.conditions]
    assert later(decided, 10_000).clock > picture.spec.progress_deadline
    assert roll(picture, later(decided, 10_000)).memory.halted == ""  # no deadline runs
    picture.want(partition=0)
    assert brief(roll(picture, later(decided, 1))) == ["up 1 r2"]


def test_canary_is_fixed_with_the_target_and_the_rest_wait_for_promote() -> None:
    picture = standing(4, canary=1).want("t2")
    taken = roll(picture)
    assert taken.writes.target == 2
    assert taken.writes.new_revision
    assert taken.memory.canary == (3,)
    assert brief(taken) == ["up 3 r2"]
    picture.revision(2, "t2").life(3, 2, revision=2, assign=True).without(3, 1).target = 2
    memory = replace(picture.memory(), canary=(3,), promoted=False)
    waiting = roll(picture, memory)
    assert brief(waiting) == []
    assert waiting.writes.status is not None
    assert "CanaryWaiting" in [condition.type for condition in waiting.writes.status.conditions]
    assert brief(roll(picture, replace(memory, promoted=True))) == ["up 2 r2"]


def test_a_canary_that_comes_late_stops_the_rollout_and_takes_nothing_back() -> None:
    picture = rolling(3).without(2).life(2, 2, revision=2).life(1, 2, revision=2)
    picture.spec = replace(picture.spec, canary=1)
    memory = replace(picture.memory(), canary=(), promoted=False)
    assert brief(roll(picture, memory)) == ["retire 1.1"]
    decided = roll(picture.without(1), memory)
    assert brief(decided) == []
    assert decided.writes.status is not None
    assert "CanaryWaiting" in [one.type for one in decided.writes.status.conditions]


def test_canary_and_partition_conditions_wait_for_the_former_instances() -> None:
    for spec in ({"canary": 1}, {"partition": 1}):
        picture = rolling(2, **spec).life(1, 2, revision=2).life(1, 1, want="drain", state="draining", assign=False)
        picture.slots[1] = replace(picture.slots[1], revision=2)
        memory = replace(picture.memory(), canary=(1,), promoted=False)
        leaving = roll(picture, memory, Busy("retire", 1, 1))
        assert leaving.writes.status is not None
        said = {condition.type for condition in leaving.writes.status.conditions}
        assert not said & {"CanaryWaiting", "PartitionComplete"}


@pytest.mark.parametrize(("replicas", "said"), [(2, "slot 0 waits for promote"), (3, "slots 0, 1 wait for promote")])
def test_condition_counts_one_slot_that_waits_for_promote(replicas: int, said: str) -> None:
    picture = rolling(replicas, canary=1).without(replicas - 1).life(replicas - 1, 2, revision=2)
    decided = roll(picture, picture.memory(canary=(replicas - 1,)))
    status = decided.writes.status
    assert status is not None
    assert [one.message for one in status.conditions if one.type == "CanaryWaiting"] == [said]


def test_the_canary_is_waited_for_though_nothing_was_ever_completed() -> None:
    picture = rolling(3, canary=1).revision(1, "t1", "superseded")
    picture.without(2).life(2, 2, revision=2, assign=True)
    memory = picture.memory(canary=(2,), progress_mark=(1, 2))
    decided = roll(picture, replace(memory, clock=memory.clock + 10_000))
    assert decided.memory.halted == ""
    assert decided.writes.status is not None
    assert "CanaryWaiting" in [condition.type for condition in decided.writes.status.conditions]


def test_a_pause_takes_away_nothing_that_has_begun() -> None:
    for held in ({"paused": True}, {}):
        picture = rolling(2, **held).life(1, 2, revision=2, state="starting", assign=False)
        memory = picture.memory() if held else picture.memory(halted="no progress")
        assert brief(roll(picture, memory, Busy("up", 1, 2, 2, "a"))) == []  # it is still waited for
        picture.life(1, 2, revision=2, assign=False)
        assert brief(roll(picture, memory)) == []  # ready, and not counted yet
        counted = picture.memory() if held else picture.memory(halted="no progress")
        assert brief(roll(picture, counted)) == ["retire 1.1"]  # that slot is finished, and slot 0 is not begun


def test_paused_rollout_repairs_each_slot_on_its_own_revision() -> None:
    picture = rolling(3, paused=True).died(1)
    first = roll(picture)
    assert first.writes.clears
    picture.without(1)
    assert brief(roll(picture, later(first, 5))) == ["up 1 r1"]


def test_a_done_rollout_completes_its_revision_once() -> None:
    picture = rolling(2)
    for slot in (0, 1):
        picture.without(slot).life(slot, 2, revision=2, assign=True)
    decided = roll(picture)
    assert decided.done == "completed"
    assert [(outcome.revision, outcome.outcome) for outcome in decided.writes.outcomes] == [(2, "completed")]
    assert decided.memory.stable == 2
    assert not decided.steps


def test_a_rollout_is_not_done_while_a_former_instance_is_still_there() -> None:
    picture = rolling(1).life(0, 2, revision=2, assign=True)
    busy = Busy("retire", 0, 1, host="a")
    assert roll(picture, None, busy).done is None
    picture.life(0, 1, want=None, assign=False)  # revoked, its lease runs
    assert roll(picture).done is None


def test_slot_is_assigned_the_target_when_its_former_instance_crashed() -> None:
    picture = rolling(1).without(0, 1).life(0, 2, revision=2, assign=False)
    picture.slots[0] = replace(picture.slots[0], revision=1)
    decided = roll(picture)
    assert [(one.slot, one.revision) for one in decided.writes.assigns] == [(0, 2)]
    assert decided.done is None
    picture.slots[0] = replace(picture.slots[0], revision=2)
    assert roll(picture, later(decided, 0)).done == "completed"


def test_a_newer_target_ends_the_wait_for_the_newcomer_at_once() -> None:
    picture = rolling(3).life(2, 2, revision=2, state="starting")
    memory = picture.memory()
    picture.want("t3")
    busy = Busy("up", 2, 2, 2, "a")
    decided = roll(picture, memory, busy)
    assert decided.give_up == (2,)
    assert [(outcome.revision, outcome.outcome) for outcome in decided.writes.outcomes] == [(2, "superseded")]
    picture.revision(3, "t3").target = 3
    assert "drop 2.2" in brief(roll(picture, later(decided, 1)))


def test_granted_instances_are_kept_until_the_view_is_unbroken_long_enough() -> None:
    picture = rolling(3).died(0, planned=True)
    memory = replace(picture.memory(), sight_since=990.0)
    decided = roll(picture, memory)
    assert brief(decided) == ["up 0 r2"]  # its end is known
    assert decided.wait <= 15.0 + 10.0
    assert brief(roll(picture, replace(memory, sight_since=975.0))) == ["up 0 r2", "up 2 r2"]


@pytest.mark.parametrize(
    ("spec", "canary"),
    [
        ({"replicas": 3}, (2,)),
        ({"replicas": 3, "partition": 2}, (2,)),
        ({"replicas": 5}, (3,)),
        ({"canary": 2}, (3, 2)),
        ({"partition": 4}, ()),
    ],
    ids=["scaled-down", "scaled-down-above-partition", "scaled-up", "larger-canary", "all-below-partition"],
)
def test_canary_that_lost_its_slots_gets_others(spec: dict[str, int], canary: tuple[int, ...]) -> None:
    picture = rolling(4, canary=1).without(3).life(3, 2, revision=2, assign=True)
    decided = roll(picture.want(**spec), picture.memory(canary=(3,), promoted=False))
    assert decided.memory.canary == canary
    assert decided.memory.promoted is False


def test_scaled_down_rollout_updates_its_new_canary_before_it_waits() -> None:
    picture = rolling(4, canary=1).without(3).life(3, 2, revision=2, assign=True)
    decided = roll(picture.want(replicas=3), picture.memory(canary=(3,), promoted=False))
    assert decided.writes.status is not None
    assert "CanaryWaiting" not in {condition.type for condition in decided.writes.status.conditions}

    shrunk = roll(picture.without(3, 2), later(decided, 1.0))
    assert brief(shrunk) == ["up 2 r2"]
    assert [step.slot for step in shrunk.steps] == [2]


def test_canary_below_the_partition_waits_for_a_lower_partition() -> None:
    picture = rolling(3, canary=1, partition=3)
    decided = roll(picture, picture.memory(canary=(), promoted=False))
    assert decided.writes.status is not None
    assert {"PartitionComplete"} <= {condition.type for condition in decided.writes.status.conditions}
    assert decided.writes.status.phase.endswith("waits for a lower partition")
