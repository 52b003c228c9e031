"""The kernel of a hub's controllers: keys that are due, now or later, starts with a back-off, and a sweep.

Level-triggered: an event only says which keys to look at. A sweep looks at every key once in five minutes, a part each
second, so that no second is a long one: it finds what no event has caused, for example because a time has passed.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from wharfinger.process.parts import ProcessParts

STRETCH = 0.02
"""Seconds that a controller goes on without letting anything else run."""
AT_A_TIME = 64
"""Starts that Temporal is asked for at the same time."""
SWEEP = 300.0
"""Seconds in which every key is looked at once."""
TICK = 1.0
"""Seconds between two parts of that."""


class Started(NamedTuple):
    """A start: until when (clock seconds) its key is left alone, how long that is, and what it was about."""

    until: float
    wait: float
    about: tuple[int, ...]


class Controller(ABC):
    """Keeps what is due, and starts workflows, at most 64 side by side."""

    soon: ClassVar[float] = 1.0
    """Seconds for which a key is left alone after a start; doubled with each further one."""
    again: ClassVar[float] = 30.0
    """Seconds of that at most."""
    failing: ClassVar[str]
    """What is logged of the first start that Temporal refuses, with the key's name and the error."""
    accepted: ClassVar[str]
    """What is logged when it accepts starts again."""

    def __init__(self, process: ProcessParts, log: logging.Logger, in_sync: Callable[[], bool]) -> None:
        """`in_sync`: whether all was listed. No timer passes before."""
        self._log = log
        self._clock = process.clock
        self._metrics = process.metrics
        self._in_sync = in_sync
        self._due: dict[str, str] = {}
        """Key -> why it is looked at."""
        self._later: list[tuple[float, str]] = []
        """Keys, with the clock seconds at which they are looked at again."""
        self._timers = [self._later]
        self._started: dict[str, Started] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._places = asyncio.Semaphore(AT_A_TIME)
        self._failing = False
        """Whether Temporal refuses starts; it is logged once."""

    @abstractmethod
    async def reconcile_due(self) -> None:
        """Look at all keys that are due."""

    async def _keep_reconciling(
        self, *beside: Coroutine[Any, Any, None], every: float | None = None, rest: float = 0
    ) -> None:
        """Look at what is due, until cancelled. Raises what any of it raises first, not a group.

        `every`: seconds after which that is done without news. `rest`: seconds, at most, as long as which nothing is
        done after each time: what comes in crowds is looked at once.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for one in beside:
                    group.create_task(one)
                while True:
                    await self._wait(every)
                    began = self._clock()
                    await self.reconcile_due()
                    await asyncio.sleep(min(rest, self._clock() - began))
        except BaseExceptionGroup as errors:  # one error ends it, and the others are cancelled
            raise errors.exceptions[0] from None
        finally:
            for task in self._starting.values():
                task.cancel()

    async def _wait(self, longest: float | None = None) -> None:
        """Until something is due."""
        timers = [heap[0][0] for heap in self._timers if heap and self._in_sync()]
        seconds = max(0.0, min(timers) - self._clock()) if timers else longest
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    def _passed(self, timers: list[tuple[float, str]]) -> Iterator[str]:
        """Take the keys out whose time has come."""
        now = self._clock()
        while timers and timers[0][0] <= now:
            yield heapq.heappop(timers)[1]

    def _look_at(self, key: str, at: float) -> None:
        """Look at the key at that time (clock seconds)."""
        heapq.heappush(self._later, (at, key))
        self._news.set()

    async def _start(
        self, key: str, name: str, start: Callable[[], Awaitable[None]], about: tuple[int, ...] = ()
    ) -> bool:
        """Start a workflow; returns whether Temporal accepted that. Whatever it is, the key must not be forgotten.

        `name`: of the key, in the log.
        """
        accepted = True
        try:
            async with self._places:
                await start()
        except Exception as error:
            accepted = False
            if not self._failing:
                self._log.warning(self.failing, name, str(error))
            self._metrics.start_failures.inc()
        finally:
            self._starting.pop(key, None)
        if accepted and self._failing:
            self._log.info(self.accepted)
        self._failing = not accepted
        before = self._started.get(key)
        # A refused start waits, too: an outage of Temporal must not become a busy loop.
        wait = min(self.again, 2 * before.wait) if accepted and before is not None else self.soon
        self._started[key] = Started(self._clock() + wait, wait, about)
        return accepted


async def sweep_parts(
    references: Callable[[], Iterable[str]], *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncIterator[Sequence[str]]:
    """Yield a part of the references each second, without end.

    `references` is called at the start of each sweep; `pause` returns after so many seconds.
    """
    queue: list[str] = []
    share = 1
    while True:
        await pause(TICK)
        if not queue:
            queue = sorted(references())
            share = max(1, int(len(queue) * TICK / SWEEP))
        yield [queue.pop() for _ in range(min(share, len(queue)))]
