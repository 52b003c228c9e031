"""Real servers for the tests: one etcd and one Temporal a session, started when first asked for."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / ".tools"


def free_port() -> int:
    """A port nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class EtcdServer:
    """A running etcd of the session."""

    url: str
    pid: int


@dataclass(frozen=True)
class TemporalServer:
    """A running Temporal dev server of the session."""

    address: str
    pid: int


def _await(ready: object, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if ready():  # type: ignore[operator]
                return
        time.sleep(0.05)
    raise TimeoutError("server did not come up")


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """A real etcd on a free port; tests share it and keep to keys of their own or clean up."""
    folder = tmp_path_factory.mktemp("etcd")
    client, peer = free_port(), free_port()
    url = f"http://127.0.0.1:{client}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                str(TOOLS / "etcd"), "--data-dir", str(folder / "data"), "--name", "test",
                "--listen-client-urls", url, "--advertise-client-urls", url,
                "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                "--initial-cluster", f"test=http://127.0.0.1:{peer}",
                "--max-txn-ops", "1024", "--watch-progress-notify-interval", "1s", "--unsafe-no-fsync",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _await(lambda: urllib.request.urlopen(f"{url}/health", timeout=1).status == 200, 20)
        yield EtcdServer(url, process.pid)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """A real Temporal dev server (in memory) on a free port, with our search attributes."""
    port = free_port()
    folder = tmp_path_factory.mktemp("temporal")
    attributes = ("WharfingerPod", "WharfingerNode", "WharfingerOutcome", "WharfingerTenant")
    dynamic = {
        "system.enableActivityEagerExecution": "true",
        "history.timerProcessorMaxTimeShift": '"50ms"',
        "matching.numTaskqueueReadPartitions": "1",
        "matching.numTaskqueueWritePartitions": "1",
        "frontend.namespaceRPS": "20000",
        "frontend.rps": "20000",
        "frontend.namespaceRPS.visibility": "1000",
    }
    command = [str(TOOLS / "temporal"), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--log-level", "error"]
    for name in attributes:
        command += ["--search-attribute", f"{name}=Keyword"]
    for key, value in dynamic.items():
        command += ["--dynamic-config-value", f"{key}={value}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)

    def up() -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True

    try:
        _await(up, 30)
        yield TemporalServer(f"127.0.0.1:{port}", process.pid)
    finally:
        process.kill()
        process.wait()
