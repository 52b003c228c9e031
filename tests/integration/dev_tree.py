"""A whole `wharfinger dev` as a user starts it, and what tests do to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import forked
from tests.conftest import free_port
from tests.forked import COMMAND, Forked, may_fork
from tests.integration.gateway import NODES, PODS, TENANTS, Gateway, new_age
from tests.patience import patient


def wait_until(condition: Callable[[], object], seconds: float, what: str, every: float = 0.1) -> float:
    """Poll until the condition holds; answers how long it took, fails after `seconds` of this machine's share.

    The last look is one that began when the time was over: this process may have stood still before it.
    """
    start = time.monotonic()
    limit = patient(seconds)
    over = False
    while not over:
        over = time.monotonic() - start >= limit
        if condition():
            return time.monotonic() - start
        time.sleep(every)
    raise AssertionError(f"not within {limit:.0f} s: {what}")


HOSTS = "/registry/wharfinger.dev/hosts/"
LEASE_TTL = 4
"""Seconds, for trees and workers of tests: the dead are missed sooner than the usual 10 s."""
USUAL_TTL = 10
"""Seconds, for trees that must keep all their processes: one that stands still for a while keeps its lease. Longer
ones have their price, too: after every gap in its sight an actor waits so long, and ten seconds, until it acts."""


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
        lease_ttl: float = LEASE_TTL,
        own_interpreter: bool = False,
        guarded: bool = False,
    ) -> None:
        """`usual_ports`: prefer those of the documentation, as without options; else any, so that trees can
        start beside each other. A folder that was in use keeps its ports. `cohorts`: of all workers on this tree;
        most tests look at single attempts, however many pods they put. `own_interpreter`: the tree, and all that it
        starts, are no forks. `guarded`: etcd has users, as without options; else other clients may do as they like."""
        self.folder = folder
        self.ready_file = folder / "ready.json"
        self._arguments = (
            "dev", "--data-dir", str(folder / "data"),
            *([] if guarded else ["--etcd-open"]),
            "--workers", str(workers), "--ready-file", str(self.ready_file), "--lease-ttl", str(lease_ttl),
        )  # fmt: skip
        self.lease_ttl = lease_ttl
        self._guarded = guarded
        self._usual_ports = usual_ports
        # Instances get no other variable of ours; with this one they do not read the machine's certificates, either.
        passed = {"WHARFINGER_ALLOW_ENV": "SSL_CERT_FILE", "WHARFINGER_PAGE": "false"}
        self._env = {**passed, **os.environ, "WHARFINGER_COHORTS": cohorts, **(env or {})}
        self._own_interpreter = own_interpreter or not may_fork(self._env)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start and wait for the ready file."""
        self.ready_file.unlink(missing_ok=True)
        if not (self._usual_ports or (self.folder / "data").exists()):
            for name in ("etcd", "temporal", "ui", "health"):
                options = (f"--{name}-port", str(free_port()), *options)
        words, log = (*self._arguments, *options), self.folder / "dev.log"
        if self._own_interpreter:
            with log.open("ab") as output:
                self.process = subprocess.Popen([*COMMAND, *words], stdout=output, stderr=output, env=self._env)
        else:
            self.process = Forked(words, self._env, log, log)
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
    def hosts(self) -> set[str]:
        """Names that have an agent."""
        return {key.removeprefix(HOSTS) for key in self.etcd.values(HOSTS)}

    @contextmanager
    def agent(self, host: str, *options: str, etcd: str = "") -> Iterator[None]:
        """One more agent is there during the block, and takes its instances along. `etcd`: by which way it asks."""
        line = (
            *("agent", f"--host={host}", "--no-control"),
            f"--data-dir={self.folder / host}",
            f"--health-port={free_port()}",
            f"--lease-ttl={self.lease_ttl}",
            "--stop-instances=5",
            *options,
        )
        log = self.folder / f"{host}.log"
        process = Forked(line, {**self.environment, **({"WHARFINGER_ETCD": etcd} if etcd else {})}, log, log)
        try:
            wait_until(lambda: host in self.hosts, 60, f"the agent of {host} is there")
            yield
            process.terminate()
            assert process.wait(patient(30)) == 0
        finally:
            process.kill()
            process.wait()

    @property
    def ready(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ready_file.read_text())
        return found

    @property
    def etcd(self) -> Gateway:
        return Gateway(self.ready["etcd"], passwords=self._passwords("etcd"))

    @property
    def members(self) -> dict[str, Gateway]:
        """The etcd of each member cluster."""
        found = self.ready["members"].items()
        return {name: Gateway(url, passwords=self._passwords(f"members/{name}")) for name, url in found}

    def _passwords(self, etcd: str) -> Path | None:
        return self.folder / "data" / f"{etcd}.users" if self._guarded else None

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
        folder: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the console command against this tree, for at most `seconds`. `folder`: where, if not here."""
        environment = {**self.environment, **(env or {})}
        done = forked.run(*arguments, env=environment, stdin=stdin, timeout=patient(seconds), folder=folder)
        assert not check or done.returncode == 0, done.stderr
        return done


@contextmanager
def running_tree(
    folder: Path, workers: int, *, cohorts: str = "off", lease_ttl: float = LEASE_TTL
) -> Iterator[DevTree]:
    """A tree that is up during the block, then stops as it should, and leaves no instance.

    Where something fails, be it the start, nothing of it is left running either.
    """
    tree = DevTree(folder, workers, cohorts=cohorts, lease_ttl=lease_ttl)
    try:
        tree.start()
        yield tree
        assert tree.stop() == 0
        assert instances_of(folder) == {}
    finally:
        tree.end()
        end_all(folder)


def processes_of(folder: Path) -> dict[int, str]:
    """Every process that was started with a path below the folder: pid -> its arguments. The dead do not count."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it has just ended, or belongs to another user
            continue
        if f"{folder}/" in arguments:
            found[int(entry.name)] = arguments
    return found


def instances_of(folder: Path) -> dict[int, str]:
    """Those of them that are instances of a fleet: pid -> `tenant/slot/incarnation`."""
    found = {}
    for pid, arguments in processes_of(folder).items():
        named = [word for word in arguments.split() if word.startswith("--instance=")]
        if named:
            found[pid] = named[0].removeprefix("--instance=")
    return found


def end_all(folder: Path) -> dict[int, str]:
    """SIGKILL every process of the folder; which ones there were."""
    left = processes_of(folder)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left
