"""Scaling down, lost and drained hosts, deletion, a fleet made again."""

from __future__ import annotations

from dataclasses import replace

from tests.fleet.builders import CLOCK, IDENTITY, Picture, brief, decide, keep, later, roll, rolling, standing
from wharfinger.model.fleet import Cordon, Host, Share
from wharfinger.model.rollout import Busy, Drop, HostMissing, Memory, Retire


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


def test_of_two_ready_incarnations_beyond_the_replicas_one_goes_whatever_the_floor() -> None:
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


def test_a_silent_queue_alone_loses_no_host() -> None:
    picture = standing(2).without_record(1)
    memory = replace(standing(2).memory(), silent_hosts=(HostMissing("b", CLOCK),))
    assert brief(keep(picture, memory)) == []


def test_a_draining_host_is_left_on_the_same_revision_within_the_budget() -> None:
    picture = standing(3)
    picture.cordons = (Cordon("a", "drain"),)
    decided = keep(picture)
    assert brief(decided) == ["up 2 r1"]
    assert decided.steps[0].host == "b"
    assert decided.rollout == 0
    picture.life(2, 2, host="b")
    assert brief(keep(picture, later(keep(picture, decided.memory), 10.0))) == ["retire 2.1"]


def test_a_cordoned_host_keeps_what_it_has() -> None:
    picture = standing(3)
    picture.cordons = (Cordon("a", "cordon"),)
    assert brief(keep(picture)) == []


def test_nothing_is_retired_from_a_draining_host_when_there_is_no_other() -> None:
    picture = standing(2, max_surge=Share(0), max_unavailable=Share(1))
    picture.hosts = {"a": Host("a")}
    for slot in (0, 1):
        picture.life(slot, host="a")
    picture.cordons = (Cordon("a", "drain"),)
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


def test_a_drain_that_nobody_follows_any_more_is_followed_to_its_end() -> None:
    picture = standing(2).life(1, want="drain", state="draining")
    assert brief(keep(picture)) == ["retire 1.1"]
    assert brief(keep(picture, None, Busy("retire", 1, 1, host="b"))) == []


def test_while_a_rollout_is_open_fleet_does_nothing() -> None:
    picture = rolling(3).died(1)
    decided = decide(picture, "fleet", generation=100)
    assert not decided.steps
    assert decided.writes.empty
