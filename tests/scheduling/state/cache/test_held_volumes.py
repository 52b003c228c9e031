"""Volumes of assumed pods count as taken, for as long as they are assumed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.clock import Clock
from tests.volumes import PROFILE, bound_claim, bound_volume, claim, host, reference, storage, user, volume
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import LOST, PersistentVolume, PersistentVolumeClaim, StorageObject
from wharfinger.objects.model.storage_index import Storage, place_of
from wharfinger.objects.model.volume_matching import with_plan
from wharfinger.scheduling.state.cache.cache import Cache


@pytest.fixture
def cache() -> Cache:
    cache = Cache(clock=Clock(), assume_expiry=30.0)
    for name in ("n1", "n2"):
        cache.set_node(host(name))
    put(cache, *storage().classes.values())
    return cache


def put(cache: Cache, *things: StorageObject) -> None:
    for thing in things:
        cache.set_surrounding(thing)


def waiting(name: str, *claims: str) -> Pod:
    return user(name, *claims, create_revision=7)


def kept(cache: Cache, **how: bool) -> dict[str, str]:
    """The claims that decisions take volumes to be kept for."""
    volumes = cache.snapshot(**how).surroundings.storage.volumes.values()  # type: ignore[arg-type]
    return {one.name: one.claim.key.name for one in volumes if one.claim is not None}


def selected(cache: Cache, name: str) -> str | None:
    return cache.snapshot().surroundings.storage.claims[claim(name).key].selected_node


def test_an_assumed_pods_volume_is_taken_and_given_back(cache: Cache) -> None:
    put(cache, claim("a"), claim("b"), volume("v"))
    cache.assume(waiting("p", "a"), "n1")
    assert kept(cache) == {"v": "a"}

    cache.forget(waiting("p").identity)

    assert kept(cache) == {}
    assert cache.snapshot().surroundings is cache.surroundings


def test_the_next_pod_chooses_another_volume(cache: Cache) -> None:
    put(cache, claim("a"), claim("b"), volume("v"), volume("w"))
    cache.assume(waiting("p", "a"), "n1")
    cache.assume(waiting("q", "b"), "n1")

    assert kept(cache) == {"v": "a", "w": "b"}


def test_a_claim_to_be_made_is_tied_to_the_node(cache: Cache) -> None:
    put(cache, claim("a"))
    cache.assume(waiting("p", "a"), "n2")

    assert selected(cache, "a") == "n2"
    assert PROFILE.evaluate(waiting("q", "a"), cache.snapshot()).feasible == ("n2",)


def test_a_claim_that_two_assumed_pods_use_is_tied_until_both_ended(cache: Cache) -> None:
    put(cache, claim("a"))
    cache.assume(waiting("p", "a"), "n2")
    cache.assume(waiting("q", "a"), "n2")

    cache.forget(waiting("p").identity)
    assert selected(cache, "a") == "n2"
    cache.forget(waiting("q").identity)
    assert selected(cache, "a") is None


def test_when_the_watch_shows_the_pod_bound_the_facts_count(cache: Cache) -> None:
    put(cache, claim("a"), volume("v"))
    cache.assume(waiting("p", "a"), "n1")
    put(cache, bound_volume("v", "a"), bound_claim("a", "v"))
    cache.set_pod(waiting("p", "a").on("n1"))

    assert kept(cache) == {"v": "a"}
    assert cache.snapshot().surroundings is cache.surroundings


def test_a_pod_that_is_deleted_holds_nothing(cache: Cache) -> None:
    put(cache, claim("a"), volume("v"))
    cache.set_pod(waiting("p", "a"))
    cache.assume(waiting("p", "a"), "n1")
    cache.remove_pod(waiting("p").key)

    assert kept(cache) == {}


def test_decisions_without_assumed_pods_see_their_volumes_free(cache: Cache) -> None:
    put(cache, claim("a"), volume("v"))
    cache.assume(waiting("p", "a"), "n1")

    assert kept(cache, without_assumed=True) == {}
    assert kept(cache, confirmed=True) == {}
    cache.confirm(waiting("p").identity, 9)
    assert kept(cache, confirmed=True) == {"v": "a"}


def test_the_pod_itself_may_still_have_its_volume(cache: Cache) -> None:
    put(cache, claim("a"), volume("v"))
    pod = waiting("p", "a")
    cache.assume(pod, "n1")

    plan = cache.volume_plan(pod, "n1")

    assert plan is not None
    assert [found.name for _, found in plan.static] == ["v"]
    alone = cache.snapshot(excluding=pod.identity, only="n1")
    assert PROFILE.verify(pod, alone, "n1").ok
    assert PROFILE.verify(pod, cache.snapshot(only="n1"), "n1").ok


def test_a_plan_needs_the_node_and_what_is_planned(cache: Cache) -> None:
    put(cache, claim("a", storage_class="local"))

    assert cache.volume_plan(waiting("p", "a"), "gone") is None
    assert cache.volume_plan(waiting("p", "a"), "n1") is None
    assert cache.volume_plan(waiting("p"), "n1") is not None


def test_changes_of_objects_show_through_what_is_held(cache: Cache) -> None:
    put(cache, claim("a"), volume("v"))
    cache.assume(waiting("p", "a"), "n1")
    put(cache, volume("v", labels={"speed": "fast"}), volume("w"))

    found = cache.snapshot().surroundings.storage.volumes

    assert (found["v"].labels, found["v"].claim) == ({"speed": "fast"}, reference("a"))
    assert found["w"] == volume("w")
    cache.remove_surrounding(PersistentVolume, "", "v")
    assert "v" not in cache.snapshot().surroundings.storage.volumes


def test_a_claim_of_another_life_is_not_tied(cache: Cache) -> None:
    put(cache, claim("a"))
    cache.assume(waiting("p", "a"), "n1")
    put(cache, claim("a", uid="another"))

    assert selected(cache, "a") is None


def test_a_pod_whose_claims_cannot_be_had_holds_nothing(cache: Cache) -> None:
    put(cache, claim("a", phase=LOST))
    cache.assume(waiting("p", "a", "gone"), "n1")

    assert cache.snapshot().surroundings is cache.surroundings


def test_nothing_changes_nothing(cache: Cache) -> None:
    put(cache, claim("a"), volume("v"))
    cache.assume(waiting("p", "a"), "n1")

    first = cache.snapshot()

    assert cache.snapshot() is first
    cache.assume(waiting("plain"), "n1")
    assert cache.snapshot().surroundings is first.surroundings


def test_what_is_held_follows_any_changes() -> None:
    """Kept entry by entry; compared with all plans laid on the facts anew."""
    for seed in range(60):
        rng = random.Random(seed)
        cache = Cache(clock=Clock(), assume_expiry=30.0)
        cache.set_node(host("n1"))
        put(cache, *storage().classes.values())
        for _ in range(50):
            _step(rng, cache)

            held = cache._held
            assert cache.snapshot().surroundings.storage == _anew(cache.surroundings.storage, held.plans.values())


def _step(rng: random.Random, cache: Cache) -> None:
    name, number = rng.choice("abc"), rng.choice("123")
    thing = rng.choice(
        (
            claim(name, storage_class=rng.choice(("wait", "local"))),
            bound_claim(name, f"v{number}"),
            volume(f"v{number}", rng.randrange(1, 4)),
            volume(f"v{number}", storage_class="local"),
            bound_volume(f"v{number}", name),
        )
    )
    pod = waiting(f"p{number}", *rng.sample("abc", rng.randrange(1, 3)))
    match rng.randrange(5):
        case 0 | 1:
            cache.set_surrounding(thing)
        case 2:
            cache.remove_surrounding(type(thing), *place_of(thing))
        case 3:
            cache.assume(pod, "n1")
        case _:
            cache.forget(pod.identity)


def _anew(facts: Storage, plans: object) -> Storage:
    for plan in plans:  # type: ignore[attr-defined]
        facts = with_plan(facts, plan)
    return facts


def test_plans_are_laid_on_newer_states_only_where_they_still_fit() -> None:
    around = storage(claim("a"), volume("v"))
    cache = Cache(clock=Clock())
    cache.set_node(host("n1"))
    put(cache, *around.classes.values(), claim("a"), volume("v"))
    plan = cache.volume_plan(waiting("p", "a"), "n1")
    assert plan is not None

    taken = around.with_object(bound_volume("v", "b"))
    gone = around.without(PersistentVolume, "", "v").without(PersistentVolumeClaim, "default", "a")

    assert with_plan(taken, plan) == taken
    assert with_plan(gone, plan) == gone
    assert with_plan(gone, replace(plan, static=(), provision=(claim("a"),))) == gone
