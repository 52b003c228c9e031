"""A rollout in which everything dies resumes at its step, ends nothing twice, and keeps what only went unseen.

When which process is struck is drawn from a seed. Judged from etcd's own revision history.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.integration.dev_tree import DevTree, running_tree, wait_until
from tests.integration.fleet_handle import FleetHandle
from tests.integration.fleet_judge import FleetVerdict, Life
from tests.integration.gateway import NODES, PODS, Gateway, audit, node, pod

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

REPLICAS, SURGE = 5, 2
AWAY = 15.0
"""Seconds for which a server does not answer: longer than a lease."""
RECOVERY = 90.0
SECONDS = 120.0


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    with running_tree(tmp_path_factory.mktemp("faults"), workers=REPLICAS) as tree:
        yield tree


@pytest.fixture
def fleet(tree: DevTree) -> Iterator[FleetHandle]:
    tree.clear()
    fleet = FleetHandle(tree)
    # Instances are struck at random: a slot that is struck twice is no reason to stop.
    fleet.apply(strategy={"rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": 0, "failureThreshold": 100}})
    fleet.complete(SECONDS)
    for number in range(10):
        tree.etcd.put(f"{NODES}n{number}", node(f"n{number}", cpu="2"))
    yield fleet
    tree.clear()


class Pods:
    """Handfuls of pods, put whenever etcd answers."""

    def __init__(self, etcd: Gateway) -> None:
        self.etcd = etcd
        self.count = 0

    def come(self, number: int = 20) -> None:
        for _ in range(number):
            self.etcd.put(f"{PODS}default/p{self.count:03}", pod(f"p{self.count:03}"))
            self.count += 1

    def all_bound(self) -> bool:
        found = self.etcd.objects(PODS).values()
        return sum(1 for one in found if one["spec"].get("nodeName")) == self.count


def begun(fleet: FleetHandle, revision: int, slots: int) -> Callable[[], bool]:
    """Whether so many slots have an instance of the revision."""
    return lambda: len({life[0] for life, one in fleet.grants.items() if one["revision"] == revision}) >= slots


def strike(fleet: FleetHandle, rng: random.Random) -> Life:
    """SIGKILL any instance that is registered; which one it was."""
    while True:
        with suppress(IndexError, ProcessLookupError):  # it has just left by itself
            life, record = rng.choice(sorted(fleet.instances.items()))
            os.kill(record["pid"], signal.SIGKILL)
            return life


def stop_for_a_while(pid: int) -> None:
    """SIGSTOP, and SIGCONT when `AWAY` is over."""
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(AWAY)
    finally:
        os.kill(pid, signal.SIGCONT)


def judge(fleet: FleetHandle, first: int, revision: int, struck: list[Life], pods: Pods) -> FleetVerdict:
    """What must hold whatever happened."""
    verdict = fleet.verdict()
    assert verdict.wrong == []
    assert verdict.dropped == []
    assert verdict.taken(first) == []
    assert verdict.most_living(first) <= REPLICAS + SURGE
    since = {one.life for one in verdict.creates if one.revision > first}
    ends = Counter(life for life, _ in verdict.ended)
    assert max(ends.values()) == 1
    assert {life for life, how in verdict.ended if how != "drained" and life in since} <= set(struck)
    assert since.isdisjoint(verdict.asked(first))
    assert len(since) <= REPLICAS + len(struck)
    assert {int(one["revision"]) for one in fleet.ready.values()} == {revision}
    bound = audit(fleet.tree.etcd, first)
    assert (bound.pending, bound.doubled, bound.overcommitted) == (set(), [], [])
    assert len(bound.bound) == pods.count
    return verdict


def judge_unharmed(fleet: FleetHandle, first: int, revision: int, pods: Pods) -> None:
    """Where only servers were away: every slot was replaced once, and every instance left when it was drained."""
    verdict = judge(fleet, first, revision, [], pods)
    assert verdict.made(first) == {slot: [revision] for slot in range(REPLICAS)}
    asked = verdict.asked(first)
    assert sorted(slot for slot, _ in asked) == list(range(REPLICAS))
    assert {how for life, how in verdict.ended if life in asked} == {"drained"}


@pytest.mark.parametrize("seed", [1])
def test_instances_and_the_agent_are_killed_and_temporal_does_not_answer(fleet: FleetHandle, seed: int) -> None:
    rng, tree, pods = random.Random(seed), fleet.tree, Pods(fleet.tree.etcd)
    first, revision, struck = tree.etcd.revision(), fleet.revisions + 1, []

    fleet.restart()
    for slots in (1, 3):
        wait_until(begun(fleet, revision, slots), SECONDS, f"{slots} slots have begun")
        pods.come()
        time.sleep(rng.uniform(0, 2))
        struck.append(strike(fleet, rng))
    tree.kill("agent")
    pods.come()
    stop_for_a_while(tree.ready["pids"]["temporal"])
    pods.come()

    wait_until(pods.all_bound, RECOVERY, "all pods are bound")
    fleet.complete(SECONDS)
    judge(fleet, first, revision, struck, pods)


@pytest.mark.parametrize("seed", [2])
def test_etcd_does_not_answer_and_then_dies(fleet: FleetHandle, seed: int) -> None:
    """Its leases are over when it answers again: all are unseen at once, and none is replaced for that."""
    rng, tree, pods = random.Random(seed), fleet.tree, Pods(fleet.tree.etcd)
    first, revision = tree.etcd.revision(), fleet.revisions + 1

    fleet.restart()
    wait_until(begun(fleet, revision, 1), SECONDS, "it has begun")
    pods.come()
    time.sleep(rng.uniform(0, 3))
    stop_for_a_while(tree.ready["pids"]["etcd"])
    pods.come()
    wait_until(pods.all_bound, RECOVERY, "all pods are bound")
    wait_until(begun(fleet, revision, 3), SECONDS, "it goes on")
    time.sleep(rng.uniform(0, 3))
    tree.kill("etcd")
    pods.come()

    wait_until(pods.all_bound, RECOVERY, "all pods are bound")
    fleet.complete(SECONDS)
    judge_unharmed(fleet, first, revision, pods)


@pytest.mark.parametrize("seed", [3])
def test_temporal_is_killed_and_then_etcd(fleet: FleetHandle, seed: int) -> None:
    """Both come back with all that they had said; what was under way then is neither lost nor done again."""
    rng, tree, pods = random.Random(seed), fleet.tree, Pods(fleet.tree.etcd)
    first, revision = tree.etcd.revision(), fleet.revisions + 1

    fleet.restart()
    for slots, server in ((1, "temporal"), (3, "etcd")):
        wait_until(begun(fleet, revision, slots), SECONDS, f"{slots} slots have begun")
        pods.come()
        time.sleep(rng.uniform(0, 3))
        tree.kill(server)
        pods.come()

    wait_until(pods.all_bound, RECOVERY, "all pods are bound")
    fleet.complete(SECONDS)
    judge_unharmed(fleet, first, revision, pods)
