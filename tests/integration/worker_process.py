"""One `wharfinger worker` process, and what its health endpoints say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.conftest import free_port
from tests.forked import COMMAND, Forked, may_fork
from tests.integration.dev_tree import LEASE_TTL, wait_until
from tests.integration.histories import DEADLOCK
from tests.patience import patient

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? ([^ ]+)$")
WORKER = (*COMMAND, "worker")
ANSWER = patient(30)
"""Seconds for an endpoint to answer: a worker that stands still for a while is late, and not gone."""


class WorkerProcess:
    """Started at once; `wait_ready` waits until it is on duty."""

    def __init__(
        self,
        log: Path,
        *options: str,
        env: Mapping[str, str] | None = None,
        command: tuple[str, ...] | None = None,
        lease_ttl: float | None = LEASE_TTL,
        folder: Path | None = None,
    ) -> None:
        """`command`: the start of another command line, with an interpreter of its own. `lease_ttl`: None = a release
        that cannot be told. `folder`: where it starts, if not here."""
        self.log = log
        port = free_port()
        self.health = f"http://127.0.0.1:{port}"
        lease = () if lease_ttl is None else ("--lease-ttl", str(lease_ttl))
        line = ("--health-port", str(port), *lease, *options)
        environment = {**os.environ, **(env or {})}
        self.process: subprocess.Popen[bytes]
        if command is None and may_fork(environment):
            self.process = Forked(("worker", *line), environment, log, log, folder=folder)
        else:
            words = [*(command or WORKER), *line]
            with log.open("wb") as out:
                self.process = subprocess.Popen(words, stdout=out, stderr=out, env=environment, cwd=folder)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of an endpoint; status 0 while no server answers."""
        try:
            with urllib.request.urlopen(self.health + path, timeout=ANSWER) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def checks(self) -> dict[str, str]:
        status, text = self.get("/readyz?format=json")
        found: dict[str, str] = json.loads(text)["checks"] if status else {}
        return found

    def wait_ready(self, seconds: float = 60) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.said[-2000:]
            return self.get("/readyz")[0] == 200

        wait_until(ready, seconds, f"worker ready; {self.checks()}; {self.log}", every=0.05)

    def metrics(self) -> dict[str, float]:
        return scrape(self.health)

    def wait_exit(self, seconds: float) -> int:
        """The exit code; fails when it takes longer on this machine's share."""
        return self.process.wait(patient(seconds))

    def stop(self, seconds: float = 20) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait_exit(seconds)

    def end(self) -> None:
        """Make sure that it is gone."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


def scrape(health_url: str) -> dict[str, float]:
    """`/metrics`: `name{labels}` to value."""
    with urllib.request.urlopen(health_url + "/metrics", timeout=ANSWER) as answer:
        text = answer.read().decode()
    found = {}
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match:
            name, labels, value = match.groups()
            found[f"{name}{{{labels}}}" if labels else name] = float(value)
    return found


def total(health_urls: Iterable[str], name: str, label: str = "") -> float:
    """Sum of a metric's samples over workers, of those with this `label="value"` when it is given."""
    return sum(
        value
        for url in health_urls
        for sample, value in scrape(url).items()
        if sample.split("{")[0] == name and label in sample
    )


def mistakes(log: str) -> list[str]:
    """The tracebacks in a worker's log, but for the SDK's own of a process that stood still."""
    found = [part.strip()[:1000] for part in log.split("Traceback (most recent call last):")[1:]]
    return [each for each in found if DEADLOCK not in each]


def cpu_seconds(pid: int) -> float:
    """User and system time a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
