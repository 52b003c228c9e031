"""Whom a pod may push off which node; the whole against recorded decisions is in tests/conformance."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.objects.model.surroundings import NOTHING_AROUND, DisruptionBudget
from wharfinger.testing.builders import node, pod, snapshot

APP = LabelSelector((Requirement("app", Operator.IN, ("web",)),))


def profile(**args: Any) -> Any:
    return load_profiles({"profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}]})[
        "default-scheduler"
    ]


DEFAULT = profile()


def bound(name: str, on: str, *, cpu: int = 2000, minute: int = 0, **fields: Any) -> Pod:
    start = f"2026-01-01T00:{minute:02d}:00Z"
    created = {"create_revision": 1 + sum(name.encode())}
    return pod(name, cpu=cpu, node_name=on, start_time=start, **created | fields)


def victims(evaluation: Evaluation) -> list[str]:
    return [victim.name for victim in evaluation.victims]


def preemptor(**fields: Any) -> Pod:
    return pod("vip", **{"cpu": 2000, "priority": 10, **fields})


def test_the_less_important_pod_leaves_and_the_other_comes_back() -> None:
    nodes = snapshot(node("a"), a=[bound("old", "a", minute=1), bound("new", "a", minute=2)])
    evaluation = DEFAULT.evaluate(preemptor(), nodes)
    assert (evaluation.node, evaluation.nominated_node, victims(evaluation)) == (None, "a", ["new"])
    assert evaluation.decision.victims == (("default", "new"),)


@pytest.mark.parametrize("arrived", [("old", "young"), ("young", "old")], ids=" ".join)
def test_of_equal_pods_the_later_created_leaves_whoever_came_first(arrived: tuple[str, ...]) -> None:
    there = [bound(name, "a", cpu=2000, create_revision=3 if name == "old" else 4) for name in arrived]
    assert victims(DEFAULT.evaluate(preemptor(cpu=2000), snapshot(node("a"), a=there))) == ["young"]


def test_the_cheapest_node_is_nominated() -> None:
    nodes = snapshot(
        node("two"), node("important"), node("late"), node("early"),
        two=[bound("x1", "two"), bound("x2", "two")],
        important=[bound("i", "important", cpu=4000, priority=3)],
        late=[bound("l", "late", cpu=4000, minute=9)],
        early=[bound("e", "early", cpu=4000, minute=1)],
    )  # fmt: skip
    evaluation = DEFAULT.evaluate(preemptor(cpu=4000), nodes)
    assert (evaluation.nominated_node, victims(evaluation)) == ("late", ["l"])


def budget(allowed: int, **fields: Any) -> Snapshot:
    around = NOTHING_AROUND.with_object(DisruptionBudget("default", "web", APP, allowed, **fields))
    nodes = snapshot(
        node("guarded"), node("free"),
        guarded=[bound("g", "guarded", cpu=4000, labels={"app": "web"})],
        free=[bound("f1", "free", priority=5), bound("f2", "free", priority=5)],
    )  # fmt: skip
    return nodes.at(1, surroundings=around)


@pytest.mark.parametrize(
    ("nodes", "nominated"),
    [
        (budget(0), "free"),
        (budget(1), "guarded"),
        (budget(0, disrupted_pods=frozenset({"g"})), "guarded"),
    ],
    ids=["no disruption allowed", "one allowed", "counted already"],
)
def test_a_disruption_budget_weighs_more_than_anything_else(nodes: Snapshot, nominated: str) -> None:
    assert DEFAULT.evaluate(preemptor(cpu=4000), nodes).nominated_node == nominated


def test_budgets_only_advise() -> None:
    around = NOTHING_AROUND.with_object(DisruptionBudget("default", "web", APP, 0))
    nodes = snapshot(node("a"), a=[bound("g", "a", cpu=4000, labels={"app": "web"})]).at(1, surroundings=around)
    assert victims(DEFAULT.evaluate(preemptor(), nodes)) == ["g"]


def test_a_change_of_the_budget_is_noticed() -> None:
    chooser = profile()
    assert chooser.evaluate(preemptor(cpu=4000), budget(1)).nominated_node == "guarded"
    assert chooser.evaluate(preemptor(cpu=4000), budget(0)).nominated_node == "free"


FULL = snapshot(node("a"), node("small", cpu=1000), a=[bound("x", "a", cpu=4000)])


def test_pod_that_must_not_preempt_has_a_reason() -> None:
    evaluation = DEFAULT.evaluate(preemptor(preemption_policy="Never"), FULL)
    assert evaluation.nominated_node is None
    assert evaluation.message.endswith(". preemption: not eligible due to preemptionPolicy=Never.")


def test_message_counts_nodes_without_victims_and_nodes_beyond_help() -> None:
    evaluation = DEFAULT.evaluate(preemptor(priority=0), FULL)
    assert evaluation.message == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
        "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_no_further_pod_is_evicted_while_victims_are_leaving() -> None:
    leaving = bound("x", "a", cpu=4000, deletion_timestamp="2026-01-01T01:00:00Z", disruption_target=True)
    nodes = snapshot(node("a"), node("b"), a=[leaving], b=[bound("y", "b", cpu=4000)])
    evaluation = DEFAULT.evaluate(preemptor(nominated_node_name="a"), nodes)
    assert evaluation.nominated_node is None
    assert "not eligible due to a terminating pod on the nominated node." in evaluation.message


def test_a_pod_that_is_only_assumed_is_nobodys_victim() -> None:
    nodes = snapshot(node("a"), a=[pod("assumed", cpu=4000)])
    assert DEFAULT.evaluate(preemptor(), nodes).nominated_node is None


def test_room_that_is_kept_for_another_is_not_given_away() -> None:
    other = pod("other", cpu=4000, priority=10)
    nodes = snapshot(node("a"), node("b"), a=[bound("x", "a", cpu=4000)], b=[bound("y", "b", cpu=4000)])
    assert DEFAULT.evaluate(preemptor(), nodes.at(1, nominated={"a": (other,)})).nominated_node == "b"


def test_number_of_tried_nodes_follows_the_arguments() -> None:
    """One candidate is enough here, and the pod's uid says where the search begins."""
    names = [f"n{number}" for number in range(6)]
    nodes = snapshot(*(node(name) for name in names), **{name: [bound(f"on-{name}", name, cpu=4000)] for name in names})
    hasty = profile(minCandidateNodesPercentage=0, minCandidateNodesAbsolute=1)
    chosen = {hasty.evaluate(preemptor(uid=f"u{number}"), nodes).nominated_node for number in range(60)}
    assert chosen == set(names)


def test_arguments_that_look_for_nothing_are_refused() -> None:
    with pytest.raises(Exception, match="cannot both be zero"):
        profile(minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0)
