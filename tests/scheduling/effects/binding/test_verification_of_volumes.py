"""Before a bind, the pod's volumes are looked at again: on its node, and on all nodes for a claim of one pod alone."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from tests.volumes import PROFILE, bound_claim, bound_volume, claim, host, limited, storage, user, volume
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import StorageObject
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.effects.binding.across_nodes import NONE
from wharfinger.scheduling.effects.binding.verification import Verification, sees_beyond
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.testing.builders import pod

ALONE = frozenset({"ReadWriteOncePod"})
OURS = Computation(revision=9, profile=PROFILE.digest)


@pytest.fixture
def cache() -> Cache:
    cache = Cache(clock=Clock())
    for name in ("n1", "n2"):
        cache.set_node(host(name))
    put(cache, *storage().classes.values())
    return cache


def put(cache: Cache, *things: StorageObject) -> None:
    for thing in things:
        cache.set_surrounding(thing)


def decided(cache: Cache, subject: Pod, node: str = "n1") -> Verification:
    """The pod was decided to be on the node, and is assumed there."""
    verification = Verification(cache=cache, profiles={PROFILE.name: PROFILE})
    before = cache.node_info(node)
    cache.assume(subject, node)
    verification.decided(subject, node, before)
    return verification


def test_a_pod_without_volumes_needs_no_look_at_other_nodes() -> None:
    """A look at all nodes costs far more; it is made for every bind then."""
    assert not [plugin.name for plugin in PROFILE.plugins if sees_beyond(plugin)]


def test_what_was_decided_holds_as_long_as_nothing_moves(cache: Cache) -> None:
    put(cache, claim("a"), volume("v", on="n1"))
    subject = user("p", "a")

    assert decided(cache, subject).refusal(subject, "n1", OURS, NONE) == ""


def test_a_volume_that_another_took_meanwhile_refuses_the_bind(cache: Cache) -> None:
    put(cache, claim("a", storage_class="local"), volume("v", on="n1", storage_class="local"))
    subject = user("p", "a")
    verification = decided(cache, subject)
    put(cache, bound_volume("v", "b", on="n1", storage_class="local"))

    refused = verification.refusal(subject, "n1", OURS, NONE)

    assert refused == "VolumeBinding: node(s) didn't find available persistent volumes to bind"


def test_a_limit_that_sank_meanwhile_refuses_the_bind(cache: Cache) -> None:
    put(cache, claim("a"), limited("n1", 1))
    subject = user("p", "a")
    verification = decided(cache, subject)
    put(cache, limited("n1", 0))

    assert "exceed max volume count" in verification.refusal(subject, "n1", OURS, NONE)
    assert "exceed max volume count" in verification.refusal(subject, "n1", Computation(revision=9, profile="x"), NONE)


@pytest.mark.parametrize(("modes", "refused"), [(ALONE, True), (frozenset({"ReadWriteMany"}), False)])
def test_a_claim_in_use_on_another_node_counts(cache: Cache, modes: frozenset[str], refused: bool) -> None:
    put(cache, bound_volume("v", "a"), bound_claim("a", "v", access_modes=modes))
    subject = user("p", "a")
    verification = decided(cache, subject)
    cache.set_pod(user("other", "a", node_name="n2", create_revision=3))

    found = verification.refusal(subject, "n1", OURS, NONE)

    assert ("already in-use by another pod" in found) is refused


def test_plain_pods_are_known_to_fit_as_before(cache: Cache) -> None:
    subject = pod("plain")

    assert decided(cache, subject).refusal(subject, "n1", OURS, NONE) == ""
