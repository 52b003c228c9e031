"""Which process a pid stands for, and signals to it: numbers are used again, the moment of the start is not.

Linux shows it in /proc, other systems by `ps`. A pidfd, which only Linux has, stands for the process itself. Python
leaves its calls out where it was built for older systems, as the portable builds are that `uv` and others install. Then
libc makes the same two system calls.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

THERE = sys.platform == "linux"
"""Whether the system may have pidfds."""
_SEND_SIGNAL, _OPEN = 424, 434
"""System calls, with the same numbers on all architectures but MIPS and Alpha, which know none of these numbers."""


def open_pidfd(pid: int) -> int:
    """A descriptor of the process, readable once it has ended; -1 where the system has none.

    Raises `ProcessLookupError`, and `OSError` when this process may open no more files.
    """
    if not THERE:
        return -1
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else _called(_OPEN, pid, 0)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM, errno.EACCES):  # a kernel before 5.3, or a sandbox's filter
            return -1
        raise


def send_signal(descriptor: int, number: signal.Signals, flags: int = 0) -> None:
    """Send a signal to the process. Raises `ProcessLookupError` when it has ended, and `OSError`."""
    if hasattr(signal, "pidfd_send_signal"):
        signal.pidfd_send_signal(descriptor, number, None, flags)
    else:
        _called(_SEND_SIGNAL, descriptor, int(number), None, flags)


def _called(number: int, *arguments: int | None) -> int:
    """The answer of a system call. Raises the subclass of `OSError` that its errno stands for."""
    widened = [ctypes.c_long(one) if one is not None else None for one in arguments]  # else libc reads half of each
    found = int(_libc().syscall(ctypes.c_long(number), *widened))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{os.strerror(code)} ({errno.errorcode.get(code, code)})")
    return found


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


@dataclass(frozen=True, slots=True)
class ProcessLife:
    """One life of a pid."""

    pid: int
    started: str
    """In the system's own words, the boot's id included; only compared."""

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
    fields = stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return f"{boot_id()}:{fields[19]}"


def life(pid: int) -> ProcessLife | None:
    """The life that a pid stands for now; None when there is no such running process."""
    moment = started(pid)
    return ProcessLife(pid, moment) if moment else None


def stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the third (state) on; the second may hold blanks and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def boot_id() -> str:
    """Another one after each start of the machine; empty where the system has none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


LOOK_EVERY = 0.2
"""Seconds between two looks at a process where the system has no pidfd."""
_TO_GROUP = 4
"""PIDFD_SIGNAL_PROCESS_GROUP; Linux has it since 6.9."""


class Handle:
    """A process that was found by its life; `close` it at the end. No other process ever gets its signals.

    On Linux a pidfd stands for the process itself. Elsewhere the life is compared before each signal, and the end is
    looked for.
    """

    def __init__(self, life: ProcessLife, descriptor: int) -> None:
        self.life = life
        self._descriptor = descriptor
        """A pidfd; -1 where there is none."""

    @classmethod
    def open(cls, known: ProcessLife) -> Handle | None:
        """A handle of a process that runs; None when it is gone."""
        try:
            descriptor = open_pidfd(known.pid)
        except ProcessLookupError:
            return None
        if known.alive:  # looked at behind the opening: the descriptor is that process's
            return cls(known, descriptor)
        if descriptor >= 0:
            os.close(descriptor)
        return None

    @classmethod
    def of_child(cls, pid: int) -> Handle:
        """A handle of our own child before it is waited for: its number is its own, dead or alive."""
        known = life(pid) or ProcessLife(pid, "ended at once")
        return cls(known, open_pidfd(pid))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process; nothing when it has ended."""
        with suppress(ProcessLookupError):
            if self._descriptor >= 0:
                send_signal(self._descriptor, number)
            elif self.life.alive:
                os.kill(self.life.pid, number)

    def kill_session(self) -> None:
        """SIGKILL to the process and to what it started in its session, whether or not it has ended itself."""
        try:
            if self._descriptor >= 0:
                send_signal(self._descriptor, signal.SIGKILL, _TO_GROUP)
            elif self.life.alive:
                os.killpg(self.life.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self.life.kill()  # an older kernel: the group by its number, while its leader is seen alive
        self.signal(signal.SIGKILL)

    async def ended(self) -> None:
        """Return once the process has ended (a child's zombie is left to its parent)."""
        if self._descriptor < 0:
            while self.life.alive:  # noqa: ASYNC110 - no event shows it
                await asyncio.sleep(LOOK_EVERY)
            return
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(self._descriptor)

    def close(self) -> None:
        """Give the descriptor back. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def end_with(pid: int) -> None:
    """SIGKILL to this process as soon as process `pid` has ended, or at once when there is none.

    SIGKILL, because all that we run survives it. Where the system has no pidfd (macOS) nothing is watched: the next
    start of the supervisor ends survivors by their locks.
    """
    try:
        descriptor = open_pidfd(pid)
    except ProcessLookupError:
        _end()
        return
    if descriptor < 0:
        return

    def watch() -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
        _end()

    threading.Thread(target=watch, name="end-with", daemon=True).start()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
