"""Pods that fit nowhere: they say why, cost nothing, wait through a restart, and are bound when they fit."""

from __future__ import annotations

import asyncio
import time

import pytest
from temporalio.client import Client

from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, Gateway, audit, bound_pods, condition, node, pod
from tests.integration.histories import length
from tests.integration.worker_process import cpu_seconds, scrape, total
from tests.patience import PROCESSES, patient

pytestmark = pytest.mark.timeout(240)

ATTEMPTS_MADE = "scheduler_schedule_attempts_total"
WHY = "0/5 nodes are available: 5 Insufficient cpu."
PODS_WAITING = 120
MEASURED = 5.0
"""Seconds over which processor time is measured."""
WINDOWS = 6
"""Measurements, at most, until one finds the workers at rest: the last of what they did before takes its time."""
REST = 0.05 if PROCESSES == 1 else 0.25
"""Share of a core; the same work takes more processor time beside other test processes."""


def at_rest(pids: list[int], every_second: list[tuple[str, dict[str, object]]], etcd: Gateway) -> list[float]:
    """What each process uses, while these objects are rewritten once a second: the first time that it is little."""
    for _ in range(WINDOWS):
        shares = share_of_a_core(pids, MEASURED, every_second, etcd)
        if max(shares) < REST:
            break
    return shares


def share_of_a_core(
    pids: list[int], seconds: float, every_second: list[tuple[str, dict[str, object]]], etcd: Gateway
) -> list[float]:
    """Processor time of each process over wall-clock time."""
    before, began = [cpu_seconds(pid) for pid in pids], time.monotonic()
    while time.monotonic() - began < seconds:
        for key, value in every_second:
            etcd.put(key, value)
        time.sleep(1.0)
    wall = time.monotonic() - began
    return [(cpu_seconds(pid) - used) / wall for pid, used in zip(pids, before, strict=True)]


def applied(tree: DevTree, revision: int) -> bool:
    return all(scrape(url)["wharfinger_watch_revision"] >= revision for url in tree.ready["health"])


async def longest_history(tree: DevTree, query: str, runs: int) -> int:
    """Events of the longest of some runs that a query finds."""
    client = await Client.connect(tree.ready["temporal"], namespace=tree.ready["namespace"])
    async with asyncio.timeout(patient(30)):
        while len(found := [run async for run in client.list_workflows(query, limit=runs)]) < runs:
            await asyncio.sleep(0.1)  # visibility is a little late
    handles = [client.get_workflow_handle(run.id, run_id=run.run_id) for run in found]
    return max([length((await handle.fetch_history()).events) for handle in handles])


async def test_120_pods_wait_without_cost_and_are_bound_when_nodes_come(cluster: DevTree) -> None:
    etcd = cluster.etcd
    nodes = {f"{NODES}small{number}": node(f"small{number}", cpu="1") for number in range(5)}
    for key, value in nodes.items():
        etcd.put(key, value)
    for number in range(PODS_WAITING):
        etcd.put(f"{PODS}waits/big{number:03}", pod(f"big{number:03}", cpu="3", namespace="waits"))

    def all_refused() -> bool:
        values = etcd.objects(f"{PODS}waits/").values()
        return sum(condition(value).get("message", "").startswith(WHY) for value in values) == PODS_WAITING

    wait_until(all_refused, 60, "every pod refused, with kube-scheduler's words")
    told = cluster.cli("explain", "pod", "waits/big000").stdout
    assert WHY in told
    assert "NodeResourcesFit" in told

    # Nothing happens: nothing is done.
    pids, health = cluster.ready["pids"]["workers"], cluster.ready["health"]
    wait_until(lambda: total(health, "scheduler_pending_pods", 'queue="unschedulable"') == PODS_WAITING, 10, "all wait")
    made, woken = total(health, ATTEMPTS_MADE), total(health, "wharfinger_wakes_total")
    idle = at_rest(pids, [], etcd)
    assert max(idle) < REST, idle

    # A node that fits no pod, and heartbeats of nodes, wake no pod.
    revision = etcd.put(f"{NODES}tiny", node("tiny", cpu="2"))
    wait_until(lambda: applied(cluster, revision), 10, "the new node seen")
    for value in nodes.values():
        value["status"]["conditions"].append({"type": "Beat", "status": "True"})
    beating = at_rest(pids, list(nodes.items()), etcd)
    assert max(beating) < REST, beating
    assert total(health, ATTEMPTS_MADE) == made
    assert total(health, "wharfinger_wakes_total") == woken
    print("idle", idle, "beating", beating)

    waiting = etcd.values(f"{PODS}waits/")
    assert await longest_history(cluster, "ExecutionStatus = 'Running' AND WharfingerPod STARTS_WITH 'waits/'", 3) <= 24
    cluster.kill("workers", 0)
    cluster.kill("workers", 1)
    health = cluster.ready["health"]
    wait_until(
        lambda: total(health, "scheduler_pending_pods", 'queue="unschedulable"') == PODS_WAITING, 60, "taken over"
    )
    assert etcd.values(f"{PODS}waits/") == waiting
    assert total(health, ATTEMPTS_MADE) == 0

    first = etcd.revision() + 1
    for number in range(30):
        etcd.put(f"{NODES}large{number:02}", node(f"large{number:02}", cpu="12"))
    took = wait_until(lambda: len(bound_pods(etcd, "waits")) == PODS_WAITING, 30, "all waiting pods bound")
    print("bound after", took)
    verdict = audit(etcd, first)
    assert verdict.overcommitted == []
    assert verdict.doubled == []
    assert await longest_history(cluster, "WharfingerOutcome = 'bound' AND WharfingerPod STARTS_WITH 'waits/'", 3) <= 14
