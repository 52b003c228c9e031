"""Scaling down, lost and drained hosts, deletion, a fleet made again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.deciding.builders import (
    CLOCK,
    IDENTITY,
    LEASE,
    Picture,
    brief,
    decide,
    keep,
    later,
    roll,
    rolling,
    standing,
)
from wharfinger.fleet.deciding.lives import Asked
from wharfinger.fleet.deciding.planner import plan
from wharfinger.fleet.model.fleet import Cordon, Host, InstanceState
from wharfinger.fleet.model.rollout import Busy, Drop, HostMissing, KnownHost, Memory, ReadySince, Retire
from wharfinger.objects.model.quantities import IntOrPercent


def test_the_highest_slots_go_first() -> None:
    picture = standing(4)
    memory = picture.memory()
    assert brief(keep(picture.want(replicas=2), memory)) == ["retire 3.1", "retire 2.1"]


def test_scaling_down_waits_until_the_slots_that_stay_are_available() -> None:
    picture = standing(3).life(0, state="starting")
    memory = picture.memory()
    decided = keep(picture.want(replicas=2), memory)
    assert "retire 2.1" not in brief(decided)
    assert "waits for other slots" in (decided.writes.status.slots[2].note if decided.writes.status else "")


def test_one_of_two_ready_incarnations_beyond_replicas_leaves_at_any_floor() -> None:
    picture = standing(3).life(2, 2, revision=1).without(0)
    memory = picture.memory()
    decided = keep(picture.want(replicas=2), memory)
    assert "retire 2.1" in brief(decided)  # else the ceiling would never let slot 0 be filled
    assert "retire 2.2" not in brief(decided)


def test_a_starting_instance_beyond_the_replicas_is_dropped() -> None:
    picture = standing(3).life(2, state="starting")
    memory = picture.memory()
    assert brief(keep(picture.want(replicas=2), memory)) == ["drop 2.1"]
    busy = Busy("up", 2, 1, 1, "a")
    assert keep(picture, memory, busy).give_up == (2,)


def test_scaling_to_nought_lets_all_go() -> None:
    picture = standing(2)
    memory = picture.memory()
    assert brief(keep(picture.want(replicas=0), memory)) == ["retire 1.1", "retire 0.1"]


def test_a_host_is_lost_when_its_record_is_absent_and_its_queue_silent() -> None:
    picture = standing(2)
    memory = picture.memory()
    del picture.hosts["b"]
    picture.without_record(1)
    first = keep(picture, memory)
    assert brief(first) == []
    assert first.memory.hosts == (HostMissing("b", CLOCK),)
    asked = keep(picture, later(first, 60.0))
    assert brief(asked) == ["up 1 r1 .1"]  # the queue is asked
    silent = replace(later(asked, 30.0), silent_hosts=(HostMissing("b", CLOCK + 90.0),))
    lost = keep(picture, silent)
    assert brief(lost) == ["drop 1.1"]
    assert isinstance(lost.steps[0], Drop)
    assert not lost.steps[0].kill
    moved = keep(picture.without(1), later(lost, 1.0))
    assert [step.host for step in moved.steps] == ["a"]


def test_a_host_is_lost_after_the_seconds_that_its_agents_were_given() -> None:
    picture = standing(2)
    memory = picture.memory()
    del picture.hosts["b"]
    picture.without_record(1)
    asked = Asked("fleet", "acme", 0, (), LEASE, host_lost=40.0)
    first = plan(picture.observed(), memory, asked)

    assert brief(first) == []
    assert brief(plan(picture.observed(), later(first, 39.0), asked)) == []
    assert brief(plan(picture.observed(), later(first, 40.0), asked)) == ["up 1 r1 .1"]


def lost(picture: Picture, *hosts: str, known: str = "abcde", since: float = CLOCK - 100.0) -> Memory:
    """Memory of hosts that went so long ago, whose queues are silent and whose instances lost their leases then."""
    memory = picture.memory(
        hosts=tuple(HostMissing(host, since) for host in hosts),
        silent_hosts=tuple(HostMissing(host, CLOCK - 5.0) for host in hosts),
        known=tuple(KnownHost(host, since if host in hosts else None) for host in known),
    )
    for host in hosts:
        picture.hosts.pop(host, None)
    gone = [key for key in picture.grants if key not in picture.instances]
    return replace(memory, ready=(*memory.ready, *(ReadySince(*key, 0, since, lost=since) for key in gone)))


@pytest.mark.parametrize("seconds", [0.0, 100.0, 10_000.0])
def test_ready_instance_with_a_lease_counts_and_stays_without_an_agent(seconds: float) -> None:
    picture = standing(3)
    memory = lost(picture, "a", "b")
    picture.hosts["c"] = Host("c")
    first = keep(picture, memory)
    decided = keep(picture, later(first, seconds))
    assert brief(decided) == brief(first) == []
    assert decided.writes.status is not None
    assert decided.writes.status.ready == 3


@pytest.mark.parametrize("state", ["starting", "withdrawn"])
def test_unready_instance_with_a_lease_is_not_fenced_without_its_agent(state: InstanceState) -> None:
    picture = standing(3).life(1, host="b", state=state)
    memory = lost(picture, "b")
    assert brief(keep(picture, memory)) == ["up 1 r1 .1"]  # waits for it
    assert brief(keep(picture.without_record(1), lost(picture, "b"))) == ["drop 1.1"]


def test_brief_loss_of_a_lease_ends_no_instance_whose_agent_is_away() -> None:
    picture = standing(3)
    memory = lost(picture, "b")
    first = keep(picture.without_record(1), memory)
    assert brief(first) == []
    assert brief(keep(picture, later(first, LEASE + 9.0))) == []
    assert brief(keep(picture, later(first, LEASE + 10.0))) == ["drop 1.1"]


def test_a_fence_for_a_lost_host_compares_that_the_instance_is_not_back() -> None:
    picture = standing(3).without_record(1)
    (step,) = keep(picture, lost(picture, "b")).steps
    assert isinstance(step, Drop)
    assert (step.kill, step.registered) == (False, 0)


def test_rollout_drains_a_host_without_an_agent_slot_by_slot_above_floor() -> None:
    picture = rolling(3)
    picture.hosts["c"] = Host("c")
    memory = lost(picture, "b")
    assert brief(roll(picture, memory)) == ["up 2 r2"]
    picture.life(1, 2, revision=2, host="c")
    memory = lost(picture, "b")
    begun = roll(picture, memory)
    assert "retire 1.1" in brief(begun)  # its worker watches the grant, and leaves by itself
    picture.life(1, 1, host="b", want="drain", state="draining")
    leaving = roll(picture, later(begun, 1.0), Busy("retire", 1, 1, host="b"))
    assert leaving.writes.status is not None
    (drain,) = [one for one in leaving.writes.status.running if one.slot == 1]
    assert drain.sentence.endswith("its host has no agent: it is gone when its lease is and the host does not answer")
    picture.without_record(1, 1)
    assert "drop 1.1" in brief(roll(picture, later(leaving, 60.0)))


def test_drain_without_an_agent_keeps_its_time_in_the_next_run() -> None:
    picture = standing(2, drain_timeout=3600.0).life(2, host="b", want="drain", state="draining")
    first = keep(picture, lost(picture, "b"))  # no step is open: the run before was continued

    assert brief(first) == ["retire 2.1"]
    assert brief(keep(picture, later(first, 3599.0))) == ["retire 2.1"]
    assert brief(keep(picture, later(first, 3600.0))) == ["drop 2.1"]
    assert brief(keep(picture.without_record(2), later(first, 1.0))) == ["drop 2.1"]


def test_of_most_hosts_lost_at_once_one_slot_is_repaired_at_a_time() -> None:
    picture = standing(4).without_record(0).without_record(1).without_record(2).without_record(3)
    memory = lost(picture, "a", "b", known="abc")
    picture.hosts["c"] = Host("c")
    first = keep(picture, memory)
    assert brief(first) == ["drop 0.1"]
    assert first.writes.status is not None
    assert first.writes.status.lost_together == ("a", "b")
    assert "2 hosts were lost at once" in first.writes.status.phase
    assert brief(keep(picture, later(first, 1.0), Busy("drop", 0, 1, host="a"))) == []
    filled = keep(picture.without(0), later(first, 2.0))
    assert brief(filled) == ["up 0 r1"]
    coming = picture.life(0, 2, host="c", state="starting")
    assert brief(keep(coming, later(filled, 3.0), Busy("up", 0, 2, 1, "c"))) == []
    back = picture.life(0, 2, host="c")
    served = replace(lost(back, "a", "b", known="abc"), known=filled.memory.known)
    assert brief(keep(back, served)) == ["drop 1.1"]


def test_empty_slot_without_a_host_blocks_no_repair_after_a_great_loss() -> None:
    picture = standing(4).revision(2, "t2", "superseded", "v2").without(3)
    picture.slots[3] = replace(picture.slots[3], revision=2)
    picture.want("t3").revision(3, "t3", "aborted", "v2")
    picture.target = 3
    for slot in range(3):
        picture.without_record(slot)
    memory = lost(picture, "a", "b", known="abc")
    picture.hosts["c"] = Host("c")  # has no v2

    assert brief(keep(picture, memory)) == ["drop 0.1"]
    picture.hosts["c"] = Host("c", installs=("v2",))
    assert brief(keep(picture, memory)) == ["up 3 r2"]


def test_host_confirmed_as_lost_is_repaired_at_once() -> None:
    picture = standing(4).without_record(0).without_record(1).without_record(2).without_record(3)
    memory = lost(picture, "a", "b", known="abc")
    picture.lost = ("b",)
    assert brief(keep(picture, memory)) == ["drop 0.1", "drop 1.1", "drop 3.1"]  # host a had the one that may begin


@pytest.mark.parametrize(
    ("known", "apart"), [("ab", 0.0), ("abcd", 0.0), ("abc", 61.0)], ids=["two known", "half of them", "far apart"]
)
def test_smaller_losses_are_repaired_as_ever(known: str, apart: float) -> None:
    picture = standing(4).without_record(0).without_record(1).without_record(2).without_record(3)
    memory = lost(picture, "a", "b", known=known, since=CLOCK - 200.0)
    moved = tuple(KnownHost("b", CLOCK - 200.0 + apart) if one.host == "b" else one for one in memory.known)
    picture.hosts = {name: Host(name) for name in known if name not in "ab"}
    assert len(brief(keep(picture, replace(memory, known=moved)))) == 4


def test_a_host_that_is_back_is_none_of_those_that_were_lost_together() -> None:
    picture = standing(4).without_record(0).without_record(2)
    memory = lost(picture, "a", "b", known="abc")
    picture.hosts |= {"b": Host("b"), "c": Host("c")}
    assert brief(keep(picture, memory)) == ["drop 0.1", "drop 2.1"]


def test_a_silent_queue_alone_loses_no_host() -> None:
    picture = standing(2).without_record(1)
    memory = replace(standing(2).memory(), silent_hosts=(HostMissing("b", CLOCK),))
    assert brief(keep(picture, memory)) == []


def test_a_draining_host_is_left_on_the_same_revision_within_the_budget() -> None:
    picture = standing(3)
    picture.cordons = (Cordon("a", action="drain"),)
    decided = keep(picture)
    assert brief(decided) == ["up 2 r1"]
    assert decided.steps[0].host == "b"
    assert decided.rollout == 0
    picture.life(2, 2, host="b")
    assert brief(keep(picture, later(keep(picture, decided.memory), 10.0))) == ["retire 2.1"]


def test_a_cordoned_host_keeps_what_it_has() -> None:
    picture = standing(3)
    picture.cordons = (Cordon("a", action="cordon"),)
    assert brief(keep(picture)) == []


def test_nothing_is_retired_from_a_draining_host_when_there_is_no_other() -> None:
    picture = standing(2, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1))
    picture.hosts = {"a": Host("a")}
    for slot in (0, 1):
        picture.life(slot, host="a")
    picture.cordons = (Cordon("a", action="drain"),)
    decided = keep(picture)
    assert brief(decided) == []
    assert decided.writes.status is not None
    assert "NoHost" in [one.type for one in decided.writes.status.conditions]


def test_deletion_sends_the_pods_away_drains_all_and_removes_the_keys_last() -> None:
    picture = standing(2)
    picture.deleting, picture.tenant_present = True, True
    first = keep(picture)
    assert first.writes.tenant == "absent"
    assert brief(first) == ["retire 0.1", "retire 1.1"]
    assert all(step.counted == () for step in first.steps if isinstance(step, Retire))
    picture.tenant_present = False
    for slot in (0, 1):
        picture.life(slot, want="drain", state=None).died(slot, planned=True)
    second = keep(picture, later(first, 1.0))
    assert len(second.writes.clears) == 2
    assert not second.ended
    assert second.wait < 1.0
    third = keep(picture.without(0).without(1), later(second, 1.0))
    assert third.ended
    assert third.writes.end


def test_a_deleted_fleet_ends_its_rollout_first() -> None:
    picture = rolling(2).life(1, 2, revision=2, state="starting")
    picture.deleting = True
    busy = Busy("up", 1, 2, 2, "a")
    first = roll(picture, None, busy)
    assert first.give_up == (1,)
    assert first.done is None
    second = roll(picture, first.memory)
    assert second.done == "aborted"
    assert [(one.revision, one.outcome) for one in second.writes.outcomes] == [(2, "aborted")]
    assert brief(second) == []


def test_without_object_and_grants_there_is_nothing_left_to_do() -> None:
    picture = Picture(there=False)
    decided = keep(picture, Memory())
    assert decided.ended
    assert not decided.writes.end
    left = keep(Picture(there=False, target=1).revision(1, "t1"), Memory())
    assert left.ended
    assert left.writes.end


def test_a_fleet_made_again_first_drains_what_the_former_one_had() -> None:
    picture = standing(2)
    for slot in (0, 1):
        picture.life(slot, identity=IDENTITY - 1)
    picture.want(replicas=3)
    decided = keep(picture)
    assert brief(decided) == ["retire 0.1", "retire 1.1"]


def test_drain_without_a_step_is_followed_to_its_end() -> None:
    picture = standing(2).life(1, want="drain", state="draining")
    assert brief(keep(picture)) == ["retire 1.1"]
    assert brief(keep(picture, None, Busy("retire", 1, 1, host="b"))) == []


def test_while_a_rollout_is_open_fleet_does_nothing() -> None:
    picture = rolling(3).died(1)
    decided = decide(picture, "fleet", generation=100)
    assert not decided.steps
    assert decided.writes.empty
