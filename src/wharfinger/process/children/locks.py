"""The file by which an instance is known to live: locked = alive, free = dead, and who it is stands in it.

Both sides use this module. An agent takes the lock before it forks and hands the locked descriptor down, so there
is no moment at which a process lives without it; the instance calls `hold` before anything else, which finds the
descriptor it was born with, or takes the lock itself::

    agent     take ── fork ── sign(pid) ── close          the child keeps the lock
    instance  hold ── sign(own pid) ── for life

Only the holder of its lock removes a file, and a process that locks one checks that it still has its name.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import ServerError
from wharfinger.process.children.lives import ProcessLife, life

MODE = 0o600
LOOKS = 25
"""Tries of an instance to lock its file, 20 ms apart."""


@dataclass(slots=True)
class Lock:
    """A locked file; the lock goes when every process that has the descriptor has closed it or ended."""

    path: Path
    descriptor: int

    def sign(self, holder: ProcessLife) -> None:
        """Write who lives."""
        content = json.dumps({"pid": holder.pid, "started": holder.started}).encode() + b"\n"
        os.pwrite(self.descriptor, content, 0)
        os.ftruncate(self.descriptor, len(content))

    def remove(self) -> None:
        """Remove the file and give up the lock: it is not needed any more."""
        with suppress(FileNotFoundError):
            self.path.unlink()
        self.close()

    def close(self) -> None:
        """Close our descriptor; a child that has it keeps the lock. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def hold(path: Path) -> Lock:
    """Lock the file for the rest of this process's life, and sign it. Raises `ServerError` when another has it.

    Called by an instance before anything else; keep the answer. Processes started later do not inherit the lock.
    """
    inherited = _inherited(path)
    lock = _patiently(path) if inherited is None else Lock(path, inherited)
    os.set_inheritable(lock.descriptor, False)
    fcntl.flock(lock.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ours already
    own = life(os.getpid())
    if own is not None:
        with suppress(OSError):  # a full disk: the process that started us signed for us, and the lock is enough
            lock.sign(own)
    return lock


def _patiently(path: Path) -> Lock:
    for _ in range(LOOKS):  # a process that looks whether it is locked holds it for a moment
        lock = take(path)
        if lock is not None:
            return lock
        time.sleep(0.02)
    raise ServerError(f"{path} is locked: another process is this instance")


def take(path: Path) -> Lock | None:
    """Make the file where it is missing and lock it; None when another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is(path, descriptor):
            return Lock(path, descriptor)
        os.close(descriptor)  # it was removed while we opened it


def locked(path: Path) -> bool:
    """Whether a process has it: whether that instance lives. Leaves no file behind where there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def signer(path: Path) -> ProcessLife | None:
    """The process in the file; None when there is none (its process died before it could write), or it is damaged."""
    try:
        content = json.loads(path.read_bytes())
        return ProcessLife(int(content["pid"]), str(content["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def holder(path: Path) -> ProcessLife | None:
    """The living process that has the lock: the signer, or, before it has signed, the one that the system names."""
    signed = signer(path)
    if signed is not None and signed.alive:
        return signed
    for entry in _pids():
        if entry != os.getpid() and _has_locked(entry, path):
            return life(entry)
    return None


def _inherited(path: Path) -> int | None:
    """A descriptor of this file that we were started with."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(folder):
        if name.isdigit() and int(name) > 2 and _is(path, int(name)):
            return int(name)
    return None


def _is(path: Path, descriptor: int) -> bool:
    try:
        ours, named = os.fstat(descriptor), path.stat()
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)


def _pids() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _has_locked(pid: int, path: Path) -> bool:
    """Whether the process has it open by a descriptor with the lock: a process that only reads it is no instance."""
    try:
        named = path.stat()
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                opened = os.stat(f"/proc/{pid}/fd/{name}")
                if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino):
                    continue
                if "FLOCK" in Path(f"/proc/{pid}/fdinfo/{name}").read_text(encoding="utf-8"):
                    return True
    except OSError:
        pass
    return False
