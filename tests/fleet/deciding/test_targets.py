"""Which revision is wanted: new, undone, superseded, frozen, reverted; and what the user asks of a rollout."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from tests.fleet.deciding.builders import CLOCK, Picture, brief, keep, later, roll, rolling, standing
from wharfinger.fleet.model.fleet import Cordon, Decisions, FleetSpec, Host, RolloutRequest
from wharfinger.fleet.model.rollout import Busy, HostMissing, Memory, Plan, ReadySince
from wharfinger.objects.model.quantities import IntOrPercent


def outcomes(decided: object) -> list[tuple[int, str]]:
    """As written by a plan."""
    return [(one.revision, one.outcome) for one in decided.writes.outcomes]  # type: ignore[attr-defined]


def test_a_template_that_completes_to_the_same_is_no_newer_target() -> None:
    decided = keep(standing(2).want(min_ready=20.0))
    assert decided.writes.target is None
    assert decided.rollout == 0


def test_a_template_that_was_completed_before_is_that_revision() -> None:
    picture = standing(2).revision(2, "t2", "completed").want("t2")
    decided = keep(picture)
    assert decided.writes.target == 2
    assert not decided.writes.new_revision
    assert decided.rollout == picture.generation


def test_a_template_that_failed_before_is_a_new_revision() -> None:
    picture = standing(2).revision(2, "t2", "failed").want("t2")
    decided = keep(picture, picture.memory())
    assert decided.writes.target == 3
    assert decided.writes.new_revision


def test_fleet_starts_no_rollout_while_a_step_of_its_own_is_open() -> None:
    picture = standing(2).life(1, state="starting").want("t2")
    busy = Busy("up", 1, 1, 1, "b")
    first = keep(picture, None, busy)
    assert first.rollout == 0
    assert first.give_up == (1,)
    assert keep(picture, first.memory).rollout == picture.generation


def test_fleet_repairs_and_scales_while_its_own_drain_delays_a_rollout() -> None:
    picture = standing(4).life(3, host="b", want="drain", state="draining").without(1).want("t2", replicas=3)
    memory, draining = picture.memory(replicas=4), Busy("retire", 3, 1, host="b")

    first = keep(picture, memory, draining)
    assert (first.rollout, first.writes.target) == (0, 2)
    assert brief(first) == ["up 1 r1"]

    picture.revision(2, "t2").target = 2
    filling = Busy("up", 1, 0, 1, first.steps[0].host)
    second = keep(picture, later(first, 5.0), draining, filling)
    assert (brief(second), second.give_up, second.rollout) == ([], (), 0)
    third = keep(picture.want(replicas=2, max_unavailable=IntOrPercent(1)), later(second, 1.0), draining, filling)
    assert (brief(third), third.give_up) == (["retire 2.1"], ())


@pytest.mark.parametrize("kind", ["retire", "drop"])
def test_fleets_own_fill_is_given_up_for_the_rollout_after_a_long_end(
    kind: Literal["retire", "drop"],
) -> None:
    picture = rolling(3).without(2).life(3, host="b", want="drain", state="draining")
    filling = Busy("up", 2, 0, 1, "a")

    ending = keep(picture, None, Busy(kind, 3, 1, host="b"), filling)
    assert (ending.give_up, ending.rollout) == ((), 0)
    ended = keep(picture.without(3), later(ending, 1.0), filling)
    assert (brief(ended), ended.give_up, ended.rollout) == ([], (2,), 0)
    over = keep(picture, later(ended, 1.0))
    assert (brief(over), over.rollout) == ([], picture.generation)  # slot 2 is empty, and the rollout's to fill


def test_lost_host_is_fenced_while_a_drain_delays_a_rollout() -> None:
    picture = rolling(3)
    picture.hosts = {"a": Host("a"), "c": Host("c")}
    missing = (HostMissing("b", CLOCK - 60.0),)
    memory = picture.without_record(1).memory(hosts=missing, silent_hosts=(HostMissing("b", CLOCK),))
    memory = replace(memory, ready=(*memory.ready, ReadySince(1, 1, 0, CLOCK - 50.0, lost=CLOCK - 50.0)))

    decided = keep(picture, memory, Busy("retire", 3, 1, host="a"))

    assert "drop 1.1" in brief(decided)


def test_beside_a_long_drain_nothing_is_replaced_twice() -> None:
    picture = rolling(3, max_surge=IntOrPercent(2))
    picture.cordons = (Cordon("a", action="drain"),)
    assert brief(keep(picture, None, Busy("retire", 3, 1, host="a"))) == []
    assert brief(roll(picture)) == ["up 2 r2", "up 1 r2"]


def test_a_rollout_that_was_planned_and_never_started_is_planned_again() -> None:
    picture = rolling(2)
    first = keep(picture)
    assert first.rollout == picture.generation
    second = keep(picture, later(first, 5.0))  # what it wanted written took too long: it was not followed
    assert second.rollout == picture.generation
    assert outcomes(second) == []


def test_terminated_rollout_is_restarted_under_its_generation() -> None:
    picture = rolling(2).want(min_ready=20.0)  # the object was written since
    assert picture.generation != 100
    missing = replace(picture.memory(), rollout=100)
    decided = keep(picture, missing)
    assert (decided.rollout, outcomes(decided)) == (100, [])
    assert keep(picture, later(decided, 5.0)).rollout == 100  # it was not followed
    newer = keep(picture.want("t3"), missing)
    assert (newer.rollout, newer.writes.target) == (100, 3)


def test_a_terminated_rollout_waits_for_a_drain_of_fleets_own() -> None:
    picture = rolling(3)
    missing = replace(picture.memory(), rollout=90)
    waiting = keep(picture, missing, Busy("retire", 3, 1, host="a"))
    assert waiting.rollout == 0
    assert keep(picture, later(waiting, 1.0)).rollout == 90


def test_a_terminated_rollout_that_had_done_its_work_is_not_started_again() -> None:
    picture = standing(2)
    decided = keep(picture, replace(picture.memory(), rollout=100))
    assert (decided.rollout, decided.memory.rollout, outcomes(decided)) == (0, 0, [])


def test_rollout_cancelled_before_it_acted_is_aborted_for_good() -> None:
    picture = rolling(2)
    decided = keep(picture, replace(picture.memory(), rollout=100), over="its workflow was cancelled")
    assert [(one.outcome, one.why) for one in decided.writes.outcomes] == [("aborted", "its workflow was cancelled")]
    assert decided.rollout == 0
    picture.revision(2, "t2", "aborted")
    assert keep(picture, later(decided, 300)).rollout == 0
    assert keep(picture.want(replicas=3), later(decided, 300)).rollout == 0
    back = keep(picture.want("t1"), later(decided, 300))
    assert (back.writes.target, back.rollout) == (1, 0)  # nothing had it: nothing is to be rolled


def test_invalid_spec_changes_nothing_and_is_reported() -> None:
    picture = standing(2).died(1)
    memory = picture.memory()
    picture.problems = ("spec.replicas: must not be negative",)
    decided = keep(picture, memory)
    assert decided.writes.target is None
    assert decided.writes.status is not None
    assert "SpecInvalid" in [one.type for one in decided.writes.status.conditions]
    assert brief(keep(picture.without(1), later(decided, 1.0))) == ["up 1 r1"]  # repairs go on


def test_a_spec_that_was_never_valid_leads_to_nothing() -> None:
    decided = keep(Picture(problems=("spec: is no object",)), Memory())
    assert not decided.steps
    assert decided.writes.target is None
    assert decided.memory.spec is None


def test_an_abort_freezes_the_target_drops_the_newcomers_and_is_done() -> None:
    picture = rolling(3).life(2, 2, revision=2, state="starting")
    memory = picture.memory()
    picture.spec = replace(picture.spec, request=RolloutRequest(100, "abort"))
    busy = Busy("up", 2, 2, 2, "a")
    first = roll(picture, memory, busy)
    assert outcomes(first) == [(2, "aborted")]
    assert first.give_up == (2,)
    picture.revision(2, "t2", "aborted")
    second = roll(picture, later(first, 1.0))
    assert brief(second) == ["drop 2.2"]
    assert second.done is None
    third = roll(picture.without(2, 2), later(second, 1.0))
    assert third.done == "aborted"
    assert keep(picture, later(third, 1.0)).rollout == 0


def test_aborted_rollout_starts_nothing_even_for_a_draining_host() -> None:
    picture = rolling(2).revision(2, "t2", "aborted")
    picture.cordons = (Cordon("a", action="drain"),)
    assert roll(picture).done == "aborted"
    assert brief(keep(picture)) == ["up 0 r1"]  # it is Fleet's


def test_an_abort_keeps_a_newcomer_that_alone_serves_its_slot() -> None:
    picture = rolling(2).life(1, 2, revision=2).without(1, 1).revision(2, "t2", "aborted")
    assert roll(picture).done == "aborted"
    picture.life(1, 1, revision=1, host="b")
    decided = roll(picture)
    assert brief(decided) == ["retire 1.2"]
    assert decided.done is None


def test_an_abort_of_a_revision_completed_before_freezes_it_all_the_same() -> None:
    picture = standing(2).revision(2, "t2", "completed").want("t2")
    picture.target = 2
    memory = picture.memory()
    picture.spec = replace(picture.spec, request=RolloutRequest(100, "abort"))
    decided = roll(picture, memory)
    assert decided.done == "aborted"
    assert outcomes(decided) == []
    assert keep(picture, later(decided, 1.0)).rollout == 0


def test_a_request_for_another_rollout_is_ignored() -> None:
    picture = rolling(3)
    picture.spec = replace(picture.spec, request=RolloutRequest(99, "abort"))
    assert outcomes(roll(picture)) == []


def test_a_request_is_followed_once_for_each_write_of_the_spec() -> None:
    picture = rolling(3)
    memory = replace(picture.memory(), halted="no progress")
    picture.spec = replace(picture.spec, request=RolloutRequest(100, "resume"))
    first = roll(picture, memory)
    assert first.memory.halted == ""
    assert brief(first) == ["up 2 r2"]
    halted_again = replace(first.memory, halted="no progress")
    assert roll(picture, halted_again).memory.halted
    picture.want()
    assert roll(picture, halted_again).memory.halted == ""


def test_a_write_that_brings_a_new_target_promotes_nothing() -> None:
    picture = rolling(4, canary=1)
    memory = replace(picture.memory(), canary=(3,), promoted=False)
    picture.want("t3", request=RolloutRequest(100, "promote"))
    decided = roll(picture, memory)
    assert not decided.memory.promoted
    assert decided.memory.canary == (3,)


def test_without_progress_a_rollout_halts_by_itself_and_repairs_go_on() -> None:
    picture = rolling(3, progress_deadline=600.0)
    memory = replace(picture.memory(), progress_mark=(0, 3), progress_at=CLOCK - 600.0)
    decided = roll(picture, memory)
    assert "no progress for 600 s" in decided.memory.halted
    assert decided.done is None
    assert brief(decided) == []
    assert brief(roll(picture.without(0), later(decided, 1.0))) == ["up 0 r1"]


@pytest.mark.parametrize(
    ("began", "gap", "acts", "expires"),
    [
        pytest.param(12.0, 15.0, 10.0, 22.0, id="a rollout that begins soon after a gap has all of it"),
        pytest.param(11.0, 1.0, 24.0, 26.0, id="one that is interrupted has what was left"),
        pytest.param(3.0, 60.0, 0.0, 9.0, id="a gap that is long over changes nothing"),
    ],
)
def test_the_deadline_does_not_run_while_nothing_is_replaced_after_a_gap(
    began: float, gap: float, acts: float, expires: float
) -> None:
    """`began` and `gap`: so many seconds ago; `acts` and `expires`: in so many."""
    picture = rolling(3, instance_deadline=6.0, progress_deadline=12.0)
    memory = picture.memory(sight_since=CLOCK - gap, progress_mark=(0, 3), progress_at=CLOCK - began)
    first = roll(picture, memory)
    assert (brief(first), first.memory.halted) == (["up 2 r2"] if acts == 0.0 else [], "")
    second = roll(picture, later(first, acts))
    assert (brief(second), second.memory.halted) == (["up 2 r2"], "")
    picture.life(2, 2, revision=2, state="starting")
    busy = Busy("up", 2, 2, 2, "a")
    soon = roll(picture, later(first, expires - 0.5), busy)
    assert (soon.memory.halted, soon.wait) == ("", pytest.approx(0.5))
    assert "no progress for 12 s" in roll(picture, later(first, expires), busy).memory.halted


def test_progress_restarts_the_deadline_but_going_back_and_forth_does_not() -> None:
    picture = rolling(3)
    memory = replace(picture.memory(), progress_mark=(0, 3), progress_at=CLOCK - 599.0)
    picture.without(2).life(2, 2, revision=2, assign=True)
    memory = replace(memory, ready=picture.memory().ready)
    first = roll(picture, memory)
    assert first.memory.progress_at == CLOCK
    assert first.memory.progress_mark == (1, 2)
    picture.without(2, 2)
    second = roll(picture, later(first, 100.0))
    assert second.memory.progress_at == CLOCK


def test_failed_rollout_reverts_to_the_last_good_revision_without_retry() -> None:
    picture = rolling(3, on_deadline="revert").life(2, 2, revision=2, state="starting")
    memory = replace(picture.memory(), progress_mark=(0, 3), progress_at=CLOCK - 600.0)
    busy = Busy("up", 2, 2, 2, "a")
    first = roll(picture, memory, busy)
    assert outcomes(first) == [(2, "failed")]
    assert first.writes.target == 1
    assert first.give_up == (2,)
    picture.revision(2, "t2", "failed").target = 1
    second = roll(picture, later(first, 1.0))
    assert brief(second) == ["drop 2.2"]
    third = roll(picture.without(2, 2), later(second, 1.0))
    assert third.done == "failed"
    fleet = keep(picture, later(third, 1.0))
    assert fleet.rollout == 0
    assert fleet.writes.target is None
    assert fleet.writes.status is not None
    assert fleet.writes.status.rollout == "failed"
    again = keep(picture.want("t3"), later(fleet, 1.0))
    assert again.writes.target == 3


def test_an_actor_without_memory_does_not_try_a_reverted_revision_again() -> None:
    picture = standing(2).revision(2, "t2", "failed").want("t2")
    decided = keep(picture, Memory())
    assert decided.writes.target is None
    assert decided.memory.reverted_from == 2


def test_revert_goes_to_the_last_stable_revision_not_the_highest_number() -> None:
    picture = standing(2, on_deadline="revert").revision(2, "t2", "completed").revision(3, "t3").want("t3")
    picture.target = 3
    memory = replace(picture.memory(), stable=1, progress_mark=(0, 2), progress_at=CLOCK - 600.0)
    assert roll(picture, memory).writes.target == 1


def test_without_anything_to_revert_to_it_halts() -> None:
    picture = Picture(FleetSpec(replicas=1, on_deadline="revert"), target=1).revision(1, "t1")
    memory = replace(picture.memory(), progress_mark=(0, 0), progress_at=CLOCK - 600.0)
    decided = roll(picture, memory)
    assert decided.memory.halted
    assert outcomes(decided) == []


# --- what a memory does not know, the record does ----------------------------------------------


def recorded(picture: Picture, decided: Plan) -> Picture:
    """Etcd after that plan: the decisions lie beside the target."""
    picture.decisions = decided.writes.decisions or picture.decisions
    return picture


def test_what_is_decided_about_a_target_is_recorded_once() -> None:
    picture = rolling(4, canary=1)
    first = roll(picture, Memory())
    assert first.writes.decisions == Decisions(number=1, target=2, canary=(3,))
    assert roll(recorded(picture, first), later(first, 1.0)).writes.decisions is None
    assert roll(picture, Memory()).writes.decisions is None


def test_a_lost_memory_keeps_the_canary_where_it_is() -> None:
    picture = rolling(3, canary=1)
    recorded(picture, roll(picture, Memory()))
    picture.want(replicas=5)
    decided = roll(picture, Memory())
    assert decided.memory.canary == (2,)
    assert not decided.memory.promoted


def test_promotion_of_a_canary_outlives_a_lost_memory() -> None:
    picture = rolling(3, canary=1)
    recorded(picture, roll(picture, Memory()))
    picture.want(request=RolloutRequest(100, "promote"))
    recorded(picture, roll(picture, Memory()))
    picture.want(request=None)
    assert roll(picture, Memory()).memory.promoted


@pytest.mark.parametrize("older", [False, True])
def test_stopped_rollout_stays_stopped_for_a_lost_or_older_memory(older: bool) -> None:
    picture = rolling(3, progress_deadline=600.0)
    before = roll(picture)
    recorded(picture, before)
    memory = replace(later(before, 600.0), progress_mark=(0, 3), progress_at=CLOCK)
    recorded(picture, roll(picture, memory))
    decided = roll(picture, memory if older else Memory())
    assert "no progress for 600 s" in decided.memory.halted
    assert brief(decided) == []
    picture.want(request=RolloutRequest(100, "resume"))
    resumed = roll(picture, memory if older else Memory())
    assert resumed.memory.halted == ""
    assert resumed.writes.decisions is not None


def test_lost_memory_does_not_roll_an_aborted_revision_completed_before() -> None:
    picture = standing(2).revision(2, "t2", "completed").want("t2")
    picture.target = 2
    memory = picture.memory()
    picture.spec = replace(picture.spec, request=RolloutRequest(100, "abort"))
    recorded(picture, roll(picture, memory))
    assert keep(picture, Memory()).rollout == 0


def test_decisions_about_another_target_count_for_nothing() -> None:
    picture = rolling(3, canary=1)
    picture.decisions = Decisions(number=7, target=1, canary=(0,), promoted=True, halted="no progress")
    decided = roll(picture, Memory())
    assert (decided.memory.canary, decided.memory.promoted, decided.memory.halted) == ((2,), False, "")
    assert decided.writes.decisions is not None
    assert (decided.writes.decisions.number, decided.writes.decisions.target) == (8, 2)


def test_what_the_memory_learned_elsewhere_is_recorded_and_not_forgotten() -> None:
    """A rollout that was cancelled from outside tells Fleet alone that its target is frozen."""
    picture = rolling(2)
    first = roll(picture)
    recorded(picture, first)
    decided = keep(picture, replace(later(first, 1.0), frozen=2))
    assert decided.rollout == 0
    assert decided.writes.decisions is not None
    assert decided.writes.decisions.frozen == 2


def test_revisions_beyond_the_limit_are_forgotten_and_those_in_use_are_not() -> None:
    picture = Picture(FleetSpec(replicas=1, history_limit=1), template="t5", target=5)
    for number in range(1, 6):
        picture.revision(number, f"t{number}", "completed")
    picture.life(0, revision=5)
    assert keep(picture).writes.forget_revisions == (1, 2, 3)
    picture.life(1, revision=1, want=None)
    assert keep(picture).writes.forget_revisions == (2, 3)


@pytest.mark.parametrize("number", [1, 2])
def test_the_same_plan_twice(number: int) -> None:
    picture = rolling(number + 1).died(0)
    assert roll(picture) == roll(picture)
