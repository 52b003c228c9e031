"""A pod that was bound to another life of its node than the one it was decided for."""

from __future__ import annotations

from tests.faults.decisions import judged
from tests.faults.story import Story, node, pod


def test_a_node_that_was_made_again_since_the_decision() -> None:
    story = Story().put(node("n")).put(pod("p")).delete("n").put(node("n")).bind(p="n")
    (bound,) = story.judge().on_new_nodes

    assert [violation.invariant for violation in judged(*bound, decided=3)] == ["decided"]
    assert judged(*bound, decided=5) == []


def test_a_node_in_its_first_life_needs_no_such_look() -> None:
    assert Story().put(node("n")).put(pod("p")).bind(p="n").judge().on_new_nodes == []
