"""Which members are chosen: sticky choices, scaling, ties, verdicts on others; and what counts as a new decision."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.placement.deciding.cases import chosen, decided, evenly, fixed, in_regions, member, names, pick, reasons
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, Taint
from wharfinger.placement.deciding import texts
from wharfinger.placement.deciding.question import counting
from wharfinger.placement.model.members import Ages
from wharfinger.placement.model.placement import ClusterPreference, MemberScores, PlacementDecision, PlacementPolicy

TAINTED = (Taint("t", "", "NoSchedule"),)


def liked(label: str, weight: int) -> ClusterPreference:
    return ClusterPreference(weight, LabelSelector((Requirement(label, Operator.EXISTS),)))


def test_of_equal_members_the_greatest_name_is_picked_first() -> None:
    assert names(decided(pick(2), [member("a"), member("b"), member("c")])) == ["b", "c"]


def test_of_equal_members_the_smallest_name_is_given_up_first() -> None:
    before = [chosen("a"), chosen("b"), chosen("c")]
    assert names(decided(pick(2), [member("a"), member("b"), member("c")], before=before)) == ["b", "c"]


def test_spread_counts_before_affinity_and_affinity_before_what_was_chosen() -> None:
    members = [*in_regions(a=1, b=1), member("b-9", labels={"region": "b", "fast": ""})]
    policy = pick(2, spread=evenly(5), preferred=(liked("fast", 10),))
    answer = decided(policy, members, number=1, before=[chosen("b-0")])
    assert names(answer) == ["a-0", "b-9"]


def test_of_equal_members_the_one_chosen_before_stays() -> None:
    answer = decided(pick(1), [member("a"), member("b"), member("c")], number=1, before=[chosen("b")])
    assert names(answer) == ["b"]


def test_without_a_new_policy_nothing_but_leaving_removes_a_chosen_member() -> None:
    members = [member("a", taints=TAINTED), member("b", labels={}), member("c", leaving=True), member("d")]
    before = [chosen(name) for name in "abc"]
    answer = decided(pick(3), members, before=before, ages={"b": Ages(9000.0, 1.0)})
    assert names(answer) == ["a", "b", "d"]


def test_the_delivered_are_given_up_last_and_the_lower_scores_first() -> None:
    before = [
        chosen("a", scores=MemberScores(0, 90)),
        chosen("b", scores=MemberScores(0, 10)),
        chosen("c", scores=None),
        chosen("d", scores=MemberScores(1, 0)),
    ]
    members = [member(name) for name in "abcd"]
    order = []
    for wanted in (3, 2, 1, 0):
        answer = decided(pick(wanted), members, before=before, standing={"delivered": frozenset("ac")})
        order.append(names(answer))
    assert order == [["a", "c", "d"], ["a", "c"], ["a"], []]


def test_obsolete_members_go_when_enough_are_chosen_under_the_policy() -> None:
    before = [chosen("a", policy=1), chosen("b", policy=0)]
    assert names(decided(pick(1), [member("a"), member("b")], number=1, before=before)) == ["a"]


def test_too_few_members_leave_the_policy_unfulfilled_and_say_why() -> None:
    answer = decided(pick(3), [member("a"), member("b", taints=TAINTED)])
    assert answer.condition == texts.condition(1, fulfilled=False)
    assert reasons(answer) == {"b": texts.refused(texts.untolerated(TAINTED[0]))}


def test_who_is_not_picked_is_told_with_scores_and_the_best_first() -> None:
    members = [member("a", labels={"fast": ""}), member("b"), member("c", labels={"fast": "", "new": ""})]
    answer = decided(pick(1, preferred=(liked("fast", 10), liked("new", 5))), members)
    assert [(one.name, one.scores) for one in answer.verdicts] == [
        ("a", MemberScores(0, 10)),
        ("b", MemberScores(0, 0)),
    ]
    assert answer.verdicts[0].reason == texts.not_picked("a", MemberScores(0, 10))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_pick_all_is_fulfilled_by_any_number(count: int) -> None:
    answer = decided(PlacementPolicy(), [member(f"m{at}") for at in range(count)])
    assert answer.condition == texts.condition(count, fulfilled=True)


def test_pick_fixed_tells_of_every_name_what_is_wrong_with_it() -> None:
    members = [member("ok"), member("silent"), member("other")]
    answer = decided(fixed("ok", "silent", "nowhere"), members, ages={"silent": Ages(600.0, 1.0)})
    assert names(answer) == ["ok"]
    assert answer.condition == texts.condition(1, fulfilled=False)
    assert reasons(answer) == {
        "silent": 'Cluster "silent" is not eligible for resource placement yet: ' + texts.silent(600.0),
        "nowhere": 'Specified cluster "nowhere" is not found',
    }


def test_pick_fixed_minds_neither_taints_nor_cordons() -> None:
    answer = decided(fixed("a"), [member("a", taints=TAINTED)], cordoned=frozenset({"a"}))
    assert names(answer) == ["a"]


def test_spread_fills_the_smallest_domain_first() -> None:
    answer = decided(pick(4, spread=evenly()), in_regions(a=5, b=2, c=1))
    assert [name[0] for name in names(answer)] == ["a", "b", "b", "c"]


def test_hard_spread_refuses_and_soft_spread_only_prefers() -> None:
    hard = decided(pick(4, spread=evenly()), in_regions(a=5, b=1))
    assert [name[0] for name in names(hard)] == ["a", "a", "b"]
    assert texts.skewed("region", 1) in reasons(hard)["a-0"]
    soft = decided(pick(4, spread=evenly(hard=False)), in_regions(a=5, b=1))
    assert [name[0] for name in names(soft)] == ["a", "a", "a", "b"]


def test_who_lacks_the_label_is_outside_the_spread() -> None:
    answer = decided(pick(3, spread=evenly()), [*in_regions(a=3), member("z")])
    assert "z" in names(answer)


def test_a_cordoned_member_takes_nothing_new_and_keeps_what_it_has() -> None:
    members = [member("a"), member("b")]
    assert names(decided(PlacementPolicy(), members, cordoned=frozenset({"a"}))) == ["b"]
    assert names(decided(PlacementPolicy(), members, cordoned=frozenset({"a"}), before=[chosen("a")])) == ["a", "b"]


def test_a_drained_member_is_exchanged_for_a_successor_at_once() -> None:
    members = [member("a"), member("b"), member("c")]
    before = [chosen("b"), chosen("c")]
    answer = decided(pick(2), members, before=before, drained=frozenset({"c"}))
    assert names(answer) == ["a", "b"]
    assert texts.EXCHANGED in reasons(answer)["c"]


def test_a_drained_member_without_a_successor_stays_and_says_so() -> None:
    answer = decided(pick(2), [member("b"), member("c")], before=[chosen("b"), chosen("c")], drained=frozenset({"c"}))
    assert names(answer) == ["b", "c"]
    assert texts.NO_SUCCESSOR in answer.names["c"].reason


def test_of_two_drained_members_one_is_exchanged_where_one_successor_is() -> None:
    before = [chosen("b"), chosen("c")]
    answer = decided(pick(2), [member(n) for n in "abc"], before=before, drained=frozenset({"b", "c"}))
    assert names(answer) == ["a", "c"]


def test_pick_all_drops_a_drained_member_and_pick_fixed_reports_it() -> None:
    drained = frozenset({"a"})
    members = [member("a"), member("b")]
    assert names(decided(PlacementPolicy(), members, before=[chosen("a")], drained=drained)) == ["b"]
    answer = decided(fixed("a"), members, before=[chosen("a", scores=None)], drained=drained)
    assert names(answer) == ["a"]
    assert texts.DRAINED in answer.names["a"].reason


def test_a_decision_made_again_on_its_own_outcome_changes_nobody() -> None:
    chance = random.Random(5)
    for _ in range(300):
        members = in_regions(a=chance.randrange(4), b=chance.randrange(4), c=chance.randrange(4))
        hard = chance.random() < 0.5
        policy = pick(chance.randrange(6), spread=evenly(chance.randrange(1, 3), hard=hard))
        first = decided(policy, members)
        again = decided(policy, members, before=first.chosen)
        assert names(again) == names(first)
        assert len(names(again)) <= (policy.number or 0)
        assert {one.name for one in again.verdicts} == {one.name for one in members} - set(names(again))


STORED = decided(pick(2), [member("a"), member("b", taints=(Taint("t", "", "NoSchedule"),)), member("c")])
FIRST, *OTHERS = STORED.chosen
(REFUSED,) = STORED.verdicts


def is_settled(stored: PlacementDecision | None, decided: PlacementDecision) -> bool:
    """Whether the stored decision says the same in all that counts."""
    return stored is not None and counting(stored) == counting(decided)


def test_nothing_stored_is_not_settled() -> None:
    assert not is_settled(None, STORED)
    assert is_settled(STORED, STORED)


@pytest.mark.parametrize(
    "other",
    [
        replace(STORED, chosen=(replace(FIRST, scores=MemberScores(5, 5), reason="other"), *OTHERS)),
        replace(STORED, verdicts=(replace(REFUSED, reason="last received 9.00 minutes ago"),)),
        replace(STORED, condition=replace(STORED.condition, message="other")),
        replace(STORED, deviations=frozenset({"D6"})),
    ],
    ids=["scores", "age", "message", "deviations"],
)
def test_scores_ages_and_texts_are_nothing_new(other: PlacementDecision) -> None:
    assert is_settled(STORED, other)


@pytest.mark.parametrize(
    "other",
    [
        replace(STORED, chosen=tuple(OTHERS)),
        replace(STORED, chosen=(replace(FIRST, identity=9), *OTHERS)),
        replace(STORED, chosen=(replace(FIRST, policy=1), *OTHERS)),
        replace(STORED, number=3),
        replace(STORED, generation=2),
        replace(STORED, verdicts=(replace(REFUSED, plugin="ClusterEligibility"),)),
        replace(STORED, verdicts=()),
        replace(STORED, condition=replace(STORED.condition, status=False)),
    ],
    ids=["member", "identity", "policy", "number", "generation", "plugin", "verdict", "condition"],
)
def test_whatever_counts_is_a_new_decision(other: PlacementDecision) -> None:
    assert not is_settled(STORED, other)
