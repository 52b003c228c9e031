"""A file descriptor for a process, and signals through it: Linux's pidfd.

Python leaves these calls out where it was built for older systems, as the portable builds are that `uv` and others
install. Then libc makes the same two system calls. Neighbours: `lives` and `ending_with` use them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from functools import cache

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
