"""Preemption on real servers: more important pods get their room, also when a worker dies in the middle of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import ATTEMPTS, NODES, PODS, Gateway, audit, bound_pods, node, pod
from tests.integration.worker_process import total

pytestmark = pytest.mark.timeout(240)

NODE_COUNT = 8
LOW = NODE_COUNT * 4
HIGH = NODE_COUNT


def fill(tree: DevTree) -> None:
    """Nodes of four CPUs, each full of four pods of no priority."""
    etcd = tree.etcd
    for number in range(NODE_COUNT):
        etcd.put(f"{NODES}n{number}", node(f"n{number}", cpu="4"))
    for number in range(LOW):
        etcd.put(f"{PODS}low/p{number:02}", pod(f"p{number:02}", cpu="1", namespace="low"))
    wait_until(lambda: len(bound_pods(etcd, "low")) == LOW, 60, "the nodes are full")


def put_high(tree: DevTree) -> None:
    for number in range(HIGH):
        name = f"p{number:02}"
        tree.etcd.put(f"{PODS}high/{name}", pod(name, cpu="2", namespace="high", priority=1000))


def fates(etcd: Gateway, first: int) -> dict[str, list[str]]:
    """What etcd's history says of each pod of no priority that did not stay as it was."""
    found: dict[str, list[str]] = {}
    for _, key, raw in etcd.history(f"{PODS}low/", first, etcd.revision()):
        conditions = (json.loads(raw).get("status") or {}).get("conditions", ()) if raw else ()
        marked = any(one["type"] == "DisruptionTarget" for one in conditions)
        found.setdefault(key, []).append("deleted" if raw is None else "marked" if marked else "changed")
    return found


@pytest.mark.parametrize(
    "strike",
    [
        pytest.param(lambda _: None, id="nobody"),
        pytest.param(lambda tree: tree.kill("workers", 0), id="one of two workers"),
        pytest.param(lambda tree: (tree.kill("workers", 0), tree.kill("workers", 1)), id="all workers"),
        pytest.param(lambda tree: tree.kill("etcd"), id="etcd"),
    ],
)
def test_every_preemptor_is_bound_and_each_victim_left_once(
    cluster: DevTree, strike: Callable[[DevTree], object]
) -> None:
    fill(cluster)
    etcd = cluster.etcd
    first = etcd.revision() + 1
    put_high(cluster)
    wait_until(lambda: len(bound_pods(etcd, "low")) < LOW, 60, "the first victim is gone", every=0.01)

    strike(cluster)

    wait_until(lambda: len(bound_pods(cluster.etcd, "high")) == HIGH, 60, "every preemptor bound")
    etcd = cluster.etcd
    assert Counter(map(tuple, fates(etcd, first).values())) == {("marked", "deleted"): 2 * HIGH}
    verdict = audit(etcd, first)
    assert verdict.doubled == verdict.overcommitted == []
    for value in etcd.objects(f"{PODS}high/").values():
        assert "nominatedNodeName" not in value["status"]
    assert etcd.values(f"{ATTEMPTS}high/") == {}


def test_preemption_is_explained_during_and_after_it(cluster: DevTree) -> None:
    fill(cluster)
    before = total(cluster.ready["health"], "scheduler_preemption_attempts_total")
    cluster.etcd.put(f"{PODS}high/p00", pod("p00", cpu="2", namespace="high", priority=1000))
    wait_until(lambda: bound_pods(cluster.etcd, "high"), 60, "the preemptor is bound")

    story = ("The pod preempts low/p", "its nominated node.", "→ evicted ")

    def told() -> bool:
        text = cluster.cli("explain", "pod", "high/p00").stdout
        return all(words in text for words in story)

    wait_until(told, 30, "all of it is told")  # visibility is a little late
    left = json.loads(cluster.cli("explain", "pod", "high/p00", "-o", "json").stdout)
    named = {victim for attempt in left["attempts"] for victim in attempt["victims"]}
    there = {f"low/{name}" for name in bound_pods(cluster.etcd, "low")}
    victims = sorted(named - there)  # an attempt whose decision was too old by then evicted nobody
    assert victims
    for victim in victims:
        said = cluster.cli("explain", "pod", victim).stdout
        assert "is deleted" in said
        assert "Preempted by high/p00, attempt " in said
    missing = cluster.cli("describe", "pod", victims[0], check=False)
    assert f"`wharfinger explain pod {victims[0]}` tells whether it was preempted" in missing.stderr
    assert total(cluster.ready["health"], "scheduler_preemption_attempts_total") > before


def test_graceful_victims_are_left_to_their_kubelet_across_a_worker_crash(
    servers: DevTree, start_worker: StartWorker
) -> None:
    """Steps: the victim is marked as terminating; the worker is killed; another one binds when the victim is gone."""
    etcd = servers.etcd
    first = start_worker()
    etcd.put(f"{NODES}n0", node("n0", cpu="1"))
    etcd.put(f"{PODS}low/p", pod("p", cpu="1", namespace="low", terminationGracePeriodSeconds=120))
    wait_until(lambda: bound_pods(etcd, "low"), 30, "the node is full")
    etcd.put(f"{PODS}high/p", pod("p", cpu="1", namespace="high", priority=1000))
    wait_until(lambda: "deletionTimestamp" in etcd.get(f"{PODS}low/p")["metadata"], 30, "the victim is marked")
    first.process.kill()
    first.wait_exit(10)
    start_worker()

    victim = etcd.get(f"{PODS}low/p")
    assert victim["metadata"]["deletionGracePeriodSeconds"] == 120
    assert "DisruptionTarget" in [one["type"] for one in victim["status"]["conditions"]]
    assert etcd.get(f"{PODS}high/p")["status"]["nominatedNodeName"] == "n0"
    assert bound_pods(etcd, "high") == {}
    etcd.delete(f"{PODS}low/p")
    wait_until(lambda: bound_pods(etcd, "high") == {"p": "n0"}, 60, "the preemptor is bound")
