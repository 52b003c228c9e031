"""Pods that arrive one by one, whatever the schedulers take: when each is due, and sent at that time.

A latency counts from when the pod was due, not from when it was sent, so a late sender hides no waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

AT_ONCE = 100
"""Requests of a stream on the way, which a server that is late would else meet with a connection for each pod."""
ARRIVALS = ("even", "poisson")


@dataclass(frozen=True)
class Arrival:
    """One pod."""

    name: str
    body: bytes
    due: float | None = None
    """Seconds from the beginning; None: with the others that are there from the beginning, as fast as possible."""
    fits: bool = True
    """Whether a node has room for it."""
    namespace: str = ""
    """Empty: that of the others."""


@dataclass(frozen=True)
class Taken:
    """What became of arrivals."""

    seconds: dict[str, float]
    """Name -> seconds from when the pod was due until it was seen bound. Pods that fit nowhere are left out."""
    groups: int = 0
    """Workflow runs that bound them; 0 where that is unknown."""


def times(rate: float, seconds: float, arrivals: str = "even", rng: Random | None = None) -> list[float]:
    """When each of `rate * seconds` pods is due, in seconds from the beginning.

    `even`: always the same time apart. `poisson`: each independently of the others, as from many users.
    """
    count = round(rate * seconds)
    if arrivals == "even":
        return [number / rate for number in range(count)]
    rng = rng or Random(1)
    return sorted(rng.uniform(0.0, seconds) for _ in range(count))  # a Poisson process of which the count is known


def unfitting(count: int, share: float) -> list[bool]:
    """Which of so many pods fit nowhere: such a share, evenly spread."""
    return [int((number + 1) * share + 1e-9) > int(number * share + 1e-9) for number in range(count)]


async def send(due: Iterable[float], one: Callable[[int, float], Awaitable[None]]) -> float:
    """Call `one` for each when it is due, with its number and that time by `perf_counter`; when it all began.

    The first failure is raised, and the other calls are given up.
    """
    began = time.perf_counter()
    several = asyncio.Semaphore(AT_ONCE)

    async def sent(number: int, at: float) -> None:
        async with several:
            await one(number, at)

    tasks = []
    for number, after in enumerate(due):
        await asyncio.sleep(max(0.0, began + after - time.perf_counter()))
        tasks.append(asyncio.create_task(sent(number, began + after)))
    await together(tasks)
    return began


async def together(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Wait for all; the first failure is raised, and the others are given up."""
    try:
        await asyncio.gather(*tasks)
    finally:
        await give_up(tasks)


async def give_up(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel all, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def beside(*work: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Run these beside the body, and give them up at its end."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield tasks
    finally:
        await give_up(tasks)
