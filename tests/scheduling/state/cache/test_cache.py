"""What the cache believes, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.clock import Clock
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.cache.assumptions import Assumption
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.testing.builders import node, pod


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> Cache:
    cache = Cache(clock=clock, assume_expiry=30.0)
    cache.set_node(node("n1"))
    cache.set_node(node("n2"))
    return cache


def cpu(cache: Cache, name: str) -> int:
    snapshot = cache.snapshot()
    return int(snapshot.requested("cpu")[snapshot.index[name]])


WEB = pod("web", cpu=500, create_revision=7)


class TestCounting:
    def test_a_bound_pod_counts_on_its_node(self, cache: Cache) -> None:
        cache.set_pod(WEB.on("n1"))
        assert (cpu(cache, "n1"), cpu(cache, "n2")) == (500, 0)

    def test_a_pod_bound_to_an_unknown_node_counts_when_the_node_appears(self, cache: Cache) -> None:
        cache.set_pod(WEB.on("late"))
        cache.set_node(node("late"))
        assert cpu(cache, "late") == 500

    def test_a_node_that_comes_back_finds_its_pods_counted(self, cache: Cache) -> None:
        cache.set_pod(WEB.on("n1"))
        cache.remove_node("n1")
        assert cache.snapshot().names == ("n2",)
        cache.set_node(node("n1"))
        assert cache.snapshot().names == ("n2", "n1")
        assert cpu(cache, "n1") == 500

    def test_a_finished_pod_uses_nothing(self, cache: Cache) -> None:
        cache.set_pod(WEB.on("n1"))
        cache.set_pod(replace(WEB.on("n1"), phase="Succeeded"))
        assert cpu(cache, "n1") == 0

    def test_a_pod_that_shrinks_in_place_gives_room_back(self, cache: Cache) -> None:
        cache.set_pod(WEB.on("n1"))
        cache.set_pod(replace(WEB.on("n1"), requests={"cpu": 200}))
        assert cpu(cache, "n1") == 200

    def test_a_pod_created_again_is_another_one(self, cache: Cache) -> None:
        cache.set_pod(WEB.on("n1"))
        cache.set_pod(replace(WEB, create_revision=9))
        assert cpu(cache, "n1") == 0

    def test_negative_room_is_logged_and_breaks_nothing(self, cache: Cache) -> None:
        cache.set_pod(pod("huge", cpu=9000).on("n1"))
        cache.set_pod(pod("beyond", cpu=2**70).on("n2"))
        assert cache.over_committed() == ("n1", "n2")
        assert cache.snapshot().info("n1").free("cpu") == -5000

    def test_the_object_is_kept_while_the_pod_is_pending(self, cache: Cache) -> None:
        cache.set_pod(WEB, b"{}")
        assert cache.raw(WEB.key) == b"{}"
        cache.set_pod(WEB.on("n1"), b"{}")
        assert cache.raw(WEB.key) is None


class TestBindingVersions:
    def test_they_only_advance(self, cache: Cache) -> None:
        cache.bindings.set("n1", 12)
        cache.bindings.set("n1", 9)
        assert cache.bindings["n1"] == 12

    def test_none_is_zero(self, cache: Cache) -> None:
        cache.bindings.set("n1", 12)
        cache.bindings.remove("n1")
        assert cache.bindings["n1"] == 0


class TestAssumptions:
    def test_an_assumed_pod_counts_and_is_counted_once_when_seen_bound(self, cache: Cache) -> None:
        cache.set_pod(WEB)
        cache.assume(WEB, "n1")
        assert cpu(cache, "n1") == 500
        cache.set_pod(WEB.on("n1"))
        assert cpu(cache, "n1") == 500
        assert cache.assumed() == ()

    def test_node_in_etcd_overrides_the_assumed_node(self, cache: Cache) -> None:
        cache.assume(WEB, "n1")
        cache.set_pod(WEB.on("n2"))
        assert (cpu(cache, "n1"), cpu(cache, "n2")) == (0, 500)

    def test_assuming_again_moves_the_pod(self, cache: Cache) -> None:
        cache.assume(WEB, "n1")
        cache.assume(WEB, "n2")
        assert (cpu(cache, "n1"), cpu(cache, "n2")) == (0, 500)

    def test_a_pod_seen_bound_is_not_assumed(self, cache: Cache) -> None:
        cache.set_pod(WEB.on("n2"))
        cache.assume(WEB, "n1")
        assert cache.assumed() == ()

    def test_an_unsent_one_expires(self, cache: Cache, clock: Clock) -> None:
        cache.assume(WEB, "n1")
        clock.now += 31
        assert cache.expire() == (Assumption(WEB.identity, "n1", False),)
        assert cpu(cache, "n1") == 0

    def test_a_sent_one_never_expires(self, cache: Cache, clock: Clock) -> None:
        """A worker paused between sending and the answer must not give away the room it may have taken."""
        cache.assume(WEB, "n1")
        cache.mark_sent(WEB.identity)
        clock.now += 10_000
        assert cache.expire() == ()
        cache.forget_unsent(WEB.identity)
        assert cpu(cache, "n1") == 500

    def test_forgetting_gives_the_room_back(self, cache: Cache) -> None:
        cache.assume(WEB, "n1")
        cache.mark_sent(WEB.identity)
        cache.forget(WEB.identity)
        assert cpu(cache, "n1") == 0

    def test_an_ambiguous_one_holds_until_the_watch_has_come_that_far(self, cache: Cache) -> None:
        cache.progress.advance(10)
        cache.assume(WEB, "n1")
        cache.mark_sent(WEB.identity)
        cache.settle(WEB.identity, 12)
        cache.progress.advance(11)
        assert cpu(cache, "n1") == 500
        cache.progress.advance(12)
        assert cpu(cache, "n1") == 0
        assert cache.assumed() == ()

    def test_an_ambiguous_one_that_did_happen_becomes_a_fact(self, cache: Cache) -> None:
        cache.set_pod(WEB)
        cache.assume(WEB, "n1")
        cache.mark_sent(WEB.identity)
        cache.settle(WEB.identity, 12)
        cache.set_pod(WEB.on("n1"))
        cache.progress.advance(12)
        assert cpu(cache, "n1") == 500

    def test_deleting_the_pod_ends_it(self, cache: Cache) -> None:
        cache.set_pod(WEB)
        cache.assume(WEB, "n1")
        cache.mark_sent(WEB.identity)
        cache.remove_pod(WEB.key)
        assert cpu(cache, "n1") == 0

    def test_an_older_life_of_the_pod_does_not_end_that_of_the_new_one(self, cache: Cache) -> None:
        cache.set_pod(WEB)
        newer = replace(WEB, create_revision=20)
        cache.assume(newer, "n1")
        cache.remove_pod(PodKey("default", "web"))
        assert [each.identity for each in cache.assumed()] == [newer.identity]


class TestSnapshots:
    def test_asking_twice_gives_the_same_one(self, cache: Cache) -> None:
        assert cache.snapshot() is cache.snapshot()

    def test_one_that_was_taken_does_not_change(self, cache: Cache) -> None:
        before = cache.snapshot()
        cache.assume(WEB, "n1")
        cache.snapshot()
        cache.remove_node("n2")
        cache.snapshot()
        assert before.requested("cpu").tolist() == [0, 0]
        assert before.names == ("n1", "n2")

    def test_only_what_changed_is_copied(self, cache: Cache) -> None:
        before = cache.snapshot()
        cache.assume(pod("light", cpu=1, create_revision=1), "n1")
        after = cache.snapshot()
        assert after.node_columns is before.node_columns
        assert after.requested("memory") is before.requested("memory")
        assert after.requested("cpu") is not before.requested("cpu")

    def test_a_heart_beat_changes_no_column(self, cache: Cache) -> None:
        before = cache.snapshot()
        cache.set_node(replace(node("n1"), mod_revision=99))
        after = cache.snapshot()
        assert after.node_columns is before.node_columns
        assert after.info("n1").node.mod_revision == 99

    def test_cache_reports_its_revision(self, cache: Cache) -> None:
        cache.progress.advance(41)
        assert cache.snapshot().revision == 41
        assert cache.snapshot(only="n1").revision == 41

    def test_a_pod_can_be_left_out_for_its_own_verification(self, cache: Cache) -> None:
        cache.assume(WEB, "n1")
        assert cache.snapshot(excluding=WEB.identity).requested("cpu").tolist() == [0, 0]
        assert cache.snapshot(excluding=WEB.identity, only="n1").requested("cpu").tolist() == [0]
        assert cache.snapshot(only="n1").requested("cpu").tolist() == [500]

    def test_all_assumed_pods_can_be_left_out(self, cache: Cache) -> None:
        cache.set_pod(pod("fact", cpu=100).on("n2"))
        cache.assume(WEB, "n1")
        assert cache.snapshot(without_assumed=True).requested("cpu").tolist() == [0, 100]

    def test_one_node_alone_that_is_not_there_is_empty(self, cache: Cache) -> None:
        assert len(cache.snapshot(only="n9")) == 0


class TestMembersOfGangs:
    def test_an_assumed_member_that_changes_goes_on_counting(self, cache: Cache) -> None:
        member = replace(WEB, group="train")
        cache.set_pod(member)
        cache.assume(member, "n1")

        cache.set_pod(replace(member, mod_revision=9))

        assert cpu(cache, "n1") == 500

    def test_the_room_of_a_nominated_member_is_promised_to_it(self, cache: Cache) -> None:
        member = replace(WEB, group="train", nominated_node_name="n1")

        cache.set_pod(member)

        assert cache.nominated_on("n1") == (member,)


def test_a_pulled_image_is_seen_by_a_profile_that_has_decided_before() -> None:
    cache = Cache(clock=lambda: 0.0)
    cache.set_node(Node("a", allocatable={"cpu": 4000, "pods": 9}))
    cache.set_node(Node("b", allocatable={"cpu": 4000, "pods": 9}))
    profile = load_profiles()["default-scheduler"]
    subject = Pod("default", "p", "uid", images=("app:1",))
    profile.evaluate(subject, cache.snapshot())
    cache.set_node(Node("b", allocatable={"cpu": 4000, "pods": 9}, images={"app:1": 900 << 20}))
    decision = profile.evaluate(subject, cache.snapshot()).decide(None)
    assert {node: scores["ImageLocality"] for node, scores in decision.scores.items()} == {"a": 0, "b": 43}
