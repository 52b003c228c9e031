"""Which gang a pod belongs to, and what holds for it when members and PodGroup say different things."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wharfinger.objects.model.gang import (
    Gang,
    GangKey,
    PodGroup,
    counts,
    gang_key,
    gang_of,
    number_of,
    problem_of,
    standing,
)
from wharfinger.objects.model.pod import GangTerms, Pod
from wharfinger.testing.builders import pod

KEY = GangKey("default", "team")


def member(name: str = "a", *, of: dict[str, Any] | None = None, **fields: Any) -> Pod:
    return pod(name, group="team", gang=GangTerms(**(of or {})), **fields)


def test_largest_minimum_of_members_and_pod_group_counts() -> None:
    members = [member("a", of={"min_available": 3}), member("b", of={"min_available": 5}), member("c")]

    assert gang_of(KEY, members, None) == Gang(KEY, 5)
    assert gang_of(KEY, members, PodGroup("default", "team", 8, ("zone",))) == Gang(KEY, 8, ("zone",))
    assert gang_of(KEY, members, PodGroup("default", "team", 2)) == Gang(KEY, 5)


def test_members_that_name_the_same_topology_keys_agree() -> None:
    both = {"topology_keys": ("rack", "zone")}
    members = [member("a", of=both), member("b", of=both), member("c")]

    assert gang_of(KEY, members, None) == Gang(KEY, 0, ("rack", "zone"))
    assert gang_of(KEY, members, PodGroup("default", "team", 2, ("zone", "rack"))) == Gang(KEY, 2, ("rack", "zone"))


def test_group_without_a_minimum_is_no_gang() -> None:
    gang = gang_of(KEY, [member()], None)

    assert isinstance(gang, Gang)
    assert not gang.together(0)


@pytest.mark.parametrize(
    ("members", "group", "why"),
    [
        ([member(of={"by_object": True})], None, "PodGroup default/team does not exist"),
        ([member(of={"problem": "min-available 'x' is no positive number"})], None, "a: min-available 'x'"),
        (
            [member("a", of={"topology_keys": ("zone",)}), member("b", of={"topology_keys": ("rack",)})],
            None,
            "rack or zone",
        ),
        ([member(of={"topology_keys": ("zone",)})], PodGroup("default", "team", 2, ("rack",)), "rack or zone"),
        (
            [member(of={"topology_keys": ("zone",)})],
            PodGroup("default", "team", 2, ("zone", "rack")),
            "rack and zone or",
        ),
        ([member("a"), member("b", scheduler_name="other")], None, "several schedulers: default-scheduler, other"),
    ],
)
def test_malformed_gang_has_a_reason(members: list[Pod], group: PodGroup | None, why: str) -> None:
    gang = gang_of(KEY, members, group)

    assert isinstance(gang, str)
    assert why in gang


def test_members_are_placed_together_until_enough_or_always_in_a_domain() -> None:
    assert [Gang(KEY, 3).together(bound) for bound in (0, 2, 3, 4)] == [True, True, False, False]
    assert [Gang(KEY, 3, ("zone",)).together(bound) for bound in (0, 3)] == [True, True]
    assert [Gang(KEY, number).together(0) for number in (0, 1)] == [False, False]
    assert [Gang(KEY, 3, ("zone",)).required(bound) for bound in (0, 1, 3, 9)] == [3, 2, 1, 1]


def test_members_are_bound_or_still_to_be_placed() -> None:
    leaving = {"deletion_timestamp": "2026-01-01T00:00:00Z"}

    assert counts(member())
    assert counts(member(node_name="n", **leaving))
    assert not counts(member(**leaving))
    assert not counts(member(node_name="n", phase="Succeeded"))


def test_gang_too_large_to_be_placed_together_is_held_with_a_reason() -> None:
    members = [member(f"p{number}", of={"min_available": 600}) for number in range(600)]

    assert standing(KEY, members, None).held == "PodGroup: it needs 600 members at once, and 500 are the most"
    some_bound = [replace(pod, node_name="n") if index < 100 else pod for index, pod in enumerate(members)]
    assert standing(KEY, some_bound, None).held == ""


def test_a_pod_without_group_has_no_gang() -> None:
    assert gang_key(pod()) is None
    assert gang_key(member()) == KEY


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "x", "٣", "1" * 10])
def test_only_positive_numbers_are_numbers(text: str) -> None:
    assert number_of(text) is None
    assert "no positive number" in problem_of("team", text, ())


@pytest.mark.parametrize(
    ("group", "key", "why"),
    [("a/b", "zone", "is no name"), ("team", "no key", "no label's name"), ("team", "a.b/zone", "")],
)
def test_names_have_to_be_some(group: str, key: str, why: str) -> None:
    assert why in problem_of(group, None, ("rack", key))
    assert bool(why) == bool(problem_of(group, None, ("rack", key)))
