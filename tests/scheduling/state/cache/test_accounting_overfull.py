"""Which nodes are overfull, by what changed since the last look."""

from __future__ import annotations

import pytest

from wharfinger.scheduling.state.cache.accounting import OverfullNodes
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.testing.builders import node, pod, snapshot


@pytest.fixture
def cache() -> Cache:
    cache = Cache(clock=lambda: 0.0)
    cache.set_node(node("n1"))
    cache.set_node(node("n2"))
    return cache


def test_overfull_nodes_are_found_by_what_changed(cache: Cache) -> None:
    assert cache.over_committed() == ()
    cache.set_pod(pod("huge", cpu=9000).on("n1"))
    assert cache.over_committed() == ("n1",)
    cache.set_pod(pod("beyond", cpu=9000).on("n2"))
    assert cache.over_committed() == ("n1", "n2")
    cache.remove_pod(pod("huge").key)
    assert cache.over_committed() == ("n2",)
    cache.remove_node("n1")
    assert cache.over_committed() == ("n2",)
    cache.set_node(node("n2", cpu=10_000))
    assert cache.over_committed() == ()


def test_what_is_only_assumed_overcommits_nothing(cache: Cache) -> None:
    cache.set_pod(pod("huge", cpu=3000).on("n1"))
    cache.assume(pod("other", cpu=3000), "n1")
    assert cache.over_committed() == ()


def test_assumed_pods_count_for_overfull_rows() -> None:
    full = OverfullNodes()
    before = snapshot(node("n1"), node("n2"), n1=[pod("a", cpu=3000)])
    assert full.names(before) == []
    after = before.place(pod("b", cpu=3000), "n1")
    assert full.names(after) == ["n1"]
    assert full.names(after) == ["n1"], "no row changed"
    assert full.names(before) == [], "the row is looked at again"


def test_a_resource_that_the_node_does_not_offer_is_overfull() -> None:
    wants = pod("a", extended={"example.com/gpu": 1})
    assert OverfullNodes().names(snapshot(node("n1"), n1=[wants])) == ["n1"]
