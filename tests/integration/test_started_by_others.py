"""Attempts that other programs start: the temporal command, and the typed client of this package."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, bound_pods, node, pod, refusal, uid_of
from tests.integration.worker_process import WorkerProcess
from tests.patience import patient
from wharfinger.client import Wharfinger
from wharfinger.dev import binaries
from wharfinger.settings import EtcdSettings

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def passive_worker(start_worker: StartWorker) -> WorkerProcess:
    """It runs what others start, and starts nothing."""
    return start_worker("--dispatch", "none")


def temporal(tree: DevTree, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(binaries.locate(binaries.TEMPORAL)), "workflow", *arguments, "--address", tree.ready["temporal"]]
    return subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)


def start(tree: DevTree, workflow_id: str, request: str) -> None:
    """As the README shows it."""
    done = temporal(
        tree, "start", "--type", "ScheduleAttempt", "--task-queue", "wharfinger/common",
        "--workflow-id", workflow_id, "--id-conflict-policy", "UseExisting", "--input", request,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def result(tree: DevTree, workflow_id: str) -> dict[str, object]:
    done = temporal(tree, "result", "--workflow-id", workflow_id, "-o", "json")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def id_of(tree: DevTree, pod_name: str) -> str:
    return tree.cli("workflow-id", "pod", pod_name).stdout.strip()


async def newest_run(tree: DevTree, workflow_id: str) -> str:
    client = await Client.connect(tree.ready["temporal"])
    return (await client.get_workflow_handle(workflow_id).describe()).run_id


async def test_temporal_command_starts_an_attempt_and_joins_an_open_one(
    servers: DevTree, passive_worker: WorkerProcess
) -> None:
    etcd = servers.etcd
    etcd.put(f"{PODS}default/web-1", pod("web-1"))
    etcd.put(f"{PODS}default/untouched", pod("untouched"))
    workflow_id = id_of(servers, "default/web-1")
    assert workflow_id == f"wharfinger/pod/default/web-1/{uid_of('default', 'web-1')}"

    start(servers, workflow_id, '{"namespace": "default", "name": "web-1"}')
    wait_until(lambda: refusal(etcd, "web-1"), 20, "refused: there is no node")
    refused, before = refusal(etcd, "web-1")["attempt"], await newest_run(servers, workflow_id)
    start(servers, workflow_id, '{"namespace": "default", "name": "web-1"}')
    assert await newest_run(servers, workflow_id) == before

    revision = etcd.put(f"{NODES}n0", node("n0"))
    # The signal names no event that must be seen first: an attempt that does not know of the node yet would wait on.
    wait_until(lambda: passive_worker.metrics()["wharfinger_watch_revision"] >= revision, 20, "the node is seen")
    done = temporal(servers, "signal", "--workflow-id", workflow_id, "--name", "wake")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: bound_pods(etcd), 20, "bound")
    assert bound_pods(etcd) == {"web-1": "n0"}
    told = result(servers, workflow_id)
    assert told["status"] == "COMPLETED"
    ended: dict[str, Any] = told["result"]  # type: ignore[assignment]
    assert (ended["outcome"], ended["node"]) == ("bound", "n0")
    assert ended["attempt"] > refused


async def test_pod_that_fits_is_bound_at_the_first_attempt_and_found_by_name(servers: DevTree) -> None:
    servers.etcd.put(f"{NODES}n0", node("n0"))
    servers.etcd.put(f"{PODS}default/web-2", pod("web-2"))
    workflow_id = id_of(servers, "default/web-2")

    start(servers, workflow_id, '{"namespace": "default", "name": "web-2"}')

    assert result(servers, workflow_id)["result"] == {"outcome": "bound", "node": "n0", "attempt": 1}
    client = await Client.connect(servers.ready["temporal"])
    query = "WharfingerPod = 'default/web-2' AND ExecutionStatus = 'Completed'"
    async with asyncio.timeout(patient(30)):
        while not (found := [run.id async for run in client.list_workflows(query)]):
            await asyncio.sleep(0.05)  # visibility is a little late
    assert found == [workflow_id]


@pytest.mark.parametrize(
    ("workflow_id", "request_text", "said"),
    [
        (
            "mine",
            '{"namespace": "default", "name": "web-3"}',
            "wharfinger/pod/default/web-3/uid-default-web-3-",
        ),
        ("bad-1", '{"name": "web-3"}', "the input must be a mapping with namespace and name of a pod"),
        ("bad-2", "[1, 2]", "the input must be a mapping with namespace and name of a pod"),
        (
            "bad-3",
            '{"namespace": "default", "name": 7}',
            "the input must be a mapping with namespace and name of a pod",
        ),
        ("bad-4", "null", "the input must be a mapping with namespace and name of a pod"),
    ],
    ids=["another id", "no namespace", "a list", "a number for a name", "null"],
)
def test_wrong_start_fails_for_good_with_a_one_line_reason(
    servers: DevTree, workflow_id: str, request_text: str, said: str
) -> None:
    servers.etcd.put(f"{PODS}default/web-3", pod("web-3"))

    start(servers, workflow_id, request_text)

    told = result(servers, workflow_id)
    assert told["status"] == "FAILED"
    message = str(told["closeEvent"]["workflowExecutionFailedEventAttributes"]["failure"]["message"])  # type: ignore[index]
    assert said in message
    assert "\n" not in message


def test_a_pod_that_does_not_exist_is_gone(servers: DevTree) -> None:
    workflow_id = "wharfinger/pod/default/nobody/uid-nobody"

    start(servers, workflow_id, '{"namespace": "default", "name": "nobody"}')

    assert result(servers, workflow_id)["result"] == {
        "outcome": "gone",
        "node": None,
        "attempt": 1,
        "reason": "deleted",
    }


async def test_the_typed_client_schedules_lists_and_explains(servers: DevTree, tmp_path: Path) -> None:
    servers.etcd.put(f"{NODES}n0", node("n0", cpu="2"))
    servers.etcd.put(f"{NODES}n1", node("n1", cpu="1"))
    servers.etcd.put(f"{PODS}default/web-4", pod("web-4", cpu="1500m"))
    where = EtcdSettings(endpoints=(servers.ready["etcd"],))

    async with Wharfinger.connect(etcd=where, temporal=servers.ready["temporal"]) as wharfinger:
        outcome = await wharfinger.schedule("default", "web-4", timeout=patient(30))
        attempts = await wharfinger.attempts("default", "web-4")
        explanation = await wharfinger.explain("default", "web-4")

    assert (outcome.outcome, outcome.node, outcome.attempt) == ("bound", "n0", 1)
    assert len(attempts) == 1
    assert "Insufficient cpu" in str(explanation)
