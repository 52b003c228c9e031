"""Rooms that etcd shows as held count on their nodes, for every worker, until the pod is bound or the record goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.clock import Clock
from wharfinger.objects.model.pod_records import HeldPlace
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.testing.builders import node, pod

WEB = pod("web", cpu=500, create_revision=7)
HELD = HeldPlace("n1", 7, "workflow@run", 9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> Cache:
    cache = Cache(clock=clock, assume_expiry=30.0)
    cache.set_node(node("n1"))
    cache.set_node(node("n2"))
    return cache


def cpu(cache: Cache, **how: object) -> tuple[int, int]:
    snapshot = cache.snapshot(**how)  # type: ignore[arg-type]
    requested = snapshot.requested("cpu")
    return int(requested[snapshot.index["n1"]]), int(requested[snapshot.index["n2"]])


def test_a_held_pod_counts_whichever_comes_first(cache: Cache) -> None:
    cache.set_pod(WEB)
    cache.hold(WEB.key, HELD)
    assert cpu(cache) == (500, 0)
    cache.remove_pod(WEB.key)
    assert cpu(cache) == (0, 0)
    cache.set_pod(WEB)
    assert cpu(cache) == (500, 0)


def test_time_does_not_end_it(cache: Cache, clock: Clock) -> None:
    cache.set_pod(WEB)
    cache.hold(WEB.key, HELD)
    clock.advance(1e6)
    assert cache.expire() == ()
    assert cpu(cache) == (500, 0)


def test_it_ends_with_its_record(cache: Cache) -> None:
    cache.set_pod(WEB)
    cache.hold(WEB.key, HELD)
    cache.hold(WEB.key, None)
    assert (cpu(cache), cache.assumed()) == ((0, 0), ())


def test_a_bound_pod_counts_where_it_is_bound(cache: Cache) -> None:
    cache.set_pod(WEB)
    cache.hold(WEB.key, HELD)
    cache.set_pod(WEB.on("n2"))
    assert (cpu(cache), cache.assumed()) == ((0, 500), ())


def test_a_record_of_an_earlier_life_counts_for_nothing(cache: Cache) -> None:
    cache.set_pod(replace(WEB, create_revision=20))
    cache.hold(WEB.key, HELD)
    assert cpu(cache) == (0, 0)


def test_an_edited_pod_counts_as_it_is_now(cache: Cache) -> None:
    cache.set_pod(WEB)
    cache.hold(WEB.key, HELD)
    cache.set_pod(replace(pod("web", cpu=700, create_revision=7), mod_revision=30))
    assert cpu(cache) == (700, 0)


def test_an_assumption_of_this_worker_goes_first(cache: Cache) -> None:
    cache.set_pod(WEB)
    cache.hold(WEB.key, HELD)
    cache.assume(WEB, "n2")
    assert cpu(cache) == (0, 500)
    cache.forget(WEB.identity)
    assert cpu(cache) == (500, 0)


def test_it_is_left_out_where_the_pod_itself_is_decided(cache: Cache) -> None:
    cache.set_pod(WEB)
    cache.hold(WEB.key, HELD)
    assert cpu(cache, excluding=WEB.identity) == (0, 0)


def test_it_is_no_fact_for_rules_and_no_mere_assumption(cache: Cache) -> None:
    """Rules across nodes do not rely on it; and who is refused because of it waits for an event."""
    cache.set_pod(WEB)
    cache.hold(WEB.key, HELD)
    assert cpu(cache, confirmed=True) == (0, 0)
    assert cpu(cache, confirmed=True, counting=[WEB.identity]) == (500, 0)
    assert cpu(cache, without_assumed=True) == (500, 0)
    assert [(one.identity, one.node) for one in cache.assumed()] == [(WEB.identity, "n1")]


def test_a_nomination_does_not_count_beside_it(cache: Cache) -> None:
    nominated = replace(WEB, nominated_node_name="n2")
    cache.set_pod(nominated)
    assert cache.nominated_on("n2") == (nominated,)
    cache.hold(WEB.key, HELD)
    assert cache.nominated_on("n2") == ()
    cache.hold(WEB.key, None)
    assert cache.nominated_on("n2") == (nominated,)
