"""`wharfinger worker` as a process among others: stopped, paused, misdirected, and what it tells."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import free_port
from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, audit, bound_pods, node, pod
from tests.integration.worker_process import WorkerProcess, mistakes

pytestmark = pytest.mark.timeout(400)

CHECKOUT = Path(__file__).parents[2]


MUCH = 250
"""Pods that no worker binds before it is told to stop in the middle of them."""
ROUNDS = 8
"""Tries to tell it in time: this process may stand still while the worker goes on."""


def put_work(tree: DevTree, namespace: str, count: int) -> int:
    """Nodes with room for all and, at one moment, the pods; answers the first revision."""
    etcd = tree.etcd
    first = etcd.revision() + 1
    for number in range(10):
        etcd.put(f"{NODES}n{number}", node(f"n{number}", cpu="8"))
    names = [f"p{number:03}" for number in range(count)]
    etcd.put_all({f"{PODS}{namespace}/{name}": pod(name, namespace=namespace) for name in names})
    return first


def sound(tree: DevTree, first: int, count: int) -> None:
    verdict = audit(tree.etcd, first)
    assert verdict.doubled == []
    assert verdict.overcommitted == []
    assert len(verdict.bound) == count


def test_sigterm_in_the_middle_of_work_drains_and_the_next_worker_finishes(
    servers: DevTree, start_worker: StartWorker
) -> None:
    for _ in range(ROUNDS):
        if drained(servers, start_worker) < MUCH:
            return
        servers.clear()
    raise AssertionError("no worker was told to stop before it had bound everything")


def drained(servers: DevTree, start_worker: StartWorker) -> int:
    """How many pods were bound when the first of two workers had drained; the other one binds the rest."""
    instances = "/registry/wharfinger.dev/instances/"
    wait_until(lambda: not servers.etcd.values(instances), 30, "no worker of a test before is there")
    worker = start_worker()
    first = put_work(servers, "drained", MUCH)
    wait_until(lambda: len(bound_pods(servers.etcd, "drained")) > 10, 60, "in the middle", every=0.02)

    assert worker.stop(60) == 0
    done = len(bound_pods(servers.etcd, "drained"))
    assert mistakes(worker.said) == []
    assert servers.etcd.values(instances) == {}

    other = start_worker()
    wait_until(lambda: len(bound_pods(servers.etcd, "drained")) == MUCH, 90, "the rest bound")
    sound(servers, first, MUCH)
    assert other.stop() == 0
    return done


def test_second_sigterm_ends_a_busy_worker_at_once_and_loses_nothing(
    servers: DevTree, start_worker: StartWorker
) -> None:
    """While etcd stands still no drain can end: only the second signal can end the process in time."""
    worker = start_worker()
    first = put_work(servers, "ended", MUCH)
    wait_until(lambda: len(bound_pods(servers.etcd, "ended")) > 10, 60, "in the middle", every=0.02)

    etcd = servers.ready["pids"]["etcd"]
    os.kill(etcd, signal.SIGSTOP)
    try:
        worker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "draining" in worker.said, 20, "draining", every=0.005)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait_exit(4) == 128 + signal.SIGTERM
    finally:
        os.kill(etcd, signal.SIGCONT)

    start_worker()
    wait_until(lambda: len(bound_pods(servers.etcd, "ended")) == MUCH, 120, "the rest bound")
    sound(servers, first, MUCH)


def test_worker_paused_beyond_its_lease_does_no_harm_and_comes_back(
    servers: DevTree, start_worker: StartWorker
) -> None:
    """While it sleeps the other one fills the nodes it knows as empty."""
    paused, other = start_worker(), start_worker()
    etcd = servers.etcd
    first = etcd.revision() + 1
    for number in range(4):
        etcd.put(f"{NODES}n{number}", node(f"n{number}", cpu="1"))
    for number in range(30):
        etcd.put(f"{PODS}paused/a{number:02}", pod(f"a{number:02}", namespace="paused", cpu="100m"))
    wait_until(lambda: bound_pods(etcd, "paused"), 60, "work has begun", every=0.01)
    paused.process.send_signal(signal.SIGSTOP)
    try:
        for number in range(30):
            etcd.put(f"{PODS}paused/b{number:02}", pod(f"b{number:02}", namespace="paused", cpu="100m"))
        wait_until(lambda: len(bound_pods(etcd, "paused")) == 40, 90, "the other one fills the nodes")
        wait_until(lambda: other.metrics()["wharfinger_members"] == 1, 60, "the lease is lost")
    finally:
        paused.process.send_signal(signal.SIGCONT)

    wait_until(lambda: other.metrics()["wharfinger_members"] == 2, 60, "it is back")
    paused.wait_ready()
    etcd.put(f"{NODES}more", node("more", cpu="2"))
    wait_until(lambda: len(bound_pods(etcd, "paused")) == 60, 90, "what waited is bound")
    sound(servers, first, 60)


def test_another_cluster_on_the_same_etcd_is_refused_in_one_clear_line(
    servers: DevTree, start_worker: StartWorker
) -> None:
    start_worker()
    for option, value in (("--cluster", "other"), ("--temporal-namespace", "elsewhere")):
        done = servers.cli("worker", "--health-port", "-1", option, value, check=False)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert done.returncode == 1, done.stderr
        assert len(errors) == 1, done.stderr
        assert value in errors[0]
        assert "Traceback" not in done.stderr


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[WorkerProcess]:
    """A worker whose etcd is not there, started through the door `worker.py`."""
    command = (sys.executable, str(CHECKOUT / "worker.py"))
    worker = WorkerProcess(tmp_path / "log", "--etcd", f"http://127.0.0.1:{free_port()}", command=command)
    try:
        yield worker
    finally:
        worker.end()


def test_worker_without_etcd_is_alive_but_not_ready_with_a_reason(lost: WorkerProcess) -> None:
    wait_until(lambda: lost.get("/livez")[0] == 200, 60, "it lives")

    status, text = lost.get("/readyz")
    assert status == 503
    assert "[-] etcd: has not answered yet" in text
    assert "[-] temporal" in text
    wait_until(lambda: "waiting_for_etcd" in lost.said, 60, "it says that it waits")
    assert "Traceback" not in lost.said
    assert lost.stop() == 0


def test_metrics_have_the_names_that_dashboards_know(servers: DevTree, start_worker: StartWorker) -> None:
    worker = start_worker(env={"WHARFINGER_BIND_ADDRESS": "127.0.0.1"})
    etcd = servers.etcd
    etcd.put(f"{NODES}n0", node("n0"))
    etcd.put(f"{PODS}measured/fits", pod("fits", namespace="measured"))
    etcd.put(f"{PODS}measured/waits", pod("waits", namespace="measured", cpu="9"))
    etcd.put(f"{PODS}measured/gated", pod("gated", namespace="measured", schedulingGates=[{"name": "example.com/g"}]))
    etcd.put(f"{PODS}measured/noise", b"noise")
    attempts = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="%s"}'
    made = {attempts % "scheduled", attempts % "unschedulable"}
    expected = {
        'scheduler_pending_pods{queue="unschedulable"}': 1,
        'scheduler_pending_pods{queue="gated"}': 1,
        'wharfinger_invalid_objects{kind="pod"}': 1,
        'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}': 1,
    }

    def seen() -> bool:
        found = worker.metrics()
        # An attempt is counted as often as it is made: again, when Temporal had to wait for its answer too long.
        return found.items() >= expected.items() and all(found.get(metric, 0) >= 1 for metric in made)

    wait_until(seen, 60, "all of them are seen")

    found = worker.metrics()
    names = {name.split("{")[0] for name in found}
    assert names >= {
        "scheduler_scheduling_attempt_duration_seconds_bucket",
        "scheduler_pod_scheduling_sli_duration_seconds_bucket",
        "scheduler_pod_scheduling_attempts_bucket",
        "scheduler_queue_incoming_pods_total",
        "scheduler_cache_size",
        "scheduler_preemption_attempts_total",
        "scheduler_preemption_victims_bucket",
        "wharfinger_contended_total",
        "wharfinger_foreign_overcommit_total",
        "wharfinger_members",
    }
    assert any(name.startswith("temporal_") for name in names)
    point = 'scheduler_framework_extension_point_duration_seconds_count{extension_point="%s",profile="%s",status="%s"}'
    for name, status in {
        "PreFilter": "Success",
        "Filter": "Success",
        "PostFilter": "Unschedulable",
        "Bind": "Success",
    }.items():
        assert found.get(point % (name, "default-scheduler", status), 0) >= 1
