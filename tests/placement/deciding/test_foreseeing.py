"""Which steps a rolling update would take, wave by wave."""

from __future__ import annotations

from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.placement.deciding.rolling import ForeseenRollout, foresee
from wharfinger.placement.model.delivery import MemberDelivery, RolloutBudget

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
