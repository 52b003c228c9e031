"""A process that ends when another one does, however that comes: an instance with a supervisor that is not its parent.

A parent's death can be asked for as a signal; an instance's parent is its agent, which it outlives on purpose. So it
watches the supervisor by a pidfd, on a thread of its own that no hanging event loop delays.
"""

from __future__ import annotations

import os
import select
import signal
import threading

from wharfinger.process.children import pidfd


def end_with(pid: int) -> None:
    """SIGKILL to this process as soon as process `pid` has ended, or at once when there is none.

    SIGKILL, because all that we run survives it. Where the system has no pidfd (macOS) nothing is watched: the next
    start of the supervisor ends survivors by their locks.
    """
    try:
        descriptor = pidfd.open_pidfd(pid)
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
