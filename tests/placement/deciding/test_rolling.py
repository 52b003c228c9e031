"""The steps of a rolling update and the waves that follow: KubeFleet's own cases, and what is different on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.placement.deciding.rolling import ForeseenRollout, foresee, is_ready, plan
from wharfinger.placement.model.delivery import MemberDelivery, RolloutBudget, RolloutSteps, StepKind

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "kubefleet_rollouts.json").read_text())["cases"]
FREE = "removing what is not available takes nothing from the budget"
COUNTED = "what is being removed counts until it is gone"
DIFFERENT = {
    "upscale with policy change MaxSurge specified, evict resources from canBeReady bound binding - rollout allowed for"
    " three new scheduled bindings": (FREE, [1, 2, 3, 4]),
    "policy change with MaxSurge specified, evict resources on unscheduled cluster - rollout allowed for one scheduled"
    " binding": (FREE, [1, 2]),
    "downscale with policy change, evict unscheduled failed to apply binding - rollout allowed for new scheduled"
    " bindings": (f"{FREE}; {COUNTED}", [1, 2, 3]),
}
"""Case -> why it differs, and what is done here."""
NO_SURGE = RolloutBudget(IntOrPercent(1), IntOrPercent(0), 60.0)


def _int_or_percent(written: int | str) -> IntOrPercent:
    return IntOrPercent(int(written[:-1]), percent=True) if isinstance(written, str) else IntOrPercent(written)


def _delivery(index: int, binding: dict[str, Any], latest: str, period: float) -> MemberDelivery:
    scheduled, deleting = binding["state"] == "Scheduled", binding["deleting"]
    waits = binding["wait"] > 0
    return MemberDelivery(
        member=f"{index:02}",
        chosen=binding["state"] != "Unscheduled" and not deleting,
        want=None if scheduled else "absent" if deleting else "present",
        current=binding["snapshot"] == latest,
        available=binding["ready"] or waits,
        untrackable=waits,
        failed=binding["failed"],
        reported=binding["reported"],
        unchanged=period - binding["wait"] if waits else 0.0,
    )


def _planned(case: dict[str, Any]) -> RolloutSteps:
    rolling = case["rollingUpdate"]
    period = float(rolling["unavailablePeriodSeconds"])
    budget = RolloutBudget(_int_or_percent(rolling["maxUnavailable"]), _int_or_percent(rolling["maxSurge"]), period)
    members = [_delivery(index, one, case["latest"], period) for index, one in enumerate(case["bindings"])]
    targeted = sum(one["state"] != "Unscheduled" for one in case["bindings"])
    return plan(members, case["number"] if case["type"] == "PickN" else targeted, budget)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_case_of_kubefleet_ends_as_there(case: dict[str, Any]) -> None:
    _, wanted = DIFFERENT.get(case["name"], ("", case["update"]))
    found = _planned(case)
    assert [int(step.member) for step in found.steps] == wanted
    held = [index for index in map(int, found.held) if case["bindings"][index]["state"] != "Unscheduled"]
    if not DIFFERENT.get(case["name"]):
        assert held == case["stale"]
    if any(one["wait"] > 0 for one in case["bindings"]):
        assert found.timer == case["wait"]


def test_every_difference_is_a_case() -> None:
    assert DIFFERENT.keys() <= {case["name"] for case in CASES}


def test_a_placement_shrinks_to_nothing_while_one_is_not_ready() -> None:
    members = [MemberDelivery("a", want="present", available=True), MemberDelivery("b", want="present", failed=True)]
    found = plan(members, 0, NO_SURGE)
    assert {(step.member, step.kind) for step in found.steps} == {("a", StepKind.REMOVE), ("b", StepKind.REMOVE)}


def test_a_successor_waits_until_what_is_removed_is_gone() -> None:
    removing = MemberDelivery("a", want="absent")
    assert not plan(
        [removing, MemberDelivery("b", chosen=True)], 1, RolloutBudget(IntOrPercent(1), IntOrPercent(0))
    ).steps
    gone = MemberDelivery("a", want="absent", gone=True)
    found = plan([gone, MemberDelivery("b", chosen=True)], 1, RolloutBudget(IntOrPercent(1), IntOrPercent(0)))
    assert [(step.member, step.kind) for step in found.steps] == [("a", StepKind.DROP), ("b", StepKind.ADD)]


def test_a_member_that_returns_waits_for_nobody_else() -> None:
    returning = MemberDelivery("a", chosen=True, want="absent")
    other = MemberDelivery("b", chosen=True, want="present")
    found = plan([returning, other], 2, NO_SURGE)
    assert [(step.member, step.kind) for step in found.steps] == [("a", StepKind.ADD)]


def test_an_unreachable_member_is_not_ready_and_counts() -> None:
    away = MemberDelivery("a", chosen=True, want="present", available=True, reachable=False)
    here = MemberDelivery("b", chosen=True, want="present", available=True, current=False)
    found = plan([away, here], 2, NO_SURGE)
    assert (found.ready, found.steps, found.held) == (1, (), ("b",))
    newcomer = MemberDelivery("c", chosen=True)
    assert plan([away, here, newcomer], 2, NO_SURGE).held == ("b", "c")


def test_contents_that_never_become_available_can_be_replaced() -> None:
    stuck = MemberDelivery("a", chosen=True, want="present", current=False, applied=True, unchanged=59.0)
    found = plan([stuck], 1, NO_SURGE)
    assert (found.steps, found.timer) == ((), 1.0)
    found = plan([MemberDelivery("a", True, "present", current=False, applied=True, unchanged=60.0)], 1, NO_SURGE)
    assert [(step.kind, step.free) for step in found.steps] == [(StepKind.UPDATE, True)]


def test_an_apply_strategy_goes_to_all_at_once() -> None:
    members = [MemberDelivery(name, True, "present", same_strategy=False, available=True) for name in "abc"]
    found = plan(members, 3, RolloutBudget(IntOrPercent(0), IntOrPercent(0)))
    assert [(step.member, step.kind) for step in found.steps] == [(name, StepKind.STRATEGY) for name in "abc"]


def test_a_leaving_member_is_released_within_the_budget() -> None:
    leaving = MemberDelivery("a", want="present", available=True, leaving=True, yields=True)
    successor = MemberDelivery("b", chosen=True)
    found = plan([leaving, successor], 1, RolloutBudget(IntOrPercent(0), IntOrPercent(1)))
    assert [(step.member, step.want) for step in found.steps] == [("b", "present")]
    arrived = MemberDelivery("b", chosen=True, want="present", available=True)
    found = plan([leaving, arrived], 1, RolloutBudget(IntOrPercent(0), IntOrPercent(1)))
    assert [(step.member, step.want) for step in found.steps] == [("a", "release")]


def test_a_drained_member_goes_when_its_successor_is_ready() -> None:
    drained = MemberDelivery("a", want="present", available=True, yields=True)
    other = MemberDelivery("c", chosen=True, want="present", available=True)
    found = plan([drained, MemberDelivery("b", chosen=True), other], 2, RolloutBudget())
    assert [(step.member, step.kind) for step in found.steps] == [("b", StepKind.ADD)]
    assert found.held == ("a",)
    for coming in (MemberDelivery("b", True, "present"), MemberDelivery("b", True, "present", applied=True)):
        assert plan([drained, coming, other], 2, RolloutBudget()).steps == ()
    arrived = MemberDelivery("b", True, "present", available=True)
    found = plan([drained, arrived, other], 2, RolloutBudget())
    assert [(step.member, step.kind) for step in found.steps] == [("a", StepKind.REMOVE)]


def test_a_drained_member_goes_first_where_nothing_may_be_added() -> None:
    drained = MemberDelivery("a", want="present", available=True, yields=True)
    found = plan([drained, MemberDelivery("b", chosen=True)], 1, NO_SURGE)
    assert [(step.member, step.kind) for step in found.steps] == [("a", StepKind.REMOVE)]


@pytest.mark.parametrize("said", [{"failed": True}, {"reachable": False}])
def test_a_member_that_does_not_come_holds_no_drained_one(said: dict[str, bool]) -> None:
    drained = MemberDelivery("a", want="present", available=True, yields=True)
    members = [
        drained,
        MemberDelivery("b", True, "present", **said),
        MemberDelivery("c", True, "present", available=True),
    ]
    found = plan(members, 2, RolloutBudget())
    assert [(step.member, step.kind) for step in found.steps] == [("a", StepKind.REMOVE)]


def test_a_member_that_joined_anew_gets_a_new_work_within_the_ceiling() -> None:
    anew = MemberDelivery("a", chosen=True, want="present", there=False)
    found = plan([anew], 1, NO_SURGE)
    assert [(step.member, step.kind) for step in found.steps] == [("a", StepKind.ADD)]


deliveries = st.builds(
    MemberDelivery,
    member=st.just(""),
    chosen=st.booleans(),
    want=st.sampled_from([None, "present", "absent", "release"]),
    there=st.booleans(),
    current=st.booleans(),
    same_strategy=st.booleans(),
    reachable=st.booleans(),
    available=st.booleans(),
    untrackable=st.booleans(),
    failed=st.booleans(),
    gone=st.booleans(),
    applied=st.booleans(),
    unchanged=st.sampled_from([0.0, 30.0, 60.0]),
)


@given(st.lists(deliveries, max_size=9), st.integers(0, 9), st.integers(0, 3), st.integers(0, 3))
def test_no_steps_break_floor_or_ceiling(given_: list[MemberDelivery], target: int, down: int, up: int) -> None:
    members = [MemberDelivery(**{**_fields(one), "member": str(at)}) for at, one in enumerate(given_)]
    budget = RolloutBudget(IntOrPercent(down), IntOrPercent(up), 60.0)
    found = plan(members, target, budget)
    lost = sum(step.ready for step in found.steps)
    ready = {one.member for one in members if is_ready(one, budget) and one.there and not one.gone}
    assert {step.member for step in found.steps if step.ready} <= ready
    assert lost == 0 or len(ready) - lost >= target - down
    by_name = {one.member: one for one in members}
    fresh = [
        step
        for step in found.steps
        if step.kind is StepKind.ADD and by_name[step.member].want not in ("absent", "release")
    ]
    there = [one for one in members if one.there and not one.gone]
    counted = [
        one
        for one in there
        if one.want in ("absent", "release") or (one.want == "present" and not one.failed and not one.reported)
    ]
    assert not fresh or len(counted) + len(fresh) <= target + up
    assert len({step.member for step in found.steps}) == len(found.steps)


def _fields(one: MemberDelivery) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


ONE_DOWN = RolloutBudget(IntOrPercent(1), IntOrPercent(0))
ONE_UP = RolloutBudget(IntOrPercent(0), IntOrPercent(1))


def told(found: ForeseenRollout) -> list[str]:
    return [" ".join(f"{step.kind.value}:{step.member}" for step in wave) for wave in found.waves]


def has(member: str, **said: bool) -> MemberDelivery:
    return MemberDelivery(member, True, "present", **{"available": True, **said})


def test_new_contents_go_round_within_the_budget() -> None:
    members = [has(name, current=False) for name in "abc"]
    assert told(foresee(members, 3, ONE_DOWN)) == ["update:a", "update:b", "update:c"]


def test_a_successor_comes_before_what_it_succeeds_goes() -> None:
    members = [MemberDelivery("a", want="present", available=True), MemberDelivery("b", chosen=True)]
    assert told(foresee(members, 1, ONE_UP)) == ["add:b", "remove:a"]


def test_without_surge_it_goes_first() -> None:
    members = [MemberDelivery("a", want="present", available=True), MemberDelivery("b", chosen=True)]
    assert told(foresee(members, 1, ONE_DOWN)) == ["remove:a", "add:b"]


def test_a_member_without_an_agent_holds_the_others_up() -> None:
    members = [has("a", current=False), has("b", reachable=False)]
    found = foresee(members, 2, ONE_DOWN)
    assert (told(found), found.held) == ([], ("a",))


def test_nothing_follows_where_everything_is_as_wanted() -> None:
    assert foresee([has("a")], 1, ONE_DOWN) == ForeseenRollout()


def test_all_is_taken_from_everybody_at_once_when_nothing_is_wanted() -> None:
    members = [MemberDelivery(name, want="present", available=True) for name in "ab"]
    assert told(foresee(members, 0, ONE_DOWN)) == ["remove:a remove:b"]
