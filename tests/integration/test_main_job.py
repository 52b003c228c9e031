"""The main job on real servers: pods put into etcd by another client are bound, exactly once, with a history."""

from __future__ import annotations

import asyncio
import random

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey

from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, Gateway, audit, bound_pods, node, pod
from tests.integration.histories import kinds, late_tasks, length
from tests.integration.worker_process import total
from tests.patience import patient
from wharfinger.process.names import SEARCH_OUTCOME

pytestmark = pytest.mark.timeout(240)

OUTCOME = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
ROUNDS = 8
"""Tries for two workers to want the same node in the same moment; one is nearly always enough."""


async def test_300_pods_are_each_bound_once_and_have_a_complete_history(cluster: DevTree) -> None:
    etcd = cluster.etcd
    first = etcd.revision() + 1
    rng = random.Random(7)
    for number in range(20):
        etcd.put(f"{NODES}n{number:02}", node(f"n{number:02}", cpu="8"))
    order = list(range(300))
    rng.shuffle(order)
    for number in order:
        name = f"p{number:03}"
        etcd.put(f"{PODS}many/{name}", pod(name, namespace="many", cpu=rng.choice(["100m", "250m", "500m"])))

    wait_until(lambda: len(bound_pods(etcd, "many")) == 300, 60, "300 pods bound")

    verdict = audit(etcd, first)
    assert verdict.doubled == []
    assert verdict.overcommitted == []
    assert len(verdict.bound) == 300

    client = await Client.connect(cluster.ready["temporal"], namespace=cluster.ready["namespace"])

    async def completed() -> int:
        query = "WharfingerPod STARTS_WITH 'many/' AND WharfingerOutcome = 'bound' AND ExecutionStatus = 'Completed'"
        return (await client.count_workflows(query)).count

    async with asyncio.timeout(patient(30)):
        while await completed() < 300:
            await asyncio.sleep(0.2)
    names = [f"p{number:03}" for number in range(0, 300, 13)]
    late = 0
    for name in names:
        found = [
            run
            async for run in client.list_workflows(
                f"WharfingerPod = 'many/{name}' AND WorkflowType = 'ScheduleAttempt'"
            )
        ]
        # A start that is repeated as the chain ends begins another run, which finds the pod bound: it is gone for it.
        done = [
            run
            for run in found
            if run.status is WorkflowExecutionStatus.COMPLETED and run.typed_search_attributes.get(OUTCOME) == "bound"
        ]
        assert len(done) == 1
        handle = client.get_workflow_handle(done[0].id, run_id=done[0].run_id)
        events = (await handle.fetch_history()).events
        text = str([str(event) for event in events])
        assert "place" in text
        assert "bind" in text
        assert length(events) <= 14, " ".join(kinds(events))
        late += late_tasks(events) > 0
    assert late < len(names)  # a machine that others keep busy lets many of 300 at once be late, but not all


def test_two_workers_fill_a_few_nodes_to_the_last_place_and_never_beyond(cluster: DevTree) -> None:
    health = cluster.ready["health"]
    moved = total(health, "wharfinger_bind_conflicts_total")
    for _ in range(ROUNDS):
        fill(cluster.etcd)
        if total(health, "wharfinger_bind_conflicts_total") > moved:
            return
        cluster.clear()
    raise AssertionError("two workers never wanted the same node at once")


def fill(etcd: Gateway) -> None:
    """More pods than places, all at once, so that both workers decide at the same time."""
    first = etcd.revision() + 1
    for number in range(3):
        etcd.put(f"{NODES}n{number}", node(f"n{number}", cpu="100", pods=40))
    etcd.put_all({f"{PODS}default/p{number:03}": pod(f"p{number:03}", cpu="10m") for number in range(140)})

    wait_until(lambda: len(bound_pods(etcd)) == 120, 60, "every place filled")

    verdict = audit(etcd, first)
    assert verdict.overcommitted == []
    assert verdict.doubled == []
    assert len(verdict.pending) == 20


def test_bad_input_is_reported_and_everything_else_goes_on(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}good", node("good"))
    etcd.put(f"{NODES}bare", {"kind": "Node", "metadata": {"name": "bare"}, "status": {}})
    etcd.put(f"{PODS}default/noise", b"\xff\xfe not json \x00")
    etcd.put(f"{PODS}default/list", "[1, 2, 3]")
    etcd.put(f"{PODS}default/null", "null")
    etcd.put(f"{PODS}default/negative", pod("negative", cpu="-1"))
    etcd.put(f"{PODS}default/unparsable", pod("unparsable", memory="lots"))
    etcd.put(f"{PODS}default/other-name", pod("differs"))
    etcd.put(PODS.encode() + b"default/\xff\xfe", b"{}")
    etcd.put(f"{PODS}default/fine", pod("fine"))

    wait_until(lambda: bound_pods(cluster.etcd) == {"fine": "good"}, 15, "the good pod bound")
    listed = cluster.cli("get", "pods", "-A", "--invalid", "-o", "json").stdout
    for name in ("noise", "list", "null", "negative", "unparsable", "other-name"):
        assert f"{PODS}default/{name}" in listed
    assert f"{NODES}bare" in cluster.cli("get", "nodes", "--invalid", "-o", "json").stdout


def test_a_pod_of_1_4_megabytes_is_bound_or_refused_with_a_reason(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}good", node("good"))
    huge = pod("huge")
    huge["metadata"]["annotations"] = {"filler": "x" * 1_400_000}
    etcd.put(f"{PODS}default/huge", huge)

    def settled() -> bool:
        value = etcd.get(f"{PODS}default/huge")
        record = etcd.get("/registry/wharfinger.dev/attempts/default/huge")
        return bool(value["spec"].get("nodeName") or record)

    wait_until(settled, 30, "the huge pod bound or refused")


def test_a_deleted_pod_and_its_successor_are_two_lives(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{PODS}default/again", pod("again", cpu="2"))
    attempts = "/registry/wharfinger.dev/attempts/default/again"
    wait_until(lambda: etcd.get(attempts), 20, "refused: there is no node")
    etcd.delete(f"{PODS}default/again")
    second = pod("again", cpu="1")
    second["metadata"]["uid"] = "another-life"
    etcd.put(f"{PODS}default/again", second)
    etcd.put(f"{NODES}n0", node("n0"))

    wait_until(lambda: bound_pods(cluster.etcd) == {"again": "n0"}, 30, "the second life bound")
    assert etcd.get(f"{PODS}default/again")["metadata"]["uid"] == "another-life"
