"""How a process runs until a signal stops it: work that is given up then, loops side by side, garbage collection."""

from __future__ import annotations

import asyncio
import gc
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


async def first_to_end(*several: Coroutine[Any, Any, None]) -> None:
    """Run them side by side; the first that ends ends all, and what it raised is raised.

    Of those that end at the same moment, the one that was named first counts.
    """
    tasks = [asyncio.create_task(one) for one in several]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in (one for one in tasks if one in done):
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


YOUNG = 50_000
"""New containers between two looks at the youngest."""
MIDDLE, OLD = 20, 50
"""Looks at the younger generation before one at the next."""


def tune_garbage_collection() -> None:
    """Run the cyclic garbage collector less often, and exclude from it what was imported.

    By default CPython runs it after every 700 new containers. A worker makes thousands for a pod, nearly all freed by
    reference counting, and keeps a whole cluster that never is garbage. These values cut the cost to a tenth, and
    workflows that left Temporal's cache are still collected.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
