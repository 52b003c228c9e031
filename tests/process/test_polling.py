"""Starting and stopping what polls Temporal, with a worker that only runs until it is told to stop."""

from __future__ import annotations

import asyncio
from typing import Any

from wharfinger.process.polling import Polling


class SlowWorker:
    """Stops as soon as its activities let it."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self.finished = asyncio.Event()

    async def run(self) -> None:
        await self._stop.wait()

    async def shutdown(self) -> None:
        await self.finished.wait()
        self._stop.set()


async def test_both_of_two_stops_wait_for_running_activities() -> None:
    """Steps: withdrawn, and before the last activity has finished the process is told to drain: it must not go
    (and close the store under that activity) before it has.
    """
    worker: Any = SlowWorker()
    polling = Polling(lambda: worker, drain_timeout=5.0)
    await polling.start()
    withdraw = asyncio.create_task(polling.stop())
    await asyncio.sleep(0)
    drain = asyncio.create_task(polling.stop())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not drain.done()

    worker.finished.set()
    await asyncio.gather(withdraw, drain)
    assert not polling.running
