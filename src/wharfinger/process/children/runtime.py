"""What an agent needs of a runtime of instance processes: `processes` is the real one, `fake` ships too.

An instance is known by `InstanceId`, never by a pid alone: pids are used again. A life::

    start ──► running ── ends by itself ──► Ending, reported once through `endings`
                └── terminate / kill ─────►
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol


class InstanceId(NamedTuple):
    """Which life of which slot of which fleet."""

    tenant: str
    slot: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.tenant}/{self.slot}/{self.incarnation}"


@dataclass(frozen=True, slots=True)
class Command:
    """What to run for an instance. Secrets are in files that only `arguments` name."""

    executable: Path
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """All of it: nothing is inherited."""
    memory: int = 0
    """Bytes; 0 = no limit."""
    cpu: int = 0
    """Thousandths of a core; 0 = no limit."""


@dataclass(frozen=True, slots=True)
class Process:
    """A running instance."""

    id: InstanceId
    pid: int
    log: Path
    adopted: bool = False
    """Not started by this runtime: an earlier one did."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an instance ended. Of an adopted one the exit code is not known: the lock was free."""

    id: InstanceId
    how: Literal["code", "signal", "unknown"]
    number: int = 0
    lived: float = 0.0
    """Seconds."""
    last_words: str = ""
    """The last line of its log, at most 300 characters."""
    host_restarted: bool = False
    """Whether it ended with an earlier start of the host."""


class Runtime(Protocol):
    """Starts and ends instance processes on this host."""

    def folder(self, instance: InstanceId) -> Path:
        """Where the instance's files lie (configuration, secrets); made when it is missing."""

    def lock(self, instance: InstanceId) -> Path:
        """The file that the instance keeps locked for life."""

    async def start(self, instance: InstanceId, command: Command) -> Process:
        """Start it, or answer the running one.

        Raises `ServerError` when the executable cannot be run, or that life is over already. When the caller is
        cancelled it is started nevertheless.
        """

    def lived(self, instance: InstanceId) -> bool:
        """Whether a process of that life was ever started here, running or not; until `forget`."""

    async def forget(self, instance: InstanceId) -> None:
        """Remove what an ended instance left (lock, secrets, configuration); nothing while it runs."""

    def running(self) -> Sequence[Process]:
        """All that run, adopted ones included."""

    def find(self, instance: InstanceId) -> Process | None:
        """The running process of that life."""

    def remains(self) -> Sequence[InstanceId]:
        """Those that have ended and are not forgotten."""

    async def adopt(self) -> Sequence[Ending]:
        """At the start: find what an earlier runtime left. Locked = alive = adopted; free = ended, answered."""

    async def terminate(self, instance: InstanceId) -> None:
        """SIGTERM; nothing when it does not run."""

    async def kill(self, instance: InstanceId) -> None:
        """SIGKILL to the process and its session, through its pidfd; nothing when it does not run."""

    async def wait(self, instance: InstanceId, timeout: float) -> bool:
        """Whether it has ended within `timeout` seconds."""

    def endings(self) -> AsyncIterator[Ending]:
        """Every end, once, as it happens; one reader."""
