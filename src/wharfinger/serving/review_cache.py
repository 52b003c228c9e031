"""Keeps answers of the API server for some seconds, so that a scrape every few seconds costs no request each.

Keys are keyed hashes (`KeyedHash`): no token lies in the cache. Callers that want the same answer at once share one
request, and how many requests are under way is bounded.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from wharfinger.errors import UpstreamUnavailable

T = TypeVar("T")

MOST_ANSWERS = 1000
MOST_REQUESTS = 10
"""Requests at a time: made-up tokens must not become a flood at the API server."""
MOST_WAITING = 100
"""Requests that are under way or wait for it: a caller may be gone long before its turn, so connections bound none."""


class KeyedHash:
    """Hashes with a key that only this process has, so that neither equality nor timing of hashes says anything."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def __call__(self, *parts: str) -> bytes:
        """The hash of the parts, each with its length, 32 bytes."""
        hashed = hashlib.blake2b(key=self._key, digest_size=32)
        for part in parts:
            text = part.encode("utf-8", "surrogateescape")
            hashed.update(len(text).to_bytes(8, "big") + text)
        return hashed.digest()


class ReviewCache(Generic[T]):
    """Answers by key, each until its time is over; the one that was used least lately goes first."""

    def __init__(self, clock: Callable[[], float], *, most: int = MOST_ANSWERS) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[bytes, tuple[T, float]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[T]] = {}
        self._free = asyncio.Semaphore(MOST_REQUESTS)

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: bytes, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """The answer for the key: the kept one, else what `ask` returns, which is kept for so many seconds.

        What `ask` raises, every caller that waits for it gets; it is not kept. Raises `UpstreamUnavailable` when too
        many requests wait.
        """
        found = self._kept.get(key)
        if found is not None and self._clock() < found[1]:
            self._kept.move_to_end(key)
            return found[0]
        task = self._asking.get(key)
        if task is None:
            if len(self._asking) >= MOST_WAITING:
                raise UpstreamUnavailable(f"{MOST_WAITING} other reviews wait for the API server")
            task = self._asking[key] = asyncio.create_task(self._ask(key, ask))
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)  # the caller may go away while others wait

    async def _ask(self, key: bytes, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        async with self._free:
            answer, seconds = await ask()
        self._kept[key] = answer, self._clock() + seconds
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return answer

    def _done(self, key: bytes, task: asyncio.Task[T]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # every caller may be gone: then nobody else looks at it
