"""What the operating system offers a supervisor: tell lives of a pid apart, inherit orphans, end what is left.

Linux has all of it. Elsewhere (macOS) orphans and survivors of a killed supervisor are found by what was
recorded of them only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a pid: numbers are used again, the moment of the start is not."""

    pid: int
    started: str
    """In the system's own words; only compared."""

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return started(self.pid) == self.started

    def kill(self) -> None:
        """SIGKILL to it and to the session that it leads, if it is still the same process."""
        if self.alive:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def started(pid: int) -> str | None:
    """When the process began, in the system's words; None when there is no such running process."""
    if sys.platform != "linux":
        command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None
    fields = _status(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return f"{_boot_id()}:{fields[19]}"


def life(pid: int) -> Life | None:
    """The life that a pid stands for now; None when there is no such running process."""
    moment = started(pid)
    return Life(pid, moment) if moment else None


def become_subreaper() -> None:
    """Inherit what descendants leave behind, instead of init; without effect where that is not offered."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> Callable[[], None] | None:
    """For `preexec_fn`: the child gets SIGKILL when the thread that starts it ends, however that comes.

    SIGKILL, because all that we run survives it, and nothing else is sure to work on a stopped process.
    """
    if _libc is None:
        return None
    libc, parent = _libc, os.getpid()

    def bind() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it was over before we asked
            os._exit(1)

    return bind


def children(pid: int) -> list[int]:
    """Pids whose parent is `pid`, zombies included; empty where the system does not tell."""
    if sys.platform != "linux":
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _status(int(entry.name))
            if fields is not None and int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def end_orphans(*, within: float = 3.0) -> int:
    """Kill and reap every child of ours that is left; answers how many there were.

    Only for the end of a supervisor's life: nobody else may be waiting for a child then.
    """
    deadline = time.monotonic() + within
    seen: set[int] = set()
    while (left := children(os.getpid())) and time.monotonic() < deadline:
        seen.update(left)
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
    return len(seen)


def end_survivors(lives: Iterable[Life], *, within: float = 5.0) -> list[Life]:
    """Kill processes of an earlier supervisor and wait until they are gone; answers which were still there."""
    survivors = [known for known in lives if known.alive]
    for survivor in survivors:
        survivor.kill()
    deadline = time.monotonic() + within
    while any(survivor.alive for survivor in survivors) and time.monotonic() < deadline:
        time.sleep(0.01)
    return survivors


def _status(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the third (state) on; the second may hold blanks and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def _boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""
