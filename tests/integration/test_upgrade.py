"""docs/upgrade.md on real servers: from the previous release to this one, both side by side, and back again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.forked import Forked
from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import ATTEMPTS, NODES, PODS, Verdict, audit, bound_pods, node, pod, refusals
from tests.integration.worker_process import WorkerProcess, mistakes
from tests.patience import patient
from tests.previous_release import package
from wharfinger.dev import binaries

pytestmark = pytest.mark.timeout(300)

PAGE = Path(__file__).parents[2] / "docs" / "upgrade.md"
GRANTS = "/registry/wharfinger.dev/grants/"
FLEETS = "/registry/wharfinger.dev/schedulerfleets/"
CLASSES = "/registry/priorityclasses/"

StartOld = Callable[[], WorkerProcess]


@pytest.fixture
def start_old(servers: DevTree, tmp_path: Path) -> Iterator[StartOld]:
    """Starts workers of the previous release, on duty; all are drained at the end."""
    release = package.environment()
    started: list[WorkerProcess] = []

    def start() -> WorkerProcess:
        env = {**servers.environment, **release}
        worker = WorkerProcess(tmp_path / f"old{len(started)}.log", env=env, lease_ttl=None)
        started.append(worker)
        assert not isinstance(worker.process, Forked), "a fork would be the present release"
        worker.wait_ready()
        return worker

    try:
        yield start
    finally:
        for worker in started:
            worker.end()


def put_pods(tree: DevTree, names: str, count: int, cpu: str = "100m") -> None:
    for number in range(count):
        name = f"{names}{number:02}"
        tree.etcd.put(f"{PODS}default/{name}", pod(name, cpu=cpu))


def waiting(tree: DevTree) -> int:
    return len(refusals(tree.etcd))


def bound(tree: DevTree, names: str) -> int:
    return sum(name.startswith(names) for name in bound_pods(tree.etcd))


def is_sound(verdict: Verdict) -> bool:
    return verdict.doubled == verdict.overcommitted == []


def terminate(tree: DevTree) -> None:
    """The commands of the page, as they stand there; the tree's agent, which goes on, starts its fleet's run anew."""
    temporal(tree, "terminate", "--reason", "rollback", "--yes")
    wait_until(lambda: temporal(tree, "count").strip() in ("Total: 0", "Total: 1"), 60, "no run of a pod is open")


def temporal(tree: DevTree, command: str, *options: str) -> str:
    """What a command of the page about workflows prints."""
    (line,) = [line for line in PAGE.read_text().splitlines() if f"temporal workflow {command}" in line]
    _, query, _ = line.split('"', 2)
    parts = [str(binaries.locate(binaries.TEMPORAL)), "workflow", command, "--query", query, *options]
    parts += ["--address", tree.ready["temporal"]]
    done = subprocess.run(parts, capture_output=True, text=True, timeout=patient(60), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_workers_of_both_releases_bind_each_pod_once(
    servers: DevTree, start_worker: StartWorker, start_old: StartOld
) -> None:
    first = servers.etcd.revision()
    old, new = start_old(), start_worker()
    for number in range(3):
        servers.etcd.put(f"{NODES}n{number}", node(f"n{number}", cpu="2"))

    put_pods(servers, "a", 40)
    wait_until(lambda: bound(servers, "a") == 40, 60, "all are bound")
    put_pods(servers, "large", 10, cpu="3")
    wait_until(lambda: waiting(servers) == 10, 60, "what fits nowhere waits")
    assert new.stop() == 0
    servers.etcd.put(f"{NODES}big", node("big", cpu="40"))
    wait_until(lambda: bound(servers, "large") == 10, 60, "0.1.0 binds what waited at the new release too")

    assert is_sound(audit(servers.etcd, first))
    assert mistakes(old.said) == mistakes(new.said) == []
    assert "ondeterminism" not in old.said + new.said


def test_an_upgrade_continues_what_waits(servers: DevTree, start_worker: StartWorker, start_old: StartOld) -> None:
    first = servers.etcd.revision()
    old = start_old()
    servers.etcd.put(f"{NODES}small", node("small", cpu="1"))
    put_pods(servers, "large", 10, cpu="3")
    wait_until(lambda: waiting(servers) == 10, 60, "all wait")
    records = servers.etcd.values(ATTEMPTS)
    new = start_worker()
    assert old.stop() == 0

    servers.etcd.put(f"{NODES}big", node("big", cpu="40"))

    wait_until(lambda: bound(servers, "large") == 10, 60, "all are bound")
    assert len(records) == 10
    assert is_sound(audit(servers.etcd, first))
    assert mistakes(new.said) == []
    assert "ondeterminism" not in new.said


def test_documented_rollback_places_waiting_pods(
    servers: DevTree, start_worker: StartWorker, start_old: StartOld
) -> None:
    first = servers.etcd.revision()
    new = start_worker("--cohorts", "auto")
    servers.etcd.put(f"{CLASSES}high", {"metadata": {"name": "high"}, "value": 1000})
    servers.etcd.put(f"{NODES}small", node("small", cpu="1"))
    put_pods(servers, "early", 5)
    put_pods(servers, "large", 10, cpu="3")
    servers.etcd.put(f"{PODS}default/large-high", pod("large-high", cpu="3", priorityClassName="high"))
    wait_until(lambda: bound(servers, "early") == 5 and waiting(servers) == 11, 60, "five are bound, eleven wait")
    fleet = {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": {"name": "blue"}}
    servers.cli("fleet", "apply", "-f", "-", stdin=json.dumps(fleet | {"spec": {"replicas": 1}}))
    wait_until(lambda: servers.etcd.values(f"{GRANTS}blue/"), 60, "an instance of the fleet is granted")

    servers.cli("fleet", "delete", "blue", "--wait")
    assert servers.etcd.values(f"{GRANTS}blue/") == servers.etcd.values(f"{FLEETS}blue") == {}
    assert new.stop() == 0
    terminate(servers)
    records = servers.etcd.values(ATTEMPTS).items()
    old = start_old()
    put_pods(servers, "late", 3)
    wait_until(lambda: bound(servers, "late") == 3, 60, "new pods are placed")
    # 0.1.0 does not wake a pod for a node that comes while it is being refused: all 11 have to be refused anew before
    wait_until(lambda: not records & servers.etcd.values(ATTEMPTS).items(), 60, "the others are refused once more")
    servers.etcd.put(f"{NODES}big", node("big", cpu="40"))
    wait_until(lambda: bound(servers, "large") == 11, 60, "what waited is placed")
    assert old.stop() == 0

    start_worker()
    put_pods(servers, "again", 3)
    wait_until(lambda: bound(servers, "again") == 3, 60, "and forward again")
    assert bound(servers, "early") == 5
    assert is_sound(audit(servers.etcd, first))
    assert mistakes(old.said) == []
