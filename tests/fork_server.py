"""The process that `wharfinger` commands of tests are forks of: it has imported the package once, and has no threads.

::

    pytest ──exec──► fork server            imports the package, then waits for requests on a socket
       │ request: arguments, environment, folder, descriptors
       └─────────────► server ──clone(CLONE_PARENT)──► command     a child of pytest, beside the server
                                                          └──fork──► fork server of its own, for what it starts

A command is a child of the process that sent the request, and not of the server. Its pid, its exit code, its signals
and its end with its parent are therefore those of a process that was started by `fork` and `exec`. /proc shows its own
command line and its own environment. Neighbour: `tests.forked` sends the requests.
"""

from __future__ import annotations

import ctypes
import gc
import io
import os
import pickle
import platform
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ARGUMENTS_ROOM, ENVIRONMENT_ROOM = 8_192, 65_536
"""Bytes that a command line and an environment may have. /proc shows the memory in which Linux placed those of the
server, so the server is started with as many bytes."""
PADDING = "TESTS_FORK_SERVER_PADDING"
"""Variable that fills the room of environments."""
MAY_START = frozenset({"agent", "demo", "dev"})
"""Commands that start others; each one gets a fork server of its own."""

_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine()) if sys.platform == "linux" else None
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x00008000, 0x00200000, 0x01000000
_PR_SET_PDEATHSIG = 1
_THREAD_BYTES = 2_048
"""The C library's record of a thread has the thread's number within so many bytes."""


def supported() -> bool:
    """Whether a process can be made a child of another one than its maker, on this system."""
    return _CLONE is not None


@dataclass(frozen=True)
class Request:
    """One command to start. Its descriptors come beside it, in the order of `targets`."""

    arguments: tuple[str, ...]
    """All of the command line, the interpreter included."""
    environment: tuple[tuple[bytes, bytes], ...]
    folder: str | None
    targets: tuple[int, ...]
    """Numbers that the descriptors have in the command; 0, 1 and 2 come first."""
    new_session: bool
    group: int
    """Process group as `setpgid` takes it; -1 = the parent's."""
    prepare: Callable[[int], None] | None
    """Called in the command, with the pid of its parent."""
    parent: int

    @property
    def fits(self) -> bool:
        """Whether /proc can show it all."""
        return len(_shown(self.arguments)) < ARGUMENTS_ROOM and len(self._variables) < ENVIRONMENT_ROOM

    @property
    def _variables(self) -> bytes:
        return b"".join(name + b"=" + value + b"\0" for name, value in self.environment)

    def show(self) -> None:
        """Make /proc show the command line and the environment."""
        _ROOM.fill(_shown(self.arguments), self._variables)


def end_with(parent: int) -> None:
    """Do what the result of `dev.processes.die_with_parent` does. It cannot be sent to the server itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def supervised_by(parent: int) -> None:
    """Do what the result of `dev.processes.supervised` does."""
    from wharfinger.dev.processes import work_in_batch

    work_in_batch()
    end_with(parent)


def _shown(arguments: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(argument) + b"\0" for argument in arguments)


class _Room:
    """The memory whose contents /proc shows as this process's command line and environment."""

    def __init__(self) -> None:
        text = Path("/proc/self/stat").read_text()
        self._bounds = [int(field) for field in text[text.rindex(")") + 2 :].split()[45:49]]

    def fill(self, arguments: bytes, environment: bytes) -> None:
        """Show these; what is left of the room is zero, its last byte included, or /proc would read on behind it."""
        for text, start, end in ((arguments, *self._bounds[:2]), (environment, *self._bounds[2:])):
            assert len(text) < end - start
            ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def main(listening: int) -> NoReturn:
    """The server's program. `listening`: descriptor of the socket on which requests come.

    `sys.path` begins with the folder of the start, and the one that has the tests.
    """
    global _ROOM, _THREAD_NUMBER  # noqa: PLW0603 - of the whole process, and of its forks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ROOM = _Room()
    _THREAD_NUMBER = _thread_number()
    os.environ.pop(PADDING, None)
    import tests.forked_imports  # noqa: F401

    del sys.path[1]

    if (threads := len(os.listdir("/proc/self/task"))) != 1:
        sys.exit(f"the fork server has {threads} threads: a fork of it might find locks taken")
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=listening))


_ROOM: _Room
_THREAD_NUMBER: int
"""Address at which the C library keeps the number of the main thread, by which it sends signals to itself."""


def _thread_number() -> int:
    libc = ctypes.PyDLL(None)
    libc.pthread_self.restype = ctypes.c_void_p
    first: int = libc.pthread_self()
    number = threading.get_native_id()
    places = range(first, first + _THREAD_BYTES, 4)
    return next(at for at in places if ctypes.c_int.from_address(at).value == number)


def _serve(requests: socket.socket) -> NoReturn:
    """Fork for each request, until the other end is closed."""
    while True:
        header, descriptors, _, _ = socket.recv_fds(requests, 8, 64)
        if not header:
            os._exit(0)
        body = requests.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL)
        pid = _clone()
        if pid == 0:
            requests.close()
            _become(pickle.loads(body), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        requests.sendall(pid.to_bytes(8, "big"))


def _clone() -> int:
    """Fork, as `os.fork` does, but make the new process a child of our parent.

    The C library cannot do that. It need not take part: the server has no other threads, so no lock of it is held.
    """
    libc = ctypes.PyDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID | signal.SIGCHLD
    last = (0, _THREAD_NUMBER) if platform.machine() == "aarch64" else (_THREAD_NUMBER, 0)
    assert _CLONE is not None
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = libc.syscall(*(ctypes.c_long(number) for number in (_CLONE, flags, 0, 0, *last)))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        sys.exit(f"no fork: {os.strerror(ctypes.get_errno())}")
    return pid


def _become(request: Request, descriptors: Sequence[int]) -> NoReturn:
    """In the new process: be the command, and leave with its exit code."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _place(descriptors, request.targets)
        if request.new_session:
            os.setsid()
        elif request.group >= 0:
            os.setpgid(0, request.group)
        if request.prepare is not None:
            request.prepare(request.parent)
        if request.folder is not None:
            os.chdir(request.folder)
        os.environ.clear()
        os.environb.update(request.environment)
        request.show()
        time.tzset()
        sys.path[0] = os.getcwd()
        sys.argv = list(request.arguments[2:])
        _open_streams()
        words = request.arguments[3:]
        if words[:1] and words[0] in MAY_START:
            _start_beside()
        from wharfinger.cli.main import main as command

        command(words)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def _place(descriptors: Sequence[int], targets: Sequence[int]) -> None:
    """Give the descriptors their numbers; first all others, so that none is in another one's place."""
    import fcntl

    above = max([*targets, *descriptors]) + 1
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, target in zip(moved, targets, strict=True):
        os.dup2(descriptor, target)
        os.close(descriptor)


def _open_streams() -> None:
    """The standard streams, as an interpreter that starts opens them."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        lines = number == 2 or os.isatty(number)
        raw = open(number, "wb", closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=lines)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _start_beside() -> None:
    """A fork server for what this command starts, before the command has threads. It ends when the command does."""
    from tests import forked

    ours, its = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _ROOM.fill(b"fork server\0", b"")
        devnull = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(devnull, number)
        os.closerange(3, its.fileno())
        os.closerange(its.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        _serve(its)
    its.close()
    forked.start_all_by(forked.Server(ours))
