"""Signals to, and the end of, one life of a pid: no other process is ever hit, also when the pid is used again.

On Linux a pidfd stands for the process itself. Elsewhere the life is compared before each signal, and the end is
looked for.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from contextlib import suppress

from wharfinger.runtime.lives import ProcessLife, life

LOOK_EVERY = 0.2
"""Seconds between two looks at a process where the system has no pidfd."""
_TO_GROUP = 4
"""PIDFD_SIGNAL_PROCESS_GROUP; Linux has it since 6.9."""


class Handle:
    """A process that was found by its life; `close` it at the end."""

    def __init__(self, life: ProcessLife, descriptor: int) -> None:
        self.life = life
        self._descriptor = descriptor
        """A pidfd; -1 where there is none."""

    @classmethod
    def open(cls, known: ProcessLife) -> Handle | None:
        """A handle of a process that runs; None when it is gone."""
        descriptor = -1
        if hasattr(os, "pidfd_open"):
            try:
                descriptor = os.pidfd_open(known.pid)
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
        return cls(known, os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process; nothing when it has ended."""
        with suppress(ProcessLookupError):
            if self._descriptor >= 0:
                signal.pidfd_send_signal(self._descriptor, number)
            elif self.life.alive:
                os.kill(self.life.pid, number)

    def kill_session(self) -> None:
        """SIGKILL to the process and to what it started in its session, whether or not it has ended itself."""
        try:
            if self._descriptor >= 0:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL, None, _TO_GROUP)
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
