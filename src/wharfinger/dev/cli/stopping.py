"""What Ctrl-C and SIGTERM do to a command that runs a tree of processes: first in order, then at once."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wharfinger.dev.tree import DevTree

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """A context around the work of the current task: the first signal cancels it, the second kills the tree."""

    def __init__(self) -> None:
        self.tree: DevTree | None = None
        self.signal: signal.Signals | None = None
        """By which signal the process was asked to stop first; None = it was not asked."""

    @property
    def asked(self) -> bool:
        """Whether the process is asked to stop."""
        return self.signal is not None

    @property
    def signal_name(self) -> str:
        """Of that signal; empty without one."""
        return self.signal.name if self.signal is not None else ""

    @property
    def exit_code(self) -> int:
        """Of a process that a signal ended, as shells count: 130 after Ctrl-C, 143 after SIGTERM; 0 without one."""
        return 128 + self.signal if self.signal is not None else 0

    def __enter__(self) -> Stopping:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def ask(number: signal.Signals) -> None:
            if self.signal is None:
                self.signal = number
                task.cancel()
            elif self.tree is not None:
                self.tree.kill()

        for number in SIGNALS:
            loop.add_signal_handler(number, ask, number)
        return self

    def __exit__(self, *error: object) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
