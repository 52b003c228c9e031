"""Each deviation from KubeFleet's scheduler: what we decide, and what is decided once it is undone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.placement.deciding.cases import (
    HEALTHY,
    HEARD,
    chosen,
    decided,
    evenly,
    fixed,
    in_regions,
    member,
    names,
    pick,
    question,
    reasons,
)
from wharfinger.objects.model.selectors import Taint
from wharfinger.placement.deciding import texts
from wharfinger.placement.deciding.deciding import decide, decide_without
from wharfinger.placement.deciding.deviations import (
    ALL,
    D1,
    D2,
    D3,
    D4,
    D5,
    D6,
    D7,
    D8,
    D9,
    D10,
    D11,
    D12,
    D13,
    D14,
    Stuck,
)
from wharfinger.placement.deciding.question import Question
from wharfinger.placement.model.members import RESOURCES, Ages
from wharfinger.placement.model.placement import (
    ClusterPreference,
    ClusterTerm,
    PlacementDecision,
    PlacementPolicy,
    PropertyRequirement,
    PropertySorter,
)

SILENT = Ages(900.0, 1000.0)


def undone(asked: Question, deviation: str) -> PlacementDecision:
    """What is decided without one deviation; it mattered."""
    ours, other = decide(asked), decide_without(asked, frozenset({deviation}))
    assert deviation in ours.deviations
    assert isinstance(other, PlacementDecision)
    assert other != ours
    return other


def stuck(asked: Question, deviation: str) -> None:
    """Nothing is decided without one deviation."""
    assert deviation in decide(asked).deviations
    assert isinstance(decide_without(asked, frozenset({deviation})), Stuck)


def test_d1_a_large_skew_refuses_no_small_domain() -> None:
    before = [chosen(f"a-{at}") for at in range(3)]
    asked = question(pick(4, spread=evenly()), in_regions(a=4, b=1), before=before)
    assert names(decide(asked)) == ["a-0", "a-1", "a-2", "b-0"]
    assert names(undone(asked, D1)) == ["a-0", "a-1", "a-2"]


def test_d2_a_domain_of_refused_members_blocks_no_other() -> None:
    tainted = member("b-0", labels={"region": "b"}, taints=(Taint("t", "", "NoSchedule"),))
    asked = question(pick(2, spread=evenly()), [*in_regions(a=2), tainted])
    assert names(decide(asked)) == ["a-0", "a-1"]
    assert names(undone(asked, D2)) == ["a-1"]


def test_d2_a_domain_with_a_chosen_member_counts_though_it_is_refused_now() -> None:
    tainted = member("b-0", labels={"region": "b"}, taints=(Taint("t", "", "NoSchedule"),))
    answer = decided(pick(4, spread=evenly()), [*in_regions(a=3), tainted], before=[chosen("b-0")])
    assert names(answer) == ["a-1", "a-2", "b-0"]


def test_d3_a_member_that_cannot_be_read_is_refused_and_the_rest_goes_on() -> None:
    required = (ClusterTerm(properties=(PropertyRequirement("version", "Ge", ("1",)),)),)
    members = [member("bad", properties={"version": "v1.2"}), member("good", properties={"version": "1.2"})]
    asked = question(pick(2, required=required), members)
    answer = decide(asked)
    assert names(answer) == ["good"]
    assert "v1.2 of property version from cluster bad is not a valid quantity" in reasons(answer)["bad"]
    stuck(asked, D3)


def test_d3_an_unreadable_sorter_refuses_only_the_member_that_has_it() -> None:
    preferred = (ClusterPreference(10, sorter=PropertySorter("cost", "Ascending")),)
    members = [member(name, properties={"cost": cost}) for name, cost in (("a", "1"), ("b", "dear"), ("c", "3"))]
    asked = question(pick(3, preferred=preferred), members)
    assert names(decide(asked)) == ["a", "c"]
    stuck(asked, D3)


def test_d4_every_obsolete_member_keeps_its_preference_until_the_last_pick() -> None:
    before = [chosen("a-0", policy=0), chosen("b-0", policy=0)]
    asked = question(pick(2, spread=evenly()), in_regions(a=2, b=2), number=1, before=before)
    assert names(decide(asked)) == ["a-0", "b-0"]
    assert names(undone(asked, D4)) == ["a-1", "b-0"]


def test_d5_a_chosen_member_that_is_not_heard_is_told_as_selected() -> None:
    asked = question(fixed("a", "b"), [member("a"), member("b")], before=[chosen("a"), chosen("b")], ages={"a": SILENT})
    answer = decide(asked)
    assert (names(answer), answer.condition.status, answer.verdicts) == (["a", "b"], True, ())
    other = undone(asked, D5)
    assert (names(other), other.condition.status) == (["a", "b"], False)
    assert reasons(other) == {"a": texts.not_eligible("a", texts.silent(900.0))}


def test_d5_a_name_counts_once() -> None:
    answer = decided(fixed("a", "b", "a"), [member("a"), member("b")])
    assert names(answer) == ["a", "b"]
    assert answer.condition == texts.condition(2, fulfilled=True)


def test_d6_verdicts_are_kept_when_nothing_is_to_do_and_after_a_down_scale() -> None:
    members = [member("a"), member("b"), member("c", taints=(Taint("t", "", "NoSchedule"),))]
    for before in ([chosen("a")], [chosen("a"), chosen("b")]):
        asked = question(pick(1), members, before=before)
        answer = decide(asked)
        assert set(reasons(answer)) == {"a", "b", "c"} - set(names(answer))
        assert undone(asked, D6).verdicts == ()


def test_d6_all_verdicts_are_named_for_pick_all() -> None:
    taint = (Taint("t", "", "NoSchedule"),)
    answer = decided(PlacementPolicy(), [member(f"m{at:03}", taints=taint if at % 2 else ()) for at in range(100)])
    assert len(names(answer)) == 50
    assert len(reasons(answer)) == 50
    assert answer.condition == texts.condition(50, fulfilled=True)


def test_d7_equal_amounts_spelled_apart_score_alike() -> None:
    preferred = (ClusterPreference(10, sorter=PropertySorter("cost", "Descending")),)
    costs = {"a": "0.06000", "b": "0.06", "c": "1"}
    members = [member(name, properties={"cost": cost}) for name, cost in costs.items()]
    asked = question(pick(3, preferred=preferred), members)
    assert names(decide(asked)) == ["a", "b", "c"]
    scores = {one.name: one.scores for one in decide(asked).chosen}
    assert scores["a"] == scores["b"]
    other = decide_without(asked, frozenset({D7, D3}))
    assert D7 in decide(asked).deviations
    assert isinstance(other, Stuck)


def test_d7_a_resource_may_have_a_dash_in_its_name() -> None:
    name = f"{RESOURCES}available-ephemeral-storage"
    required = (ClusterTerm(properties=(PropertyRequirement(name, "Ge", ("1Gi",)),)),)
    usage = member("x").usage.__class__(available={"ephemeral-storage": "100Gi"})
    asked = question(pick(1, required=required), [member("a", usage=usage)])
    assert names(decide(asked)) == ["a"]
    stuck(asked, D7)


def test_d8_names_may_have_dots() -> None:
    asked = question(pick(1), [member("eu.west")])
    assert names(decide(asked)) == ["eu.west"]
    stuck(asked, D8)


def test_d9_a_pick_fixed_that_names_nobody_chooses_nobody() -> None:
    asked = question(fixed(), [member("a")], number=1, before=[chosen("a", policy=0)])
    answer = decide(asked)
    assert names(answer) == []
    assert answer.condition == texts.condition(0, fulfilled=True)
    stuck(asked, D9)


@pytest.mark.parametrize("policy", [PlacementPolicy(), pick(2), fixed("a", "b")], ids=["all", "some", "fixed"])
@pytest.mark.parametrize("agent", [HEALTHY, None], ids=["silent", "never online"])
def test_d10_a_new_policy_keeps_a_chosen_member_that_is_not_heard(policy: PlacementPolicy, agent: Any) -> None:
    members = [member("a", agent=agent), member("b")]
    asked = question(policy, members, number=1, before=[chosen("a"), chosen("b")], ages={"a": SILENT})
    assert names(decide(asked)) == ["a", "b"]
    assert names(undone(asked, D10)) == ["b"]


def test_d10_a_new_policy_judges_chosen_members_by_labels_and_taints() -> None:
    members = [member("a", taints=(Taint("t", "", "NoSchedule"),)), member("b")]
    before = [chosen("a"), chosen("b")]
    assert names(decided(PlacementPolicy(), members, number=1, before=before)) == ["b"]
    assert names(decided(PlacementPolicy(), members, number=0, before=before)) == ["a", "b"]


def test_d11_a_member_that_came_back_is_newly_chosen() -> None:
    asked = question(pick(1), [member("a", identity=7)], before=[chosen("a", identity=3)])
    (one,) = decide(asked).chosen
    assert (one.identity, one.reason) == (7, texts.chosen("a", one.scores))
    (other,) = undone(asked, D11).chosen
    assert (other.identity, other.reason) == (3, "chosen earlier")


@pytest.mark.parametrize("policy", [PlacementPolicy(), pick(2), fixed("a", "b")], ids=["all", "some", "fixed"])
def test_d12_who_was_evicted_returns_only_once_its_work_is_gone(policy: PlacementPolicy) -> None:
    members = [member("a"), member("b")]
    asked = question(policy, members, before=[chosen("b")], standing={"lingering": frozenset({"a"})})
    answer = decide(asked)
    assert names(answer) == ["b"]
    assert texts.LINGERS in reasons(answer)["a"]
    assert names(undone(asked, D12)) == ["a", "b"]
    assert names(decided(policy, members, before=[chosen("b")])) == ["a", "b"]


@pytest.mark.parametrize("policy", [PlacementPolicy(), pick(2)], ids=["all", "some"])
def test_d13_a_new_policy_keeps_a_cordoned_member_that_it_would_choose(policy: PlacementPolicy) -> None:
    members = [member(name) for name in "abc"]
    before = [chosen("a"), chosen("b")]
    for closed in ({"cordoned": frozenset({"a"})}, {"unreadable": {"a": "no object"}}):
        asked = question(policy, members, number=1, before=before, ages={"a": SILENT}, **closed)
        answer = decide(asked)
        assert {"a", "b"} <= set(names(answer))
        assert answer.names["a"].policy == 1
        assert texts.CLOSED in answer.names["a"].reason
        assert "a" not in names(undone(asked, D13))


def test_d13_a_kept_member_counts_towards_the_number_and_the_spread() -> None:
    members = in_regions(a=2, b=2)
    before = [chosen("a-0"), chosen("a-1")]
    asked = question(pick(2, spread=evenly()), members, number=1, before=before, cordoned=frozenset({"a-0"}))
    assert names(decide(asked)) == ["a-0", "b-1"]
    both = question(pick(1), members, number=1, before=before, cordoned=frozenset({"a-0", "a-1"}))
    assert names(decide(both)) == ["a-1"]
    assert texts.CORDONED in reasons(decide(both))["a-0"]


@pytest.mark.parametrize("policy", [PlacementPolicy(), pick(1)], ids=["all", "some"])
def test_d13_drained_members_and_those_that_the_policy_excludes_go(policy: PlacementPolicy) -> None:
    before = [chosen("a"), chosen("b")]
    tainted = member("a", taints=(Taint("t", "", "NoSchedule"),))
    assert names(decided(policy, [tainted, member("b")], number=1, before=before, cordoned=frozenset({"a"}))) == ["b"]
    members = [member("a"), member("b")]
    assert names(decided(policy, members, number=1, before=before, drained=frozenset({"a"}))) == ["b"]


def test_d14_a_scale_down_leaves_no_two_members_in_one_domain() -> None:
    members = in_regions(a=2, b=2)
    asked = question(pick(2, spread=evenly()), members, before=[chosen(one.name) for one in members])
    assert names(decide(asked)) == ["a-1", "b-1"]
    assert names(undone(asked, D14)) == ["b-0", "b-1"]


def test_nothing_is_named_where_no_deviation_matters() -> None:
    answer = decided(pick(2, spread=evenly()), in_regions(a=2, b=2), ages={"a-0": HEARD})
    assert answer.deviations == frozenset()
    assert frozenset({D1, D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, D13, D14}) == ALL
