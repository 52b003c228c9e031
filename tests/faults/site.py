"""The processes of a round: etcd, Temporal, workers that reach both by ways of their own. All die with their parent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.conftest import free_port
from tests.faults.proxy import Network, Proxy
from tests.forked import Forked
from tests.patience import patient
from wharfinger.dev import binaries, etcd, processes, temporal
from wharfinger.dev.supervisor import clean_environment

LEASE_TTL = 3
"""Seconds; etcd's own least is 2."""


class Process:
    """One process that may be killed, stopped and started again. Starts only from the thread that ends last."""

    def __init__(self, name: str, command: Callable[[], list[str]], log: Path, is_up: Callable[[], bool]) -> None:
        self.name = name
        self.log = log
        self.is_up = is_up
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def start(self) -> None:
        command = self._command()
        if command[0] == "wharfinger":
            self._process = Forked(tuple(command[1:]), clean_environment(), self.log, self.log)
            return
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=clean_environment(),
                preexec_fn=processes.die_with_parent(),  # noqa: PLW1509 - one call into libc, loaded before
            )

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)

    def end(self, seconds: float) -> None:
        """Wait for the end that a SIGTERM began, and bring it about when that takes too long."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def wait_up(self, seconds: float) -> None:
        """Fails when it is not up in time, or ends."""
        deadline = time.monotonic() + patient(seconds)
        while not self.is_up():
            assert self.exit_code is None, f"{self.name} ended: {self.said[-2000:]}"
            assert time.monotonic() < deadline, f"{self.name} is not up after {seconds:.0f} s: {self.said[-2000:]}"
            time.sleep(0.1)


class WorkerSite:
    """A worker, its ways to the servers, and its health endpoints."""

    def __init__(
        self,
        index: int,
        folder: Path,
        network: Network,
        etcd_port: int,
        temporal_port: int,
        options: Sequence[str] = (),
    ) -> None:
        self.to_etcd: Proxy = network.proxy(etcd_port)
        self.to_temporal: Proxy = network.proxy(temporal_port)
        self.health = f"http://127.0.0.1:{(port := free_port())}"
        self._options = [
            "--etcd", f"http://127.0.0.1:{self.to_etcd.port}",
            "--temporal", f"127.0.0.1:{self.to_temporal.port}",
            "--lease-ttl", str(LEASE_TTL),
            "--health-port", str(port), *options,
        ]  # fmt: skip
        self.process = Process(f"worker {index}", self._command, folder / f"worker{index}.log", self.ready)

    def _command(self) -> list[str]:
        return ["wharfinger", "worker", *self._options]

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.health}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class Site:
    """Everything that runs, on a folder of its own."""

    def __init__(self, folder: Path, workers: int, options: Sequence[str] = ()) -> None:
        """`options`: of every worker."""
        self.folder = folder
        self._network = Network()
        self._etcd = etcd.EtcdServer(binaries.locate(binaries.ETCD), folder / "etcd", free_port(), fsync=False)
        self._temporal = temporal.TemporalServer(
            binaries.locate(binaries.TEMPORAL), free_port(), database=folder / "temporal.db"
        )
        self.etcd = Process("etcd", self._etcd.command, folder / "etcd.log", self._etcd.is_up)
        self.temporal = Process("temporal", self._temporal.command, folder / "temporal.log", self._temporal_is_up)
        self.workers = [
            WorkerSite(index, folder, self._network, self._etcd.port, self._temporal.port, options)
            for index in range(workers)
        ]

    @property
    def etcd_url(self) -> str:
        return self._etcd.url

    @property
    def temporal_address(self) -> str:
        return self._temporal.address

    def start_servers(self) -> None:
        for server in (self.etcd, self.temporal):
            server.start()
        self.etcd.wait_up(20)
        self.temporal.wait_up(40)

    def start_workers(self) -> None:
        for worker in self.workers:
            worker.process.start()
        for worker in self.workers:
            worker.process.wait_up(60)

    def close(self) -> None:
        for process in (*(worker.process for worker in self.workers), self.temporal, self.etcd):
            process.kill()
        self._network.close()

    def _temporal_is_up(self) -> bool:
        return asyncio.run(self._temporal.is_up())


@contextlib.contextmanager
def running(folder: Path, workers: int, *options: str) -> Iterator[Site]:
    """The processes of one round; servers are up, workers not begun."""
    site = Site(folder, workers, options)
    try:
        site.start_servers()
        yield site
    finally:
        site.close()
