"""A decision is a function of snapshot, pod and profile: not of when, how often, or in which order nodes came."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.clusters import clusters, pods
from tests.properties.shares import in_quarters
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.pod import Pod

DEFAULT = load_profiles()["default-scheduler"]


@in_quarters(50)
@given(clusters(), pods())
def test_deciding_twice_is_deciding_once(quarter: int, infos: list[NodeInfo], pod: Pod) -> None:
    snapshot = Snapshot.of(infos)
    assert DEFAULT.evaluate(pod, snapshot).decide() == DEFAULT.evaluate(pod, snapshot).decide()


@in_quarters(50)
@given(clusters(), pods(), st.randoms(use_true_random=False))
def test_the_order_in_which_nodes_appeared_decides_nothing(
    quarter: int, infos: list[NodeInfo], pod: Pod, shuffler: random.Random
) -> None:
    shuffled = list(infos)
    shuffler.shuffle(shuffled)
    assert DEFAULT.evaluate(pod, Snapshot.of(infos)).decide() == DEFAULT.evaluate(pod, Snapshot.of(shuffled)).decide()


@in_quarters(50)
@given(clusters(), pods())
def test_a_pod_is_only_placed_where_it_may_be_verified(quarter: int, infos: list[NodeInfo], pod: Pod) -> None:
    snapshot = Snapshot.of(infos)
    evaluation = DEFAULT.evaluate(pod, snapshot)
    if evaluation.node is not None:
        assert DEFAULT.verify(pod, snapshot, evaluation.node).ok
        assert DEFAULT.verify(pod, snapshot.only(evaluation.node), evaluation.node).ok
