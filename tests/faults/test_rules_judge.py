"""The judge without the excuse of time finds each kind of violation, and reports no legal history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.faults.rules_judge import RulesJudge, history_of
from tests.faults.story import Story, node, pod
from tests.faults.test_judge import apart, near, small, spread, three_zones
from wharfinger.etcd import keys
from wharfinger.testing.memory_store import MemoryStore


def found(story: Story) -> set[str]:
    """The invariants that were broken."""
    return {violation.invariant for violation in RulesJudge().take_all(story.revisions).violations}


def web(*names: str, rule: dict[str, Any]) -> list[dict[str, Any]]:
    return [small(name, app="x", **rule) for name in names]


def much_later(story: Story) -> Story:
    """More than the seconds that `judge` allows a worker to be behind."""
    for number in range(5):
        story.put(small(f"later-{number}"))
    return story


class TestViolations:
    def test_pod_is_bound_twice(self) -> None:
        story = Story().put(node("n"), node("m")).put(small("p")).bind(p="n").bind(p="m")
        assert "bound-once" in found(story)

    def test_node_is_overcommitted(self) -> None:
        assert found(Story().put(node("n")).put(pod("p"), pod("q")).bind(p="n").bind(q="n")) == {"room"}

    @pytest.mark.parametrize("together", [True, False])
    def test_pods_that_keep_apart_share_a_zone(self, together: bool) -> None:
        story = three_zones().put(*web("p", "q", rule=apart("x")))
        story = story.bind(p="a1", q="a2") if together else story.bind(p="a1").bind(q="a2")
        assert found(story) == {"anti-affinity"}

    @pytest.mark.parametrize("first", ["p", "q"])
    def test_anti_affinity_holds_both_ways(self, first: str) -> None:
        story = three_zones().put(small("p", **apart("x")), small("q", app="x"))
        story = story.bind(p="a1").bind(q="a2") if first == "p" else story.bind(q="a2").bind(p="a1")
        assert found(story) == {"anti-affinity"}

    @pytest.mark.parametrize("together", [True, False])
    def test_two_pods_are_the_first_of_their_kind(self, together: bool) -> None:
        story = three_zones().put(*web("p", "q", rule=near("x")))
        story = story.bind(p="a1", q="b1") if together else story.bind(p="a1").bind(q="b1")
        assert found(story) == {"affinity"}

    def test_zone_has_too_many(self) -> None:
        assert found(three_zones().put(*web("p", "q", rule=spread("x"))).bind(p="a1").bind(q="a2")) == {"spread"}

    def test_no_order_of_one_transaction_keeps_the_spread(self) -> None:
        story = three_zones().put(*web("p", "q", "r", rule=spread("x"))).bind(p="a1", q="b1", r="a2")
        assert found(story) == {"spread"}


class TestLegal:
    def test_rules_hold_in_some_order_of_one_transaction(self) -> None:
        story = three_zones().put(*web("p", "q", "r", "s", rule=spread("x"))).bind(s="a2", p="a1", q="b1", r="c1")
        judge = RulesJudge().take_all(story.revisions)
        assert (judge.violations, judge.excused, judge.binds, judge.most_together) == ([], 0, 4, 4)

    def test_first_of_its_kind_and_the_next_beside_it_in_one_transaction(self) -> None:
        assert not found(three_zones().put(*web("p", "q", rule=near("x"))).bind(q="a2", p="a1"))

    def test_pods_that_keep_apart_are_in_other_zones(self) -> None:
        assert not found(three_zones().put(*web("p", "q", rule=apart("x"))).bind(p="a1", q="b1"))

    def test_plain_pods_share_a_zone(self) -> None:
        assert not found(three_zones().put(small("p"), small("q")).bind(p="a1", q="a2"))


class TestExcuses:
    def test_new_pods_excuse_nothing(self) -> None:
        story = three_zones().put(*web("p", rule=spread("x"))).bind(p="a1").put(*web("q", "r", rule=spread("x")))
        assert found(story.bind(q="a2")) == {"spread"}

    def test_deleted_pod_excuses_the_skew_that_it_leaves(self) -> None:
        """However long ago: the rule is not judged then."""
        story = three_zones().put(*web("p", "q", "r", "s", rule=spread("x"))).bind(p="a1").bind(q="b1").bind(r="c1")
        judge = RulesJudge().take_all(much_later(story.delete("default/q")).bind(s="a2").revisions)
        assert (judge.violations, judge.excused) == ([], 1)

    def test_deleted_pod_of_another_kind_excuses_nothing(self) -> None:
        story = three_zones().put(*web("p", "q", rule=spread("x")), small("other")).bind(other="b1").bind(p="a1")
        assert found(story.delete("default/other").bind(q="a2")) == {"spread"}

    def test_relabelled_node_excuses_pods_that_were_there(self) -> None:
        story = three_zones().put(*web("p", "q", rule=apart("x"))).bind(p="b1").put(node("b1", "a"))
        judge = RulesJudge().take_all(much_later(story).bind(q="a1").revisions)
        assert (judge.violations, judge.excused) == ([], 2)

    def test_nodes_created_before_the_first_bind_excuse_nothing(self) -> None:
        story = three_zones().put(*web("p", "q", rule=near("x"))).put(node("d1", "d"))
        assert found(story.bind(p="a1").bind(q="d1")) == {"affinity"}


async def test_history_of_a_store_is_judged_from_its_first_revision() -> None:
    store = MemoryStore()
    for obj in (node("a1", "a"), node("a2", "a")):
        await store.put(keys.node(obj["metadata"]["name"]), json.dumps(obj).encode())
    for name in ("p", "q"):
        await store.put(keys.pod("default", name), json.dumps(small(name, app="x", **apart("x"))).encode())
    await store.put(keys.pod("default", "p"), json.dumps(small("p", app="x", nodeName="a1", **apart("x"))).encode())
    await store.put(keys.pod("default", "q"), json.dumps(small("q", app="x", nodeName="a2", **apart("x"))).encode())
    await store.delete(keys.pod("default", "q"))

    judge = RulesJudge().take_all(await history_of(store))

    assert judge.binds == 2
    assert {violation.invariant for violation in judge.violations} == {"anti-affinity"}
