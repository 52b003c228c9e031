"""Being told to stop: signals, and work that is given up when they come."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


def stop_on_signals(*, second: int | None = None) -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets; the second ends the process at once.

    `second`: the exit code then; None = 128 + the signal's number.
    """
    stop = asyncio.Event()

    def told(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number if second is None else second)
        log.info(
            "signal_received effect=draining signal=%s action=send_again_to_leave_at_once", signal.Signals(number).name
        )
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told, number)
    return stop


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The work's result; None when told to stop before, and the work is cancelled."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return None
    finally:
        stopped.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
