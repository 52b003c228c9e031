"""benchmarks/kubernetes.py from its start to its table, on real servers and few pods; and how it ends on Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver import api_server_process
from tests.patience import patient
from wharfinger.dev import binaries
from wharfinger.dev.supervisor import clean_environment

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.servers, pytest.mark.timeout(patient(240))]


@pytest.fixture(autouse=True)
def _programs() -> None:
    if api_server_process.missing() or binaries.at_hand(binaries.KUBE_SCHEDULER) is None:
        pytest.skip(
            "no kube-apiserver and kube-scheduler: `make kubernetes-servers` builds them, where Go is installed"
        )


def started(folder: Path, script: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "benchmarks" / script), *options],
        env=clean_environment(TMPDIR=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_that_name(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in command:
                yield int(entry.name)


def test_small_run_prints_every_figure_of_both_sides_and_a_table(tmp_path: Path) -> None:
    sizes = ["--nodes=10", "--turns=1", "--backlog=40", "--arrivals=20", "--seconds=1", "--lone=2"]

    process = started(tmp_path, "kubernetes.py", *sizes, "--binds=30", "--import=40")
    out, err = process.communicate(timeout=patient(220))

    assert process.returncode == 0, err
    lines = out.splitlines()
    peer, ours, binds, imported = (json.loads(line) for line in lines if line.startswith("{"))
    assert (peer.pop("side"), ours.pop("side")) == ("kube-scheduler", "wharfinger")
    workloads = ["lone.p50_ms", "arrivals.cpu_ms_per_pod", "backlog.pods_per_s", "backlog.cpu_ms_per_pod"]
    for figures in (peer, ours):
        assert all(figures[name] > 0 for name in workloads), figures
    assert ours["arrivals.cpu_ms.wharfinger-worker"] > 0
    assert ours["backlog.cpu_ms.wharfinger-worker"] >= 0  # so few pods may all be bound when the first one is seen
    assert not any(name.endswith("wharfinger-worker") for name in peer)
    assert binds["binds.per_s"] > 0
    assert 0 < imported["import.fresh_s"] < imported["import.fresh_ready_s"] + 5
    assert imported["import.restart_s"] >= imported["import.restart_ready_s"] > 0
    assert imported["import.lag_p99_ms"] >= imported["import.lag_p50_ms"] >= 0
    judged = [line.split()[0] for line in lines if line.endswith(("ok", "missed"))]
    assert judged == [
        "lone.p50_ms",
        "arrivals.p50_ms",
        "arrivals.p99_ms",
        "arrivals.cpu_ms_per_pod",
        "backlog.pods_per_s",
        "backlog.first_bind_s",
        "backlog.cpu_ms_per_pod",
        "backlog.whole_cpu_ms_per_pod",
        "binds.per_s",
        "import.fresh_s",
        "import.restart_s",
        "import.lag_p99_ms",
    ]
    assert list(tmp_path.iterdir()) == []
    assert list(processes_that_name(tmp_path)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_all_processes_of_the_benchmark(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, "kubernetes.py", "--nodes=100000")
    deadline = time.monotonic() + patient(60)
    # etcd and the API server: then it creates nodes
    while len(list(processes_that_name(tmp_path))) < 2 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)

    os.kill(process.pid, number)
    _, err = process.communicate(timeout=patient(60))

    assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted")
    assert list(processes_that_name(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_flood_is_compared_with_that_of_kube_scheduler(tmp_path: Path) -> None:
    process = started(tmp_path, "throughput.py", "--nodes=20", "--pods=60", "--peer=kube-scheduler")
    out, err = process.communicate(timeout=patient(220))

    assert process.returncode == 0, err
    ours, peer, ratio = map(json.loads, out.splitlines())
    assert ratio["of_peer"] == pytest.approx(ours["pods_per_s"] / peer["pods_per_s"], abs=0.01)
    costs = [sum(figures["cpu_ms_per_pod"].values()) for figures in (ours, peer)]
    assert ratio["cpu_of_peer"] == pytest.approx(costs[0] / costs[1], abs=0.01)
    assert set(peer["cpu_ms_per_pod"]) == {"kube-apiserver", "kube-etcd", "kube-scheduler"}
    assert list(processes_that_name(tmp_path)) == []
