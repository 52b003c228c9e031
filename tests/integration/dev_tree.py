"""A whole `wharfinger dev` as a user starts it, and what tests do to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import free_port
from tests.integration.gateway import NODES, PODS, TENANTS, Gateway, new_age
from tests.patience import patient


def wait_until(condition: Callable[[], object], seconds: float, what: str, every: float = 0.1) -> float:
    """Poll until the condition holds; answers how long it took, fails after `seconds` of this machine's share."""
    start = time.monotonic()
    limit = patient(seconds)
    while time.monotonic() - start < limit:
        if condition():
            return time.monotonic() - start
        time.sleep(every)
    raise AssertionError(f"not within {limit:.0f} s: {what}")


LEASE_TTL = 4
"""Seconds, for trees and workers of tests: the dead are missed sooner than the usual 10 s."""


class DevTree:
    """`wharfinger dev` on a folder."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        env: dict[str, str] | None = None,
        *,
        usual_ports: bool = False,
        cohorts: str = "off",
    ) -> None:
        """`usual_ports`: prefer those of the documentation, as without options; else any, so that trees can
        start beside each other. A folder that was in use keeps its ports. `cohorts`: of all workers on this tree;
        most tests look at single attempts, however many pods they put."""
        self.folder = folder
        self.ready_file = folder / "ready.json"
        self._command = [
            sys.executable, "-m", "wharfinger", "dev", "--data-dir", str(folder / "data"),
            "--workers", str(workers), "--ready-file", str(self.ready_file), "--lease-ttl", str(LEASE_TTL),
        ]  # fmt: skip
        self._usual_ports = usual_ports
        self._env = {**os.environ, "WHARFINGER_COHORTS": cohorts, **(env or {})}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start and wait for the ready file."""
        self.ready_file.unlink(missing_ok=True)
        if not (self._usual_ports or (self.folder / "data").exists()):
            for name in ("etcd", "temporal", "ui", "health"):
                options = (f"--{name}-port", str(free_port()), *options)
        with (self.folder / "dev.log").open("ab") as log:
            self.process = subprocess.Popen([*self._command, *options], stdout=log, stderr=log, env=self._env)
        wait_until(self._up, 120, f"ready file; see {self.folder}/dev.log")

    def _up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "dev.log").read_text()[-2000:]
        return self.ready_file.exists()

    def stop(self) -> int:
        """SIGTERM, and the exit code; fails when it takes more than 20 s of this machine's share."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patient(20))

    def end(self) -> None:
        """After a test that failed: SIGKILL if it still runs, and all of it dies with it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def ready(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ready_file.read_text())
        return found

    @property
    def etcd(self) -> Gateway:
        return Gateway(self.ready["etcd"])

    def kill(self, what: str, index: int = 0) -> None:
        """SIGKILL one process and wait until its successor is in the ready file."""
        pids = self.ready["pids"]
        victim = pids["workers"][index] if what == "workers" else pids[what]
        os.kill(victim, signal.SIGKILL)

        def replaced() -> bool:
            now = self.ready["pids"]
            return bool((now["workers"][index] if what == "workers" else now[what]) != victim)

        wait_until(replaced, 120, f"{what} replaced")

    def clear(self) -> None:
        """Take all pods, nodes and tenants away."""
        etcd = self.etcd
        new_age()
        for key in [*etcd.values(PODS), *etcd.values(NODES), *etcd.values(TENANTS)]:
            etcd.delete(key)

    @property
    def environment(self) -> dict[str, str]:
        """The variables under which console commands find this tree."""
        return {**self._env, "WHARFINGER_ETCD": self.ready["etcd"], "WHARFINGER_TEMPORAL": self.ready["temporal"]}

    def cli(
        self,
        *arguments: str,
        check: bool = True,
        stdin: str = "",
        env: dict[str, str] | None = None,
        seconds: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run the console command against this tree, for at most `seconds`."""
        done = subprocess.run(
            [sys.executable, "-m", "wharfinger", *arguments],
            input=stdin, capture_output=True, text=True, timeout=patient(seconds),
            env={**self.environment, **(env or {})}, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done
