"""An event loop that shows when nothing is ready to run, and for how many seconds it has waited for timers.

Both are the same on an idle machine and on a busy one, so a test may assert on them where it must not on the clock. All
tests that are coroutines run on this loop: `tests/conftest.py` imports the hook below. `tests/virtual_time.py` is built
on it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from typing import Any

TURNS = 1000
"""Turns of the loop after which a test waits no longer for a task that is always ready to run."""


class WatchedSelector(selectors.DefaultSelector):
    """The loop calls `select` once a turn: without a time limit of zero, only when nothing is ready to run."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0
        """Seconds of the timers that ran out while nothing else happened."""
        self.idle: list[asyncio.Future[None]] = []
        """Results are set when nothing is ready to run."""
        self.turns = 0
        """Turns that are left until the results are set in any case."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Count what passes. Where a test waits for the idle loop, its wait ends instead of the loop's."""
        ready = timeout is not None and timeout <= 0
        if self.idle:
            self.turns -= 1
            if not ready or self.turns <= 0:
                for one in self.idle:
                    if not one.done():
                        one.set_result(None)
                self.idle.clear()
            return super().select(0)
        events = super().select(timeout)
        if timeout is not None and not ready and not events:
            self.waited += timeout  # not what passed: on a busy machine that is more
        return events


class WatchedLoop(asyncio.SelectorEventLoop):
    """The usual loop, on such a selector."""

    def __init__(self) -> None:
        self._watched = WatchedSelector()
        super().__init__(self._watched)

    @property
    def waited(self) -> float:
        """Seconds of timers that were waited for since the loop began."""
        return self._watched.waited

    async def until_idle(self, turns: int = TURNS) -> None:
        """Return when every task waits for a timer or for I/O; after so many turns of the loop at the latest."""
        idle: asyncio.Future[None] = self.create_future()
        self._watched.turns = turns
        self._watched.idle.append(idle)
        await idle


def watched_loop() -> WatchedLoop:
    """The loop that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, WatchedLoop), "only pytest's own loop is watched: not one of `asyncio.run`"
    return loop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, Callable[[], WatchedLoop]]:
    """Run tests that are coroutines on this loop, under the names they have without it."""
    return {"watched": WatchedLoop}
