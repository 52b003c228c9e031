"""How hard a server is pressed: how many calls at a time it gets from us, and how soon a failed one is tried again.

A server that is late with its answers is not helped by more questions, and one that comes back from an outage not by
all at once that has waited. `ConcurrencyLimiter` is the number of calls (additive increase, multiplicative decrease),
`Slots` lets so many through, `delays` are the pauses between tries (exponential, with jitter).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

SHRUNK = 0.7
"""Of the window, after an answer that took long."""


class ConcurrencyLimiter:
    """How many calls may be under way: between `least` and `most`.

    As TCP does: each quick answer makes it one wider up to where it was last too wide, and beyond that a window of
    quick answers does. A slow answer narrows it by a third, a failure to the least; once for all calls that were under
    way at that moment.
    """

    def __init__(self, most: int, *, least: int, slow: float) -> None:
        """`slow`: seconds beyond which an answer is late."""
        self._most = most
        self._least = min(least, most)
        self._slow = slow
        self._size = float(self._least)
        self._safe = float(most)
        """Up to here it grows quickly."""
        self._narrowed_at = float("-inf")

    @property
    def size(self) -> int:
        """How many calls may be under way."""
        return int(self._size)

    def answered(self, began: float, now: float, *, used: int) -> None:
        """A call that began then was answered now (clock seconds); `used`: how many were under way, it included."""
        if now - began > self._slow:
            if self._narrow(began, now):
                self._size = self._safe = max(self._least, self._size * SHRUNK)
        elif used * 2 >= self._size:  # what is not used says nothing of what would be too much
            self._size = min(self._most, self._size + (1 if self._size < self._safe else 1 / self._size))

    def failed(self, began: float, now: float) -> None:
        """The server did not answer, or said that it cannot."""
        if self._narrow(began, now):
            self._safe = max(self._least, self._size / 2)
            self._size = self._least

    def _narrow(self, began: float, now: float) -> bool:
        """Whether this call began after the last time, so that it says something new."""
        if began < self._narrowed_at:
            return False
        self._narrowed_at = now
        return True


@dataclass(slots=True)
class Call:
    """One call that is under way."""

    began: float
    blameless: bool = False
    """Whether the server is not to blame if it fails: it did answer."""


class Slots:
    """Lets as many calls through as its window says, first come, first served. Lives on one event loop."""

    def __init__(self, window: ConcurrencyLimiter, clock: Callable[[], float]) -> None:
        self._window = window
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.used = 0
        """Calls under way."""

    @property
    def size(self) -> int:
        """How many calls may be under way now."""
        return self._window.size

    @contextlib.asynccontextmanager
    async def slot(self, within: float | None = None) -> AsyncIterator[Call]:
        """Wait for a slot, for the length of one call. Raises `TimeoutError` when there is none within the seconds.

        A call that raises has failed, unless it is marked `blameless`; one that is cancelled says nothing.
        """
        if self.used >= self._window.size or self._waiting:
            await self._wait(within)
        else:
            self.used += 1
        call = Call(self._clock())
        try:
            yield call
        except asyncio.CancelledError:
            raise
        except Exception:  # counted, whatever it is
            self._end(call, failed=not call.blameless)
            raise
        else:
            self._end(call, failed=False)
        finally:
            self.used -= 1
            self._let_in()

    def _end(self, call: Call, *, failed: bool) -> None:
        if failed:
            self._window.failed(call.began, self._clock())
        else:
            self._window.answered(call.began, self._clock(), used=self.used)

    async def _wait(self, within: float | None) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(within):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # it was let in at the very moment it gave up
                self.used -= 1
            elif turn in self._waiting:  # not passed over since it was cancelled
                self._waiting.remove(turn)
            self._let_in()
            raise

    def _let_in(self) -> None:
        while self._waiting and self.used < self._window.size:
            turn = self._waiting.popleft()
            if not turn.done():
                self.used += 1
                turn.set_result(None)


def delays(initial: float, maximum: float, rng: random.Random) -> Iterator[float]:
    """Endless delays in seconds: doubling from `initial` to `maximum`, each times 0.5 to 1."""
    delay = initial
    while True:
        yield delay * (0.5 + rng.random() / 2)
        delay = min(delay * 2, maximum)
