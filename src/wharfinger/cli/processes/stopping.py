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
        self.asked = False
        """Whether the process is asked to stop."""

    def __enter__(self) -> Stopping:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def ask() -> None:
            if not self.asked:
                self.asked = True
                task.cancel()
            elif self.tree is not None:
                self.tree.kill()

        for number in SIGNALS:
            loop.add_signal_handler(number, ask)
        return self

    def __exit__(self, *error: object) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
