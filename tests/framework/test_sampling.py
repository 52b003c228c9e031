"""kube-scheduler's sample of the nodes: how many, in which order, from where."""

from __future__ import annotations

import pytest

from tests.framework.doubles import Refuser, Scorer
from wharfinger.framework import sampling
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.plugins.node_independent import DefaultBinder, PrioritySort
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import unschedulable
from wharfinger.testing.builders import node, pod, snapshot

ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("nodes", "found"),
    [(99, 99), (100, 100), (500, 230), (1000, 420), (2500, 750), (5000, 500), (10000, 500), (15000, 750)],
)
def test_the_adaptive_number_of_nodes(nodes: int, found: int) -> None:
    assert sampling.wanted(nodes, sampling.ADAPTIVE) == found


@pytest.mark.parametrize(("share", "found"), [(1, 100), (10, 500), (99, 4950), (100, 5000)])
def test_a_share_of_the_nodes_but_never_below_a_hundred(share: int, found: int) -> None:
    assert sampling.wanted(5000, share) == found


def nodes(number: int, zones: int = 1) -> Snapshot:
    return snapshot(*(node(f"n{each}", labels={ZONE: f"z{each * zones // number}"}) for each in range(number)))


def test_one_node_of_each_zone_in_turn() -> None:
    assert sampling.scan_order(nodes(7, zones=3)).tolist() == [0, 3, 5, 1, 4, 6, 2]


def profile(percentage: int, *plugins: object) -> Profile:
    everyone = (PrioritySort(), *plugins, DefaultBinder())
    return Profile("default-scheduler", Enabled.everywhere(everyone, {}), percentage=percentage)  # type: ignore[arg-type]


def test_the_start_moves_on_by_what_was_looked_at() -> None:
    """As the real scheduler with 5,000 empty nodes: n0, n500, n1000, ... are where its scans begin."""
    sampled, start, starts = profile(0, Scorer("S")), 0, []
    for _ in range(11):
        evaluation = sampled.evaluate(pod(), nodes5000, start=start)
        assert evaluation.feasible_count == 500
        starts.append(start)
        start = evaluation.next_start
    assert starts == [*range(0, 5000, 500), 0]


nodes5000 = nodes(5000)


def test_nodes_refused_before_the_one_too_many_count_as_looked_at() -> None:
    some = nodes(400)
    refused = {f"n{number}": unschedulable("no") for number in (0, 1, 2, 102, 103, 200)}
    evaluation = profile(25, Refuser("R", refused), Scorer("S")).evaluate(pod(), some)
    assert evaluation.feasible_count == 100
    assert evaluation.next_start == 105  # 3 refused, 99 kept, 2 refused, 1 kept; the next one is one too many
    assert sum(evaluation.refusals["R"].values()) == 5


def test_a_refused_attempt_moves_the_start_too() -> None:
    some = nodes(150)
    refused = {name: unschedulable("no") for name in some.names}
    evaluation = profile(0, Refuser("R", refused), Scorer("S")).evaluate(pod(), some, start=7)
    assert (evaluation.node, evaluation.next_start) == (None, 7)  # once around
    assert evaluation.message == "0/150 nodes are available: 150 no."


def test_a_nominated_node_that_is_refused_counts_as_looked_at() -> None:
    """It is tried first, so kube-scheduler counts it among those it has processed, wherever the scan ends."""
    some = nodes(400)
    refused = {f"n{number}": unschedulable("no") for number in (1, 399)}
    sampled = profile(25, Refuser("R", refused), Scorer("S"))
    for nominated, start in (("", 101), ("n1", 101), ("n399", 102), ("elsewhere", 101)):
        evaluation = sampled.evaluate(pod(nominated_node_name=nominated), some)
        assert (evaluation.feasible_count, evaluation.next_start) == (100, start), nominated


def test_without_scores_one_node_is_enough() -> None:
    evaluation = profile(50).evaluate(pod(), nodes(150), start=149)
    assert (evaluation.feasible, evaluation.next_start) == (("n149",), 0)


def test_the_nominated_node_is_tried_first_and_moves_nothing() -> None:
    evaluation = profile(50, Scorer("S")).evaluate(pod(nominated_node_name="n77"), nodes(300), start=5)
    assert (evaluation.feasible, evaluation.next_start) == (("n77",), 5)
