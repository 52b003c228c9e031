"""Answers that are asked for once for all callers, and kept for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedAnswers(Generic[K, T]):
    """Answers by key, each until its time is over; the one that was used least lately goes first."""

    def __init__(
        self, clock: Callable[[], float], *, most: int, at_once: int, most_waiting: int, full: Callable[[], Exception]
    ) -> None:
        """`clock`: monotonic seconds; `most`: answers that are kept; `at_once`: questions that are asked at a time;
        `most_waiting`: those that are asked or wait for it; `full`: the error for one more.
        """
        self.most = most
        self.most_waiting = most_waiting
        self._clock = clock
        self._full = full
        self._kept: OrderedDict[K, tuple[T, float]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[T]] = {}
        self._free = asyncio.Semaphore(at_once)

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: K, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """The answer for the key: the kept one, else what `ask` returns, which is kept for so many seconds.

        What `ask` raises, every caller that waits for it gets; it is not kept.
        """
        found = self._kept.get(key)
        if found is not None and self._clock() < found[1]:
            self._kept.move_to_end(key)
            return found[0]
        task = self._asking.get(key)
        if task is None:
            if len(self._asking) >= self.most_waiting:
                raise self._full()
            task = self._asking[key] = asyncio.create_task(self._ask(key, ask))
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)  # the caller may go away while others wait

    async def _ask(self, key: K, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        async with self._free:
            answer, seconds = await ask()
        self._kept[key] = answer, self._clock() + seconds
        self._kept.move_to_end(key)
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)
        return answer

    def _done(self, key: K, task: asyncio.Task[T]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # every caller may be gone: then nobody else looks at it
