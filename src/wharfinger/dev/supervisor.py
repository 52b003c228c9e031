"""Keeps processes running: started in order, started again when they die, stopped in reverse.

Each child has a session of its own (Ctrl-C reaches only the supervisor) and dies with the supervisor. A
child's life::

    start ── ready ──► running ── dies ──► said, back-off ──► started again ── ready ──► reported
      └── dies or is late: ServerError with the end of its log
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from wharfinger.dev import processes
from wharfinger.errors import ServerError

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run, and how to know that it is up."""

    name: str
    command: Callable[[], list[str]]
    """Asked before every start."""
    environment: Mapping[str, str]
    log: Path
    is_up: Callable[[], Awaitable[bool]]
    """Asked several times a second until it says True."""
    stop_within: float
    """Seconds from SIGTERM to SIGKILL."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """How long to wait before a dead child is started again."""

    first: float = 0.2
    """Seconds; then doubled for every death in a row."""
    longest: float = 5.0
    """Seconds."""
    steady_after: float = 10.0
    """Seconds of life after which a death counts as the first again."""

    def delay(self, deaths: int) -> float:
        """Seconds before the next start, after `deaths` (from 1) in a row."""
        return min(self.longest, self.first * 2.0 ** min(deaths - 1, 16))


@dataclass(slots=True)
class Child:
    """A process that is kept running."""

    spec: ChildSpec
    process: asyncio.subprocess.Process | None = None
    up: bool = False
    """Whether the process that runs now has been seen up."""
    stopping: bool = False
    keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs now, or ran last; 0 before the first."""
        return self.process.pid if self.process is not None else 0


@dataclass(slots=True)
class Supervisor:
    """The children, in the order in which they were started.

    `changed` is called whenever a process was started, and when a replacement is up.
    """

    say: Say
    changed: Callable[[], None] = lambda: None
    back_off: BackOff = field(default_factory=BackOff)
    poll: float = 0.05
    """Seconds between two looks at whether a child is up."""
    steady: float = 0.2
    """Seconds that an up child must go on living: another process may answer on its port while it fails to listen."""
    children: list[Child] = field(default_factory=list)

    async def start(self, spec: ChildSpec, *, within: float, tries: int = 1) -> Child:
        """Start a child and wait until it is up; from then on it is kept running.

        It may end `tries` - 1 times before (its command can choose another port each time). Raises
        `ServerError` when it ends once more, or is not up within `within` seconds.
        """
        child = Child(spec)
        self.children.append(child)
        try:
            async with asyncio.timeout(within):
                await self._start(child, tries)
        except TimeoutError:
            raise ServerError(f"{spec.name} is not up after {within:.0f} s; {_end_of(spec.log)}") from None
        self.changed()
        child.keeper = asyncio.create_task(self._keep(child), name=f"keep {spec.name}")
        return child

    async def stop(self, children: list[Child]) -> None:
        """Stop some children at the same time: SIGTERM, then SIGKILL to those that take too long."""
        for child in children:
            child.stopping = True
        await asyncio.gather(*(self._stop(child) for child in children))

    def kill(self) -> None:
        """SIGKILL to everything at once; `stop` then ends quickly."""
        for child in self.children:
            child.stopping = True
            _signal_group(child, signal.SIGKILL)

    async def _start(self, child: Child, tries: int) -> None:
        for number in range(1, tries + 1):
            process = await self._spawn(child)
            if await self._await_up(child, process):
                return
            ended = f"{child.spec.name} ended at once ({_how(process.returncode)}); {_end_of(child.spec.log)}"
            if child.stopping:  # another process did not come up, so the whole tree is being stopped
                break
            if number < tries:
                self.say(f"{ended}. Trying again")
                await asyncio.sleep(self.back_off.delay(number))
                if child.stopping:
                    break
        raise ServerError(ended)

    async def _keep(self, child: Child) -> None:
        deaths = 0
        while child.process is not None:
            began = time.monotonic()
            process = child.process
            code = await process.wait()
            child.up = False
            _signal_group(child, signal.SIGKILL)  # what the process left behind in its session
            if child.stopping:
                return
            deaths = 1 if time.monotonic() - began >= self.back_off.steady_after else deaths + 1
            self.say(f"{child.spec.name} ({process.pid}) died: {_how(code)}")
            await asyncio.sleep(self.back_off.delay(deaths))
            if child.stopping:
                return
            await self._replace(child)

    async def _replace(self, child: Child) -> None:
        """Start the next process of a child and, while it lives, tell when it is up."""
        try:
            process = await self._spawn(child)
        except OSError as error:
            self.say(f"{child.spec.name} cannot be started again: {error}")
            return
        self.say(f"{child.spec.name} started again as {process.pid}")
        if await self._await_up(child, process):
            self.changed()

    async def _spawn(self, child: Child) -> asyncio.subprocess.Process:
        spec = child.spec
        with spec.log.open("ab") as log:
            child.process = await asyncio.create_subprocess_exec(
                *spec.command(),
                env=dict(spec.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=processes.supervised(),
            )
        self.changed()
        return child.process

    async def _await_up(self, child: Child, process: asyncio.subprocess.Process) -> bool:
        """Whether the process came up before it ended."""
        while process.returncode is None:
            if await child.spec.is_up():
                await asyncio.sleep(self.steady)
                child.up = process.returncode is None
                return child.up
            await asyncio.sleep(self.poll)
        return False

    async def _stop(self, child: Child) -> None:
        process = child.process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(child.spec.stop_within):
                    await process.wait()
            except TimeoutError:
                self.say(f"{child.spec.name} does not stop: killed")
        _signal_group(child, signal.SIGKILL)
        if process is not None:
            await process.wait()
        if child.keeper is not None:
            child.keeper.cancel()
            await asyncio.gather(child.keeper, return_exceptions=True)


def _signal_group(child: Child, number: signal.Signals) -> None:
    if child.pid:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)


def _how(code: int | None) -> str:
    if code is None:
        return "no exit code"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _end_of(log: Path) -> str:
    with suppress(OSError):
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        if lines:
            return f"its last line: {lines[-1][:300]} (all of it: {log})"
    return f"it printed nothing ({log})"


def clean_environment(**more: str) -> dict[str, str]:
    """Our environment without what would turn a child to another server than ours, and with `more`."""
    ours = ("WHARFINGER_", "TEMPORAL_", "ETCD_", "ETCDCTL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # A profile in the user's home could point the SDK elsewhere, or ask for TLS.
    return {**kept, "TEMPORAL_CONFIG_FILE": os.devnull, **more}


def python_command(*arguments: str) -> list[str]:
    """A command line of this program, in this interpreter."""
    return [sys.executable, "-m", "wharfinger", *arguments]
