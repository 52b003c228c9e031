"""The processes that a benchmark starts, and what processes use: CPU seconds and memory, as the kernel counts them.

Those that it starts log to files, and end with it.

Unlike those of a dev tree (`dev.supervisor`) they are not started again when they die: a figure of a process that was
replaced would be wrong, so its death ends the benchmark.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType

from kubernetes_pods import BenchmarkFailed

from wharfinger.dev.processes import children, die_with_parent, supervised
from wharfinger.dev.ready_file import ready_file
from wharfinger.dev.supervisor import clean_environment
from wharfinger.dev.tree import DevTree

POLL = 0.02
"""Seconds between two looks at whether a process is up."""
UP_WITHIN = 90.0
"""Seconds until a process must be up, on a machine that others use too."""
STOP_WITHIN = 20.0
"""Seconds from SIGTERM to SIGKILL; a worker drains before it ends."""
QUIET_BELOW = 0.25
"""Cores that all processes of a side may use together and count as quiet: watches, leases and timers go on."""
QUIET_FOR = 1.0
"""Seconds over which that is looked at."""
QUIET_WITHIN = 60.0
"""Seconds after which a side counts as quiet whatever it does."""


@dataclass(frozen=True)
class Child:
    """One process that was started."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def cpu_seconds(self) -> float:
        """User and system time so far, with what it started. Raises `BenchmarkFailed` when it has ended."""
        if self.process.returncode is not None:
            raise BenchmarkFailed(f"{self.name} has ended with exit code {self.process.returncode}; {self.last_words}")
        return cpu_seconds_of_all(self.process.pid)

    @property
    def last_words(self) -> str:
        """The end of its log, for messages: the log itself goes with the benchmark."""
        lines = [line for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return f"its last line: {lines[-1][:300]}" if lines else "it printed nothing"

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL to what does not end."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_WITHIN):
                await self.process.wait()
        except TimeoutError:
            pass
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()


@dataclass
class Children:
    """All processes of a benchmark; those that run when it ends are stopped, the youngest first."""

    folder: Path
    """For their logs."""
    batch: bool = False
    """Whether they work in batch, as those of a dev tree do; needed where they are compared with such."""
    running: list[Child] = field(default_factory=list)

    async def __aenter__(self) -> Children:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        for child in reversed(self.running.copy()):
            await self.stop(child)

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far of each that runs. Raises `BenchmarkFailed` when one has ended."""
        return {child.name: child.cpu_seconds for child in self.running}

    async def start(
        self, name: str, command: Sequence[str], variables: Mapping[str, str] = MappingProxyType({})
    ) -> Child:
        """Start a process; it may not be up yet. `variables`: of its environment, where ours has no others."""
        path = self.folder / f"{name}.log"
        environment = {**variables, **clean_environment()}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start of a worker would compile all of it again
        with path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the benchmark alone, which stops them in order
                preexec_fn=supervised() if self.batch else die_with_parent(),
            )
        child = Child(name, process, path)
        self.running.append(child)
        return child

    async def stop(self, child: Child) -> None:
        """Stop one of them."""
        self.running.remove(child)
        await child.stop()


async def up(child: Child, is_up: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a process is up. Raises `BenchmarkFailed` when it ends before, or takes too long."""
    deadline = time.monotonic() + UP_WITHIN
    while not await is_up():
        if child.process.returncode is not None or time.monotonic() > deadline:
            raise BenchmarkFailed(f"{child.name} does not come up; {child.last_words}")
        await asyncio.sleep(POLL)


async def until(what: str, holds: Callable[[], Awaitable[object]], within: float, pause: float = 0.1) -> None:
    """Wait until it holds. Raises `BenchmarkFailed` after so many seconds, of which `pause` lie between two looks."""
    deadline = time.monotonic() + within
    while not await holds():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"waited in vain for {within:.0f} s: {what}")
        await asyncio.sleep(pause)


def answers(url: str) -> bool:
    """Whether a server on this machine answers 200 within a second, by HTTP or by TLS with any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the default one reads the machine's authorities each time
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # kube-scheduler makes its own, in memory
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=1.0) as response:
            return bool(response.status == 200)
    except (OSError, HTTPException):
        return False


async def quiet(parts: Callable[[], Mapping[str, float]]) -> dict[str, float]:
    """Wait until the parts of a side have nothing to do; their CPU seconds at the beginning of the first quiet time.

    `parts`: CPU seconds so far by part.
    """
    deadline = time.monotonic() + QUIET_WITHIN
    while True:
        began, before = time.monotonic(), dict(parts())
        await asyncio.sleep(QUIET_FOR)
        used = sum(parts().values()) - sum(before.values())
        if used < QUIET_BELOW * (time.monotonic() - began) or began > deadline:
            return before


_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of one process, its threads included and its children not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def cpu_seconds_of_all(pid: int) -> float:
    """The same of a process and all that it started, also of those that ended meanwhile."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / _TICK
    return cpu_seconds(pid) + ended + sum(map(cpu_seconds_of_all, children(pid)))


def resident_mib(pid: int) -> float:
    """Memory that one process holds now, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def of_tree(tree: DevTree, others: Mapping[str, int]) -> Mapping[str, float]:
    """CPU seconds so far by part: `worker` (all of them), `temporal`, `etcd`, and others by their process."""
    pids = ready_file(tree)["pids"]
    used = {"worker": sum(map(cpu_seconds, pids["workers"])), "etcd": cpu_seconds(pids["etcd"])}
    if pids["temporal"]:
        used["temporal"] = cpu_seconds(pids["temporal"])
    return used | {part: cpu_seconds_of_all(pid) for part, pid in others.items()}
