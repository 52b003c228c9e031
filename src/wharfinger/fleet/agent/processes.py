"""Instances as processes of this host: each has a session, a folder and a lock of its own, and survives its agent.

::

    <data>/instances/<tenant>/<slot>/<incarnation>.lock   locked = alive; pid and moment of start stand in it
                                     <incarnation>.log    what it says, bounded
                                     <incarnation>/       its configuration, secrets and limits

A runtime that starts an instance takes its lock first and leaves it to the child, so a runtime that dies at any moment
leaves either nothing or a process that the next one adopts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wharfinger.errors import ServerError
from wharfinger.process.children import lives, locks
from wharfinger.process.children.limits import Bounds, ProcessLimits
from wharfinger.process.children.lives import Handle
from wharfinger.process.children.runtime import Command, Ending, InstanceId, Process

log = logging.getLogger(__name__)

LOOK_AFTER_LOGS = 10.0
"""Seconds between two looks at how long the logs are."""
LOGS_KEPT = 5
"""Logs of ended incarnations that are kept of each slot."""
LOG_LIMIT = 16 * 1024 * 1024
"""Bytes of a log before it is set aside; two such pieces are kept a process."""
SET_ASIDE = ".log.1"
"""Suffix of the piece before the last."""
WORDS_LIMIT = 300
"""Characters of last words."""
_TAIL = 8 * 1024
"""Bytes at the end of a log in which last words are sought."""


@dataclass(slots=True)
class _Running:
    process: Process
    handle: Handle
    child: subprocess.Popen[bytes] | None
    """None: adopted."""
    began: float
    gone: asyncio.Event
    watcher: asyncio.Task[None] | None = None


class Processes:
    """The `Runtime` of real processes."""

    def __init__(self, data: Path, limits: ProcessLimits, *, wall: Callable[[], float] = time.time) -> None:
        """`data`: the agent's data folder; `wall` is compared with times of files."""
        self._root = data / "instances"
        self._limits = limits
        self._wall = wall
        self._running: dict[InstanceId, _Running] = {}
        self._starting: dict[InstanceId, asyncio.Task[Process]] = {}
        self._endings: asyncio.Queue[Ending] = asyncio.Queue()

    def folder(self, instance: InstanceId) -> Path:
        """Where the instance's files lie; other users may not read it."""
        folder = self._root / instance.tenant / str(instance.slot) / str(instance.incarnation)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def lock(self, instance: InstanceId) -> Path:
        """The file that the instance has locked for life."""
        return self._beside(instance, ".lock")

    def log(self, instance: InstanceId) -> Path:
        """What the instance says."""
        return self._beside(instance, ".log")

    def running(self) -> Sequence[Process]:
        """All that run, adopted ones included."""
        return [known.process for known in self._running.values()]

    def find(self, instance: InstanceId) -> Process | None:
        """The running process of that life."""
        known = self._running.get(instance)
        return known.process if known is not None else None

    def lived(self, instance: InstanceId) -> bool:
        """Whether a process of that life was ever started here."""
        return instance in self._running or locks.signer(self.lock(instance)) is not None

    async def start(self, instance: InstanceId, command: Command) -> Process:
        """Start it, or answer the running one."""
        if (known := self._running.get(instance)) is not None:
            return known.process
        task = self._starting.get(instance)
        if task is None:
            task = self._starting[instance] = asyncio.create_task(self._start(instance, command))
            task.add_done_callback(lambda _: self._starting.pop(instance, None))
        # The start goes on when its caller is cancelled, else a process could run that this runtime does not know.
        return await asyncio.shield(task)

    def remains(self) -> Sequence[InstanceId]:
        """Those that have ended, or for which files were written and nothing started, and are not forgotten."""
        left = {*self._root.glob("*/*/*.lock"), *(path for path in self._root.glob("*/*/*") if path.is_dir())}
        known = {instance for path in left if (instance := _instance(path)) is not None}
        return sorted(known - self._running.keys() - self._starting.keys())

    async def adopt(self) -> Sequence[Ending]:
        """Find what an earlier runtime left: the living are adopted, the others' ends answered."""
        ended = []
        for path in sorted(self._root.glob("*/*/*.lock")):
            instance = _instance(path)
            if instance is None or instance in self._running:
                continue
            if locks.locked(path) and (self._adopt(instance, path) is not None or locks.locked(path)):
                continue
            if (signed := locks.signer(path)) is not None:
                here = signed.started.startswith(lives.boot_id())
                words = last_words(self.log(instance)) if here else "the host was started anew"
                lived = self._lived(instance)
                ended.append(Ending(instance, "unknown", 0, lived, words, host_restarted=not here))
            elif (empty := locks.take(path)) is not None:
                empty.remove()  # no process was started with it, or it ended before it signed
        return ended

    async def terminate(self, instance: InstanceId) -> None:
        """SIGTERM; nothing when it does not run."""
        if (known := self._running.get(instance)) is not None:
            known.handle.signal(signal.SIGTERM)

    async def kill(self, instance: InstanceId) -> None:
        """SIGKILL to the process and its session; nothing when it does not run."""
        if (known := self._running.get(instance)) is not None:
            known.handle.kill_session()

    async def wait(self, instance: InstanceId, timeout: float) -> bool:
        """Whether it has ended within `timeout` seconds."""
        known = self._running.get(instance)
        if known is None:
            return True
        try:
            async with asyncio.timeout(timeout):
                await known.gone.wait()
        except TimeoutError:
            return False
        return True

    async def endings(self) -> AsyncIterator[Ending]:
        """Every end, once, as it happens; one reader."""
        while True:
            yield await self._endings.get()

    async def forget(self, instance: InstanceId) -> None:
        """Remove what an ended instance left, but for the last logs of its slot."""
        if instance in self._running or instance in self._starting:
            return
        path = self.lock(instance)
        lock = locks.take(path) if path.exists() else None
        if lock is None and path.exists():
            return  # an unknown process lives
        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
        self._limits.forget(_group(instance))
        if lock is not None:
            lock.remove()
        ended = sorted((old for old in path.parent.glob("*.log") if old.stem.isdigit()), key=lambda old: -int(old.stem))
        for old in ended[LOGS_KEPT:]:
            if not old.with_suffix(".lock").exists():
                old.unlink(missing_ok=True)
                old.with_suffix(SET_ASIDE).unlink(missing_ok=True)

    async def look_after_logs(self) -> None:
        """Keep logs from growing without end; runs until cancelled."""
        while True:
            await asyncio.sleep(LOOK_AFTER_LOGS)
            for instance in list(self._running):
                await asyncio.to_thread(bound, self.log(instance))

    async def close(self) -> None:
        """Watch no more; what runs goes on running."""
        watchers = [known.watcher for known in self._running.values() if known.watcher is not None]
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        for known in self._running.values():
            known.handle.close()
        self._running.clear()

    async def _start(self, instance: InstanceId, command: Command) -> Process:
        path = self.lock(instance)
        lock = locks.take(path)
        if lock is None:
            adopted = self._adopt(instance, path)
            if adopted is None:
                raise ServerError(f"{path} is locked by a process that cannot be found")
            return adopted
        try:
            if locks.signer(path) is not None:
                raise ServerError(f"instance {instance} has lived already")
            child = await asyncio.to_thread(self._spawn, instance, command, lock)
        except OSError as error:
            lock.remove()
            raise ServerError(f"{command.executable} cannot be run: {error.strerror or error}") from error
        finally:
            lock.close()
        process = Process(instance, child.pid, self.log(instance))
        self._watch(process, Handle.of_child(child.pid), child)
        return process

    def _spawn(self, instance: InstanceId, command: Command, lock: locks.Lock) -> subprocess.Popen[bytes]:
        folder, bounds = self.folder(instance), Bounds(command.memory, command.cpu)
        bounds.keep(folder)
        with open(self.log(instance), "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
            child = subprocess.Popen(
                [str(command.executable), *command.arguments],
                env=dict(command.environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C in the agent's terminal ends the agent alone
                pass_fds=(lock.descriptor,),  # the child holds the lock for life, also when this agent dies now
            )
        try:
            lock.sign(lives.life(child.pid) or lives.ProcessLife(child.pid, "ended at once"))
        except OSError as error:  # it lives, and is found by the lock alone
            log.warning("instance_lock_not_signed instance=%s error=%r", instance, str(error))
        self._limits.apply(_group(instance), child.pid, bounds)
        return child

    def _adopt(self, instance: InstanceId, path: Path) -> Process | None:
        life = locks.holder(path)
        handle = Handle.open(life) if life is not None else None
        if life is None or handle is None:
            log.warning("instance_lock_without_process lock=%s", path)
            return None
        process = Process(instance, life.pid, self.log(instance), adopted=True)
        self._limits.apply(_group(instance), life.pid, Bounds.kept(path.with_suffix("")))
        self._watch(process, handle, None)
        log.info("instance_adopted instance=%s pid=%d", instance, life.pid)
        return process

    def _watch(self, process: Process, handle: Handle, child: subprocess.Popen[bytes] | None) -> None:
        known = _Running(process, handle, child, self._wall(), asyncio.Event())
        self._running[process.id] = known
        known.watcher = asyncio.create_task(self._await_end(known))

    async def _await_end(self, known: _Running) -> None:
        await known.handle.ended()
        instance = known.process.id
        # What it has started must not outlive it: no lock names such processes, so no agent would end them.
        with suppress(OSError):  # its end is reported also when its remains cannot be removed
            known.handle.kill_session()
        code = await asyncio.to_thread(known.child.wait) if known.child is not None else None
        known.handle.close()
        del self._running[instance]
        how: Literal["code", "signal", "unknown"] = "unknown" if code is None else "signal" if code < 0 else "code"
        lived = self._wall() - (known.began if known.child is not None else self._signed(instance, known.began))
        words = last_words(known.process.log)
        self._endings.put_nowait(Ending(instance, how, abs(code or 0), max(0.0, lived), words))
        known.gone.set()

    def _signed(self, instance: InstanceId, otherwise: float) -> float:
        """When it began, by the clock on the wall: its lock is signed then."""
        with suppress(OSError):
            return self.lock(instance).stat().st_mtime
        return otherwise

    def _lived(self, instance: InstanceId) -> float:
        """Seconds, about, of one that ended unseen: its log was written until then, or less long."""
        with suppress(OSError):
            return max(0.0, self.log(instance).stat().st_mtime - self.lock(instance).stat().st_mtime)
        return 0.0

    def _beside(self, instance: InstanceId, suffix: str) -> Path:
        return self._root / instance.tenant / str(instance.slot) / f"{instance.incarnation}{suffix}"


def _instance(lock: Path) -> InstanceId | None:
    tenant, slot, incarnation = lock.parts[-3], lock.parts[-2], lock.stem
    if not (slot.isascii() and slot.isdigit() and incarnation.isascii() and incarnation.isdigit()):
        return None
    return InstanceId(tenant, int(slot), int(incarnation))


def _group(instance: InstanceId) -> str:
    return f"{instance.tenant}.{instance.slot}.{instance.incarnation}"


# --- logs ------------------------------------------------------------------------------------------


def bound(log: Path, limit: int = LOG_LIMIT) -> None:
    """Set a log aside that grew too long; one that cannot be set aside (a full disk) is let go.

    Its process keeps the file open for appending, so it is copied and emptied, not renamed.
    """
    with suppress(OSError):
        if log.stat().st_size > limit:
            with suppress(OSError):
                shutil.copyfile(log, log.with_suffix(SET_ASIDE))
            os.truncate(log, 0)


def last_words(log: Path) -> str:
    """The last line that says something; empty when there is none."""
    with suppress(OSError), log.open("rb") as opened:
        opened.seek(max(0, opened.seek(0, os.SEEK_END) - _TAIL))
        lines = [line for line in opened.read().decode(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()[:WORDS_LIMIT]
    return ""
