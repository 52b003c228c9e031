"""What is kept between decisions stays small for weeks, and a decision quick whatever plugins answer."""

from __future__ import annotations

import gc
import time
from collections.abc import Hashable

import pytest

from tests.framework.conftest import MakeProfile
from wharfinger.framework import local_table
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.local_table import LocalPlugins
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.node_fields import NodeName
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.status import Status, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, SpreadConstraint
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.testing.builders import node, pod, snapshot

X = LabelSelector((Requirement("app", Operator.IN, ("x",)),))


def test_classes_first_seen_on_one_node_count_as_if_on_all() -> None:
    """Verifying a bind looks at one node alone; the table made later has a row for each."""
    classes = LocalPlugins([NodeName()], filters=(), scores=(), pre_filters=(), pre_scores=())
    many = snapshot(*(node(f"n{number}") for number in range(local_table.CELLS // 16)))
    one = many.only("n0")
    for number in range(100):
        classes.known(pod("a", node_name=f"n{number}"), one)
    assert len(classes) == 100
    classes.of(pod("b", node_name="n99"), many)
    assert len(classes) == 16
    for number in range(100):
        classes.known(pod("c", node_name=f"n{number}"), one)
    assert len(classes) == 16


def test_a_small_cluster_keeps_no_million_of_classes() -> None:
    classes = LocalPlugins([NodeName()], filters=(), scores=(), pre_filters=(), pre_scores=())
    one = snapshot(node("n0"))
    for number in range(local_table.MOST_TABLES + 100):
        classes.known(pod("a", node_name=f"n{number}"), one)
    assert len(classes) == local_table.MOST_TABLES


def _left(name: str) -> int:
    gc.collect()
    return sum(1 for each in gc.get_objects() if isinstance(each, Pod) and each.name.startswith(name))


def test_pods_of_old_are_let_go() -> None:
    """Many pods come and go, under changing nodes and questions about them: few are remembered afterwards."""
    cache = Cache(clock=lambda: 0.0)
    for number in range(3):
        cache.set_node(node(f"n{number}", labels={"zone": str(number)}))
    profile = load_profiles()["default-scheduler"]
    for number in range(30):
        gone = pod(f"passing-{number}", node_name="n1", create_revision=number + 1, priority=-1)
        cache.set_pod(gone)
        cache.set_node(node(f"n{number % 3}", labels={"zone": str(number % 3), "round": str(number)}))
        chosen = {"zone": str(number % 3), "round": str(number)}
        constraint = SpreadConstraint(1, "zone", hard=True, selector=X)
        subject = pod("asking", cpu=number, priority=number, spread_constraints=(constraint,), node_selector=chosen)
        profile.evaluate(subject, cache.snapshot())
        profile.evaluate(pod("plain", cpu=5000, priority=number), cache.snapshot())
        cache.remove_pod(gone.key)
    profile.evaluate(pod("last"), cache.snapshot())
    assert _left("passing-") <= 2


class Complaining:
    """Says something else of every node."""

    name = "Complaining"

    def __init__(self) -> None:
        self.asked = 0

    def signature(self, pod: Pod) -> Hashable:
        return 0

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self.asked += 1
        return unschedulable(f"{node.node.name} is too hot")


def test_a_reason_for_each_node_is_asked_for_once(profile_of: MakeProfile) -> None:
    many = snapshot(*(node(f"n{number}") for number in range(5000)))
    complaining = Complaining()
    profile = profile_of(complaining)
    assert len(profile.evaluate(pod("a"), many).refusals["Complaining"]) == 5000
    assert complaining.asked == 5000
    began = time.thread_time()
    for _ in range(10):
        profile.evaluate(pod("b"), many)
    assert time.thread_time() - began < 0.2  # each time anew would be seconds
    assert complaining.asked == 5000


def test_a_whole_ranking_is_made_at_once() -> None:
    many = snapshot(*(node(f"n{number}") for number in range(5000)))
    evaluation = load_profiles()["default-scheduler"].evaluate(pod("a"), many)
    began = time.thread_time()
    ranking = evaluation.ranking(5000)
    assert time.thread_time() - began < 0.5
    assert len({each.node for each in ranking}) == 5000
    assert ranking[0].node == evaluation.node
    assert tuple(each.node for each in ranking[1:9]) == tuple(evaluation.runners_up(8))


@pytest.mark.parametrize("equal", [3, 9, 40])
def test_the_first_of_a_ranking_are_the_same_however_many_are_asked_for(equal: int) -> None:
    """Nodes tie; a few of them are not found in the way that all are."""
    taken = {f"n{number}": [pod(f"on-{number}", cpu=1000)] for number in range(equal, 50)}
    some = snapshot(*(node(f"n{number}") for number in range(50)), **taken)
    evaluation = load_profiles()["default-scheduler"].evaluate(pod("a"), some)
    whole = [(each.node, each.total) for each in evaluation.ranking(50)]
    assert len(whole) == 50
    for count in range(1, 50):
        assert [(each.node, each.total) for each in evaluation.ranking(count)] == whole[:count]
    assert list(evaluation.runners_up(4).items()) == whole[1:5]
    assert evaluation.chosen is not None
    assert (evaluation.chosen.node, evaluation.chosen.total) == whole[0]


def test_resources_that_no_node_offers_get_no_columns() -> None:
    """Any client may bind a pod that asks for thousands of them."""
    offered = "example.com/gpu"
    odd = pod("odd", cpu=100, extended={f"example.com/{number}": 1 for number in range(1000)} | {offered: 3})
    some = snapshot(node("a"), node("b"), a=[odd])
    assert set(some.pod_columns.requested) == {"cpu", "memory", "ephemeral-storage", "pods"}
    assert some.requested(offered).tolist() == [0, 0]
    subject, profile = pod("p", extended={offered: 2}), load_profiles()["default-scheduler"]
    assert profile.evaluate(subject, some).refusals == {"NodeResourcesFit": {f"Insufficient {offered}": 2}}
    for name in ("a", "b"):
        row = some.index[name]
        info = some.rows[row].with_node(node(name, extended={offered: 4}))
        some = some.with_nodes_changed({row: info})
        assert some.requested(offered).tolist() == [3, 0]
    assert profile.evaluate(subject, some).feasible == ("b",)
    larger = some.resized({1}, [NodeInfo.of(node("c", extended={"example.com/7": 1}))])
    assert larger.requested("example.com/7").tolist() == [1, 0]
    assert larger.requested(offered).tolist() == [3, 0]
