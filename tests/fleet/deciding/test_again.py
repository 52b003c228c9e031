"""A template that is wanted again under a new number, because its former rollout was left unfinished.

What runs it already, under the former number, is kept.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.deciding.builders import CLOCK, Picture, brief, keep, later, roll, standing
from wharfinger.fleet.model.fleet import Cordon, Decisions, OutcomeName, RolloutRequest
from wharfinger.fleet.model.rollout import Busy, Crashed, Plan


def again(replicas: int = 4, former: OutcomeName = "superseded", **spec: object) -> Picture:
    """t2 was brought to the two highest slots as revision 2; now it is wanted once more, as revision 4."""
    picture = standing(replicas, **spec).revision(2, "t2", former).revision(3, "t3", "superseded").revision(4, "t2")
    for slot in (replicas - 1, replicas - 2):
        picture.without(slot).life(slot, 2, revision=2, assign=True)
    picture.target = 4
    return picture.want("t2")


def assigned(decided: Plan) -> list[tuple[int, int]]:
    """What slots are assigned by a plan, without any step."""
    return [(one.slot, one.revision) for one in decided.writes.assigns]


def updated(decided: Plan) -> int:
    """As readers are told."""
    assert decided.writes.status is not None
    return decided.writes.status.updated


@pytest.mark.parametrize("former", ["superseded", "aborted", "failed"])
def test_slot_already_on_the_template_is_kept_and_gets_the_new_number(former: OutcomeName) -> None:
    decided = roll(again(former=former))
    assert brief(decided) == ["up 1 r4"]
    assert assigned(decided) == [(2, 4), (3, 4)]
    assert updated(decided) == 2


def test_the_way_back_from_a_newer_template_ends_only_its_newcomer() -> None:
    picture = again().life(3, 3, revision=3, state="starting")
    picture.revision(3, "t3").target = 3
    picture.revisions.pop(4)
    first = roll(picture)
    assert (first.writes.target, first.writes.new_revision) == (4, True)
    assert "drop 3.3" in brief(first)
    assert not {"retire 3.2", "retire 2.2", "up 3 r4", "up 2 r4"} & set(brief(first))


def test_a_newcomer_of_the_former_number_is_waited_for() -> None:
    picture = again()
    picture.life(1, 2, revision=2, state="starting")
    memory = picture.memory()
    busy = Busy("up", 1, 2, 2, "b")
    assert roll(picture, memory, busy).give_up == ()
    assert brief(roll(picture, memory)) == ["up 1 r2 .2"]
    picture.life(1, 2, revision=2)
    decided = roll(picture)
    assert [step for step in brief(decided) if " 1" in step] == ["retire 1.1"]
    assert decided.steps[0].assign == 4  # type: ignore[union-attr]


def test_rollout_to_the_running_template_only_renumbers_then_completes() -> None:
    picture = again(2)
    assert keep(picture).rollout == picture.generation
    first = roll(picture)
    assert (brief(first), assigned(first), first.done) == ([], [(0, 4), (1, 4)], None)
    for slot in range(2):
        picture.slots[slot] = replace(picture.slots[slot], revision=4)
    second = roll(picture, later(first, 0))
    assert [(one.revision, one.outcome) for one in second.writes.outcomes] == [(4, "completed")]
    assert second.done == "completed"
    picture.revision(4, "t2", "completed")
    third = keep(picture, later(second, 1))
    assert (brief(third), third.rollout, updated(third)) == ([], 0, 2)
    assert 2 not in third.writes.forget_revisions  # its instances name it


def test_a_slot_that_is_out_of_reach_keeps_what_it_has_and_counts() -> None:
    picture = again(2, partition=1)
    first = roll(picture)
    assert (brief(first), assigned(first)) == ([], [(1, 4)])
    picture.slots[1] = replace(picture.slots[1], revision=4)
    second = roll(picture, later(first, 0))
    assert (brief(second), assigned(second), second.done) == ([], [], "completed")
    picture.revision(4, "t2", "completed").died(0, 2).without(0, 2)
    assert brief(keep(picture, later(second, 1))) == ["up 0 r2"]


@pytest.mark.parametrize(("strategy", "condition"), [("partition", "PartitionComplete"), ("canary", "CanaryWaiting")])
def test_slot_on_the_template_by_chance_is_held_back_and_reported(strategy: str, condition: str) -> None:
    """It ran when its rollout was aborted, and nothing else did; the slot would return on what it had before."""
    picture = again(2, **{strategy: 1})
    picture.slots[0] = replace(picture.slots[0], revision=1)
    picture.slots[1] = replace(picture.slots[1], revision=4)
    decided = roll(picture, replace(picture.memory(), canary=(1,)))
    assert (brief(decided), assigned(decided), decided.done) == ([], [], None)
    assert decided.writes.status is not None
    assert condition in [one.type for one in decided.writes.status.conditions]


def test_canary_keeps_slots_already_on_the_template_and_adds_none() -> None:
    picture = again(canary=1)
    memory = replace(picture.memory(), canary=(3,))
    decided = roll(picture, memory)
    assert (brief(decided), assigned(decided), updated(decided)) == ([], [(3, 4)], 2)


def test_a_pause_holds_nothing_that_runs_it_already() -> None:
    decided = roll(again(paused=True))
    assert (brief(decided), assigned(decided)) == ([], [(2, 4), (3, 4)])


def test_an_abort_leaves_what_its_slot_may_return_on() -> None:
    picture = again()
    picture.slots[3] = replace(picture.slots[3], revision=4)
    picture.spec = replace(picture.spec, request=RolloutRequest(100, "abort"))
    decided = roll(picture)
    assert (brief(decided), decided.done) == ([], "aborted")
    picture.revision(4, "t2", "aborted")
    assert brief(keep(picture, later(decided, 1))) == []


def test_a_slot_that_crashed_on_it_backs_off_under_the_new_number_too() -> None:
    picture = again().without(3, 2)
    memory = replace(picture.memory(), crashed=(Crashed(3, CLOCK + 40, 3, "exit 1", "a", 2),))
    assert "up 3 r4" not in brief(roll(picture, memory))
    assert "up 3 r4" in brief(roll(picture, replace(memory, clock=CLOCK + 41)))
    picture.life(3, 3, revision=4).died(3, 3)
    assert roll(picture, memory).memory.crashed[0].times == 4


def test_a_host_that_is_drained_is_left_all_the_same() -> None:
    picture = again(2)
    picture.cordons = (Cordon("a", action="drain"),)
    for slot in range(2):
        picture.life(slot, 2, revision=2, host="ab"[slot])
    assert brief(roll(picture)) == ["up 0 r4"]


def test_back_to_another_template_it_is_replaced_under_either_number() -> None:
    picture = again().life(1, 2, revision=4, assign=True).without(1, 1)
    picture.revision(4, "t2", "failed").target = 1
    picture.decisions = Decisions(1, target=1, promoted=True, reverted_from=4)
    decided = roll(picture, replace(picture.memory(), reverted_from=4, decisions=1))
    assert brief(decided) == ["up 3 r1"]
    assert updated(decided) == 1
