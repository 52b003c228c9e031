"""Slots without an instance: on what revision, when, and where they get one."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from tests.fleet.deciding.builders import CLOCK, LEASE, Picture, brief, decide, keep, later, roll, rolling, standing
from wharfinger.fleet.deciding.draft import back_off
from wharfinger.fleet.deciding.hosts import Hosts
from wharfinger.fleet.deciding.planner import Asked, plan
from wharfinger.fleet.deciding.seeing import broken
from wharfinger.fleet.model.fleet import Cordon, FleetSpec, Host
from wharfinger.fleet.model.rollout import STEADY, UNKNOWN, AwaitedIncarnation, Busy, Crashed, Memory, Up
from wharfinger.objects.model.quantities import IntOrPercent


def test_the_first_creation_is_a_rollout() -> None:
    picture = Picture(FleetSpec(replicas=2))
    decided = keep(picture, Memory())
    assert decided.rollout == picture.generation
    assert decided.writes.target == 1
    assert decided.writes.new_revision
    assert not decided.steps
    picture.revision(1, "t1").target = 1
    begun = roll(picture, decided.memory)
    assert brief(begun) == ["up 0 r1", "up 1 r1"]
    assert all(isinstance(step, Up) and step.assign and not step.settle for step in begun.steps)


def test_a_fleet_born_paused_gets_nothing() -> None:
    picture = Picture(FleetSpec(replicas=2, paused=True), target=1).revision(1, "t1")
    assert brief(roll(picture)) == []


def test_partition_and_canary_hold_no_slot_before_a_first_completion() -> None:
    picture = Picture(FleetSpec(replicas=2, partition=1, canary=1), target=1).revision(1, "t1")
    assert brief(roll(picture)) == ["up 0 r1", "up 1 r1"]


def test_a_crash_is_cleared_counted_and_waited_for() -> None:
    picture = standing(2).died(1)
    first = keep(picture)
    assert [(clear.slot, clear.incarnation, clear.crashes) for clear in first.writes.clears] == [(1, 1, 1)]
    assert brief(first) == []
    assert first.wait == pytest.approx(1.0)
    picture.without(1)
    picture.slots[1] = replace(picture.slots[1], crashes=1)
    second = keep(picture, later(first, 1.0))
    assert brief(second) == ["up 1 r1"]
    assert isinstance(second.steps[0], Up)
    assert second.steps[0].settle


def test_an_end_with_the_restart_of_its_host_is_no_crash() -> None:
    """Else two reboots of a host would mark a healthy revision as in a crash loop."""
    picture = standing(2).died(1)
    picture.exits[1, 1] = replace(picture.exits[1, 1], host_restarted=True)
    first = keep(picture)
    assert [(clear.slot, clear.incarnation, clear.crashes) for clear in first.writes.clears] == [(1, 1, 0)]
    assert first.memory.crashed == ()
    assert brief(keep(picture.without(1), later(first, 0.1))) == ["up 1 r1"]


def test_the_same_exit_seen_twice_is_one_crash() -> None:
    picture = standing(2).died(1)
    first = keep(picture)
    second = keep(picture, later(first, 0.2))
    assert second.memory.crashed == first.memory.crashed
    assert second.writes.clears[0].crashes <= 1


@pytest.mark.parametrize("kind", ["up", "retire"])
def test_a_crash_that_is_seen_before_its_step_ends_is_counted_then(
    kind: Literal["up", "retire"],
) -> None:
    picture = standing(2).died(1)
    first = keep(picture, None, Busy(kind, 1, 1, 1, "b"))
    assert not first.writes.clears
    second = keep(picture, later(first, 0.1))
    assert [clear.crashes for clear in second.writes.clears] == [1]
    assert brief(second) == []


def test_the_successor_of_a_first_crash_settles_also_on_another_revision() -> None:
    ups = [step for step in roll(rolling(2).died(1)).steps if isinstance(step, Up) and step.slot == 1]
    assert [(step.revision, step.settle) for step in ups] == [(2, True)]


def test_a_lease_that_outlives_its_process_does_not_hold_the_slot_up() -> None:
    picture = standing(2)
    picture.exits[1, 1] = standing(2).died(1).exits[1, 1]
    first = keep(picture)
    del picture.grants[1, 1], picture.exits[1, 1]  # cleared; the record is there until its lease ends
    assert brief(keep(picture, later(first, 1.0))) == ["up 1 r1"]


def test_a_crash_after_a_long_life_counts_as_the_first() -> None:
    picture = standing(2).died(1, lived=STEADY)
    picture.slots[1] = replace(picture.slots[1], crashes=7)
    assert keep(picture).writes.clears[0].crashes == 1


def test_back_off_doubles_to_five_minutes() -> None:
    assert [back_off(times) for times in (1, 2, 3, 9, 10, 5000)] == [1, 2, 4, 256, 300, 300]


def test_a_planned_end_is_no_crash_and_is_followed_at_once() -> None:
    picture = standing(2).died(1, planned=True)
    decided = keep(picture)
    assert decided.writes.clears[0].crashes == 0
    assert brief(decided) == ["up 1 r1"]


def test_scaling_up_uses_what_the_last_rollout_left_and_is_no_rollout() -> None:
    picture = standing(2).revision(2, "t2", "completed")
    picture.target, picture.template = 2, "t2"
    for slot in (0, 1):
        picture.life(slot, revision=2, assign=True)
    memory = picture.memory(stable=2)
    picture.life(2, revision=1).without(2)  # was there once, on the former revision
    picture.want(replicas=3)
    decided = keep(picture, memory)
    assert decided.rollout == 0
    assert brief(decided) == ["up 2 r2"]


def test_after_an_undo_scaling_up_uses_what_was_undone_to() -> None:
    picture = standing(2).revision(2, "t2", "completed")
    memory = picture.memory(stable=1)
    picture.want(replicas=3)
    assert brief(keep(picture, memory)) == ["up 2 r1"]


def test_a_crashed_slot_below_the_partition_returns_on_its_own_revision() -> None:
    picture = rolling(3, partition=2).without(0)
    assert "up 0 r1" in brief(roll(picture))
    assert "up 2 r2" in brief(roll(rolling(3, partition=2).without(2)))


def test_the_ceiling_forbids_creates_while_an_end_is_not_confirmed() -> None:
    picture = standing(2).without(0).life(2, want=None)
    assert brief(keep(picture)) == ["up 0 r1"]  # two live, three may
    decided = keep(picture.life(3, want=None))
    assert brief(decided) == []
    assert decided.writes.status is not None
    assert "ceiling" in decided.writes.status.slots[0].note


def test_after_many_vanished_at_once_repairs_go_one_at_a_time() -> None:
    picture = standing(4)
    memory = picture.memory()
    for slot in (1, 2, 3):
        picture.without_record(slot)
    first = keep(picture, memory)
    assert first.memory.careful
    for slot in (1, 2, 3):  # their agents say at last that they ended
        picture.without(slot)
    second = keep(picture, later(first, 2.0))
    assert brief(second) == ["up 1 r1"]
    busy = Busy("up", 1, 0, 1, "a")
    assert brief(keep(picture, later(second, 1.0), busy)) == []
    for slot in (1, 2, 3):
        picture.life(slot, 2)
    third = keep(picture, later(second, 1.0))
    back = keep(picture, later(third, 11.0))
    assert not back.memory.careful


def test_many_whose_ends_were_seen_at_once_are_repaired_together() -> None:
    """A host that was started anew: nothing about it is doubtful."""
    picture = standing(4)
    memory = picture.memory()
    for slot in (1, 2, 3):
        picture.died(slot)
    first = keep(picture, memory)
    assert not first.memory.careful
    for slot in (1, 2, 3):
        picture.without(slot)
    assert len(brief(keep(picture, later(first, 2.0)))) == 3


def test_granted_newcomer_without_a_waiting_step_is_adopted() -> None:
    picture = standing(2).life(1, state=None)
    memory = replace(picture.memory(), waiting=(AwaitedIncarnation(1, 1, CLOCK - 10),))
    decided = keep(picture, memory)
    assert brief(decided) == ["up 1 r1 .1"]
    assert brief(keep(picture, memory, Busy("up", 1, 1, 1, "b"))) == []


def test_unseen_instance_is_kept_while_its_host_reports_it_running() -> None:
    picture = standing(2)
    memory = picture.memory()
    picture.without_record(1)
    decided = keep(picture, memory)
    seen = 0.0
    while seen < UNKNOWN:
        assert brief(decided) == []
        seen += decided.wait
        decided = keep(picture, later(decided, decided.wait))
    assert brief(decided) == ["up 1 r1 .1"]  # a host that lost its disk would never tell of its end

    asked = Busy("up", 1, 1, 1, "b")  # it runs: no step waits for it
    seen = 0.0
    decided = keep(picture, later(decided, 0.0), asked)
    while seen < UNKNOWN:
        assert (brief(decided), decided.give_up) == ([], ())
        seen += decided.wait
        decided = keep(picture, later(decided, decided.wait), asked)
    assert (brief(decided), decided.give_up) == ([], (1,))  # the host that lost it may have lost it once more
    assert brief(keep(picture, later(decided, 1.0))) == ["up 1 r1 .1"]


def test_wait_begun_before_the_record_vanished_is_given_up_to_ask_the_host() -> None:
    picture = standing(2)
    memory = picture.memory()
    picture.without_record(1)
    late = Busy("up", 1, 1, 1, "b")  # its answer was lost; a host that came back with another disk will never end it
    vanished = keep(picture, memory, late)
    assert vanished.give_up == ()
    assert vanished.wait <= UNKNOWN
    decided = keep(picture, later(vanished, UNKNOWN), late)
    assert (brief(decided), decided.give_up) == ([], (1,))
    assert brief(keep(picture, later(decided, 1.0))) == ["up 1 r1 .1"]


def test_a_gap_in_the_view_puts_off_asking_for_a_missing_record() -> None:
    picture = standing(2)
    memory = picture.memory()
    picture.without_record(1)
    decided = keep(picture, memory)
    unsighted = broken(later(decided, UNKNOWN - 1.0), CLOCK + UNKNOWN - 1.0)
    decided = keep(picture, replace(unsighted, clock=CLOCK + UNKNOWN))
    assert brief(decided) == []


def test_one_that_is_only_asked_for_holds_no_careful_repair_up() -> None:
    picture = standing(4)
    memory = replace(picture.memory(), careful=True)
    picture.without_record(1).died(2, lived=700.0).died(3, lived=700.0)
    decided = keep(picture, memory, Busy("up", 1, 1, 1, "b"))
    picture.without(2).without(3)
    decided = keep(picture, later(decided, 2.0), Busy("up", 1, 1, 1, "b"))
    assert len(decided.steps) == 1


def test_a_newcomer_that_is_never_ready_is_given_up_and_tried_again_later() -> None:
    picture = standing(2, instance_deadline=60.0).life(1, state="starting", host="b")
    memory = replace(
        picture.memory(), waiting=(AwaitedIncarnation(1, 1, CLOCK - 60.0),), ready=picture.memory().ready[:1]
    )
    busy = Busy("up", 1, 1, 1, "b")
    assert keep(picture, memory, busy).give_up == (1,)
    decided = keep(picture, memory)
    assert brief(decided) == ["drop 1.1"]
    assert decided.memory.crashed == (Crashed(1, CLOCK + 1.0, 1, "not ready within 60 s", "b", 1),)
    picture.without(1)
    again = keep(picture, later(decided, 1.0))
    assert [step.host for step in again.steps] == ["a"]  # where it failed comes last


def test_another_revision_does_not_wait_for_the_former_ones_back_off() -> None:
    picture = rolling(2).without(1)
    memory = replace(picture.memory(), crashed=(Crashed(1, CLOCK + 300.0, 10, "exit 1", revision=1),))
    assert "up 1 r2" in brief(roll(picture, memory))
    memory = replace(picture.memory(), crashed=(Crashed(1, CLOCK + 300.0, 10, "exit 1", revision=2),))
    waiting = roll(picture, memory)
    assert "up 1 r2" not in brief(waiting)
    assert waiting.writes.status is not None
    assert "CrashLoop" in waiting.writes.status.slots[1].note


def test_refused_start_is_dropped_with_a_reason() -> None:
    picture = standing(2).life(1, state=None)
    memory = replace(picture.memory(), waiting=(AwaitedIncarnation(1, 1, CLOCK, refused="no secret tls/3"),))
    decided = keep(picture, memory)
    assert brief(decided) == ["drop 1.1"]
    later_on = keep(picture.without(1), decided.memory)
    assert later_on.writes.status is not None
    assert "no secret tls/3" in later_on.writes.status.slots[1].note


def test_what_goes_at_once_stands_before_what_is_filled() -> None:
    picture = standing(4).without(0).without(1).life(3, state=None)
    memory = picture.memory(waiting=(AwaitedIncarnation(3, 1, CLOCK, refused="no secret tls/3"),))
    assert brief(keep(picture, memory)) == ["drop 3.1", "up 0 r1", "up 1 r1"]


@pytest.mark.parametrize(
    ("hosts", "cordons", "version", "expected"),
    [
        ((Host("a"), Host("b")), (), "", "b"),
        ((Host("a"), Host("b")), (Cordon("b", action="cordon"),), "", "a"),
        ((Host("a"), Host("b"), Host("c", ("v2",))), (), "v2", "c"),
        ((Host("a"), Host("b", capacity=1), Host("c", capacity=1)), (), "", "b"),
        ((Host("a", capacity=1),), (), "", ""),
        ((Host("a"),), (), "v2", ""),
        ((), (), "", ""),
    ],
)
def test_chosen_host_is_live_uncordoned_installed_and_least_loaded(
    hosts: tuple[Host, ...], cordons: tuple[Cordon, ...], version: str, expected: str
) -> None:
    picture = Picture(FleetSpec(replicas=2), target=1, cordons=cordons).revision(1, "t1", "completed", version)
    picture.life(0, host="a").hosts = {host.name: host for host in hosts}
    decided = keep(picture)
    assert [step.host for step in decided.steps] == ([expected] if expected else [])
    assert decided.writes.status is not None
    assert ("NoHost" in [one.type for one in decided.writes.status.conditions]) == (not expected)


def test_the_instances_that_a_plan_brings_are_spread() -> None:
    picture = Picture(FleetSpec(replicas=4), target=1).revision(1, "t1")
    assert [step.host for step in roll(picture).steps] == ["a", "b", "a", "b"]


def test_a_new_fleet_is_spread_though_one_host_is_emptier_in_sum() -> None:
    picture = Picture(FleetSpec(replicas=4), target=1).revision(1, "t1")
    observed = picture.observed()
    others = tuple(replace(host, instances=9 if host.name == "a" else 0) for host in observed.hosts)
    decided = plan(replace(observed, hosts=others), picture.memory(), Asked("rollout", "acme", 100, (), LEASE))
    assert [step.host for step in decided.steps] == ["b", "a", "b", "a"]


def test_rollout_keeps_a_fleets_spread_and_spreads_an_uneven_one() -> None:
    steps = roll(rolling(2)).steps
    assert [(step.slot, step.host) for step in steps] == [(1, "b")]
    picture = rolling(4, max_surge=IntOrPercent(4))
    for slot in range(4):
        picture.life(slot, host="a")
    assert sorted(step.host for step in roll(picture).steps) == ["a", "a", "b", "b"]


def test_tenant_is_written_with_the_first_counted_instance_not_for_common() -> None:
    assert keep(standing(1)).writes.tenant == "present"
    assert decide(standing(1), tenant="common").writes.tenant == "as-is"
    assert keep(Picture(target=1).revision(1, "t1", "completed")).writes.tenant == "as-is"


def test_a_host_that_others_filled_meanwhile_is_named() -> None:
    picture = standing(2).life(1, state=None, host="b")
    picture.hosts["b"] = Host("b", capacity=1)
    observed = picture.observed()
    crowded = tuple(replace(host, instances=2) if host.name == "b" else host for host in observed.hosts)
    memory = replace(picture.memory(), waiting=(AwaitedIncarnation(1, 1, CLOCK - 10),))
    asked = Asked("fleet", "acme", 0, (Busy("up", 1, 1, 1, "b"),), LEASE)

    status = plan(replace(observed, hosts=crowded), memory, asked).writes.status
    assert status is not None
    assert [one.note for one in status.slots] == ["", "host b has no room, and is asked again and again"]


def test_a_version_that_no_host_has_is_told_with_the_remedy() -> None:
    picture = standing(1)
    hosts = Hosts(picture.observed(), picture.memory(), 60.0)

    assert hosts.why_none("v9") == "no host has version v9: start an agent with --install v9=PATH"
