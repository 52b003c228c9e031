"""Scaling down keeps hard spread constraints wherever any choice does."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from tests.placement.deciding.cases import chosen, decided, evenly, in_regions, member, names, pick
from wharfinger.placement.deciding import texts
from wharfinger.placement.deciding.scaling_down import given_up
from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import ClusterSpread, MemberScores


def zones(*wanted: str) -> list[Member]:
    """Members m0, m1 ... in these zones; `-` = without the label."""
    return [member(f"m{at}", labels={} if zone == "-" else {"region": zone}) for at, zone in enumerate(wanted)]


def scaled(number: int, members: list[Member], **more: object) -> list[str]:
    """Who is kept of members that were all chosen, by equal scores."""
    before = more.pop("before", [chosen(one.name) for one in members])
    return names(decided(pick(number, spread=evenly()), members, before=before, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("number", "kept"), [(3, "m1 m2 m3"), (2, "m1 m3"), (1, "m3"), (0, "")], ids=["3", "2", "1", "0"]
)
def test_two_zones_are_emptied_in_turn(number: int, kept: str) -> None:
    assert " ".join(scaled(number, zones("A", "A", "B", "B"))) == kept


def test_members_that_lack_the_label_go_in_upstreams_order() -> None:
    assert scaled(3, zones("-", "A", "A", "B", "B", "-")) == ["m2", "m4", "m5"]


def test_two_zones_that_are_too_full_go_before_members_that_lack_the_label() -> None:
    assert scaled(6, zones("-", "A", "A", "A", "B", "B", "B", "C")) == ["m0", "m2", "m3", "m5", "m6", "m7"]


def test_the_delivered_and_the_higher_scores_stay_within_a_zone() -> None:
    members = zones("A", "A", "A", "B", "B", "B")
    before = [chosen(one.name, scores=MemberScores(0, 9 - at)) for at, one in enumerate(members)]
    kept = scaled(2, members, before=before, standing={"delivered": frozenset({"m2", "m4", "m5"})})
    assert kept == ["m2", "m4"]


def test_drained_members_go_first_and_the_rest_keeps_the_spread() -> None:
    members = zones("A", "A", "A", "B", "B")
    assert scaled(2, members, drained=frozenset({"m4"})) == ["m2", "m3"]


def test_an_empty_zone_that_counts_is_kept_in_mind_where_possible() -> None:
    skewed = (ClusterSpread("region", 2),)
    members = [*in_regions(a=4, b=2), *in_regions(c=1)]
    before = [chosen(one.name) for one in members[:6]]
    assert names(decided(pick(4, spread=skewed), members, before=before)) == ["a-2", "a-3", "b-0", "b-1"]
    assert names(decided(pick(5, spread=skewed), members, before=before)) == ["a-1", "a-2", "a-3", "b-0", "b-1"]


def test_where_no_choice_keeps_it_upstreams_order_decides_with_a_note() -> None:
    members = zones("A", "A", "A", "A", "B")
    answer = decided(pick(4, spread=evenly()), members, before=[chosen(one.name) for one in members])
    assert names(answer) == ["m1", "m2", "m3", "m4"]
    assert answer.condition.message.endswith(texts.uneven(4))
    assert (answer.condition.status, answer.deviations) == (True, {"D6", "D14"})


def test_a_soft_constraint_does_not_count() -> None:
    members = zones("A", "A", "B", "B")
    before = [chosen(one.name) for one in members]
    assert names(decided(pick(2, spread=evenly(hard=False)), members, before=before)) == ["m2", "m3"]


def _holds(kept: list[Member], constraints: list[ClusterSpread], domains: list[set[str]]) -> bool:
    for one, values in zip(constraints, domains, strict=True):
        counts = Counter(dict.fromkeys(values, 0))
        counts.update(each.labels[one.key] for each in kept if one.key in each.labels)
        if counts and max(counts.values()) - min(counts.values()) > one.max_skew:
            return False
    return True


@pytest.mark.parametrize("keys", ["z", "zr"], ids=["one constraint", "two constraints"])
def test_a_choice_is_found_exactly_where_there_is_one(keys: str) -> None:
    rng = random.Random(3)
    found = 0
    for _ in range(150):
        members = [
            member(f"m{at}", labels={key: rng.choice("abc") for key in keys if rng.random() < 0.9})
            for at in range(rng.randrange(1, 8))
        ]
        constraints = [ClusterSpread(key, rng.randrange(1, 3)) for key in keys]
        domains = [{one.labels[key] for one in members if key in one.labels} for key in keys]
        count = rng.randrange(len(members) + 1)
        going = given_up(members, count, constraints, domains)
        possible = any(
            _holds(list(kept), constraints, domains) for kept in itertools.combinations(members, len(members) - count)
        )
        assert (going is not None) == possible
        if going is not None:
            found += 1
            assert len(going) == count
            assert _holds([one for one in members if one not in going], constraints, domains)
    assert found > 50


def test_constraints_that_cannot_be_searched_end_in_upstreams_order() -> None:
    members = [member(f"m{at:03}", labels={"z": "z" if at else "y", "r": f"r{at}"}) for at in range(400)]
    domains = [{one.labels[key] for one in members} for key in "zr"]
    assert given_up(members, 100, [ClusterSpread("z", 1), ClusterSpread("r", 1)], domains) is None


def test_a_thousand_members_in_a_hundred_zones_cost_little() -> None:
    members = [member(f"m{at:04}", labels={"region": f"z{at % 100}"}) for at in range(1000)]
    domains = [{one.labels["region"] for one in members}]
    going = given_up(members, 600, evenly(), domains)
    assert going is not None
    assert len(going) == 600
