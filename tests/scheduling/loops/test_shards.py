"""Sharing out: the same everywhere, little moves, and gained pods are held."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.clock import Clock
from wharfinger.objects.model.pod import Pod
from wharfinger.process.records import InstanceRecord
from wharfinger.process.rendezvous import Ring
from wharfinger.scheduling.loops.shards import Roster, Shards, shard_key

KEYS = [f"pod/default/web-{number}" for number in range(1000)]


def pod(name: str, **fields: object) -> Pod:
    return Pod(namespace="default", name=name, uid="u", **fields)  # type: ignore[arg-type]


def ready(state: str = "ready", **fields: object) -> InstanceRecord:
    return InstanceRecord.model_validate({"state": state, "host": "h", "pid": 1, **fields})


def test_an_empty_ring_owns_nothing() -> None:
    assert Ring().owner("pod/default/web") is None


def test_the_share_out_is_the_same_on_every_machine_and_in_every_release() -> None:
    ring = Ring(["common/0", "common/1", "common/2"])

    assert [str(ring.owner(key))[-1] for key in KEYS[::100]] == list("1001110010")


def test_pods_are_shared_evenly() -> None:
    ring = Ring(f"common/{number}" for number in range(4))
    shares = Counter(ring.owner(key) for key in KEYS)

    assert all(200 < share < 300 for share in shares.values())


def test_only_the_pods_of_a_member_that_leaves_move() -> None:
    before, after = Ring(["a", "b", "c"]), Ring(["a", "c"])

    moved = [key for key in KEYS if before.owner(key) != after.owner(key)]

    assert moved == [key for key in KEYS if before.owner(key) == "b"]


def test_pods_that_look_at_each_other_belong_together() -> None:
    assert shard_key(pod("a", group="gang")) == shard_key(pod("b", group="gang"))
    assert shard_key(pod("a", hard_terms_across_nodes=True)) == shard_key(pod("b", hard_terms_across_nodes=True))
    assert shard_key(pod("a")) != shard_key(pod("b"))


def test_a_slot_is_a_member_while_an_incarnation_of_it_is_ready() -> None:
    roster = Roster("common")
    roster.set("0", 1, ready())
    roster.set("0", 2, ready("starting"))
    roster.set("1", 1, ready("draining"))
    roster.set("2", 1, ready(dispatches=False))

    assert roster.ready() == {"common/0"}
    assert roster.serving("0") == 1

    roster.set("0", 2, ready())
    assert roster.serving("0") == 2

    roster.set("0", 1, None)
    roster.set("0", 2, None)
    assert roster.ready() == frozenset()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_without_serving_nothing_is_mine(clock: Clock) -> None:
    shards = Shards(hold=2, clock=clock)
    shards.update(frozenset({"a"}), None)

    assert not shards.mine(pod("web"))


def test_a_new_worker_holds_the_pods_that_others_owned(clock: Clock) -> None:
    shards = Shards(hold=2, clock=clock)
    shards.update(frozenset({"b"}), None)
    shards.update(frozenset({"a", "b"}), "a")
    gained = next(one for one in map(pod, KEYS) if shards.mine(one))

    assert shards.not_before(gained) == clock() + 2

    clock.advance(2)
    assert shards.not_before(gained) == 0.0


def test_the_first_worker_starts_pods_at_once(clock: Clock) -> None:
    """No worker owned them before, so none can still be starting them."""
    shards = Shards(hold=2, clock=clock)
    shards.update(frozenset({"a"}), "a")

    assert shards.mine(pod("web"))
    assert shards.not_before(pod("web")) == 0.0


def test_pods_of_a_worker_that_left_are_held_though_none_followed_at_once(clock: Clock) -> None:
    shards = Shards(hold=2, clock=clock)
    shards.update(frozenset({"b"}), None)
    clock.advance(100)
    shards.update(frozenset(), None)
    left = clock()
    clock.advance(0.5)
    shards.update(frozenset({"a"}), "a")

    assert shards.not_before(pod("web")) == left + 2


def test_a_worker_that_lost_its_registration_for_a_moment_keeps_its_pods(clock: Clock) -> None:
    shards = Shards(hold=2, clock=clock)
    shards.update(frozenset({"a", "b"}), "a")
    clock.advance(100)
    its = {one.name for one in map(pod, KEYS) if shards.mine(one)}
    shards.update(frozenset(), None)
    lost = clock()
    clock.advance(0.5)
    shards.update(frozenset({"a"}), "a")

    for one in map(pod, KEYS[::100]):
        assert shards.not_before(one) == (0.0 if one.name in its else lost + 2)


def test_only_gained_pods_are_held_when_a_member_leaves(clock: Clock) -> None:
    """A pod's owner must be unchanged for a while: the one before may still be starting it."""
    shards = Shards(hold=2, clock=clock)
    shards.update(frozenset({"a", "b"}), "a")
    clock.advance(100)
    pods = [pod(f"web-{number}") for number in range(100)]
    kept = {one.name for one in pods if shards.mine(one)}
    shards.update(frozenset({"a"}), "a")

    for one in pods:
        assert shards.mine(one)
        assert shards.not_before(one) == (0.0 if one.name in kept else clock() + 2)


def test_a_member_that_flaps_holds_its_pods_anew(clock: Clock) -> None:
    shards = Shards(hold=2, clock=clock)
    shards.update(frozenset({"a"}), "a")
    clock.advance(100)
    shards.update(frozenset({"a", "b"}), "a")
    clock.advance(1)
    shards.update(frozenset({"a"}), "a")
    flapped = next(one for one in map(pod, KEYS) if Ring(["a", "b"]).owner(shard_key(one)) == "b")

    assert shards.not_before(flapped) == clock() + 2


def test_newer_incarnation_of_a_member_holds_all_pods_of_the_same_ring(clock: Clock) -> None:
    """The member keeps its name, so nothing moves for the others; but the older one may still be starting its pods."""
    older, newer, other = (Shards(hold=2, clock=clock) for _ in range(3))
    ring = frozenset({"common/0", "common/1"})
    for shards, me in ((older, "common/0"), (newer, None), (other, "common/1")):
        shards.update(ring, me)
    clock.advance(100)
    pods = [pod(f"web-{number}") for number in range(50)]
    its = [one for one in pods if older.mine(one)]
    assert 5 < len(its) < 45
    assert older.update(ring, None)  # it sees the newer one ready
    clock.advance(0.5)
    assert newer.update(ring, "common/0")  # and so does that one
    assert not other.update(ring, "common/1")

    assert [one for one in pods if newer.mine(one)] == its
    assert not any(map(older.mine, pods))
    assert {newer.not_before(one) for one in its} == {clock() + 2}
    assert {other.not_before(one) for one in pods if other.mine(one)} == {0.0}

    clock.advance(2)
    assert {newer.not_before(one) for one in its} == {0.0}
    newer.update(ring, None)
    clock.advance(0.1)
    older.update(ring, "common/0")  # the newer one died, and it takes the pods back
    assert {older.not_before(one) for one in its} == {clock() + 2}
