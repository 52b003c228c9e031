"""What the operating system offers a supervisor: inherit orphans, end what is left. Lives of pids:
`process.children.lives`.

Linux has all of it. Elsewhere (macOS) orphans and survivors of a killed supervisor are found by what was
recorded of them only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from wharfinger.process.children.lives import ProcessLife, started, stat_fields

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def become_subreaper() -> None:
    """Inherit what descendants leave behind, instead of init; without effect where that is not offered."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def work_in_batch() -> None:
    """Ask the system not to interrupt the running process for each message that arrives for us, or for our children.

    The processes of a tree work for each other: a message that is read a moment later costs nothing, and each change
    costs the caches of both. On two cores it is a fifth more attempts a second, and a lone one is not later.
    Without effect where that is not offered (only Linux has it) or not allowed.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def supervised() -> Callable[[], None]:
    """For `preexec_fn`: a child of a tree, which works in batch and ends with us."""
    bind = die_with_parent()

    def prepare() -> None:
        work_in_batch()
        if bind is not None:
            bind()

    return prepare


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
    """Pids whose parent is `pid`, zombies included; empty where the system has none."""
    if sys.platform != "linux":
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = stat_fields(int(entry.name))
            if fields is not None and int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def end_orphans(*, within: float = 3.0) -> int:
    """Kill and reap every child of ours that is left; answers how many there were.

    Only for the end of a supervisor's life: no other code may be waiting for a child then.
    """
    deadline = time.monotonic() + within
    seen: set[int] = set()
    while (left := children(os.getpid())) and time.monotonic() < deadline:
        seen.update(pid for pid in left if started(pid) is not None)
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
    return len(seen)


def reap(known: Iterable[int]) -> None:
    """Take leave of ended processes that were inherited; of `known` children their supervisor does it."""
    for pid in set(children(os.getpid())) - set(known):
        if started(pid) is None:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_survivors(lives: Iterable[ProcessLife], *, within: float = 5.0) -> list[ProcessLife]:
    """Kill processes of an earlier supervisor and wait until they are gone; answers which were still there."""
    survivors = [known for known in lives if known.alive]
    for survivor in survivors:
        survivor.kill()
    deadline = time.monotonic() + within
    while any(survivor.alive for survivor in survivors) and time.monotonic() < deadline:
        time.sleep(0.01)
    return survivors
