"""The lines of a watch that have arrived and wait to be decoded.

An API server closes the connection of a client that reads slowly. So one task reads the socket continuously and puts
lines here, as bytes. The watch (`watching.py`) takes them at the pace of its consumer. Reading pauses only when
hundreds of megabytes wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress


class LineTooLong(Exception):
    """A line has more bytes than an object can have: what is sent is no watch."""


class LineSplitter:
    """Cuts pieces, as they come from a socket, into lines."""

    def __init__(self, limit: int) -> None:
        """`limit`: bytes that a line may have."""
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def rest(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._size > 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that end in this piece. Raises `LineTooLong`."""
        lines = piece.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces, self._size = [], 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > self._limit or any(len(line) > self._limit for line in lines):
            raise LineTooLong(f"a line has more than {self._limit} bytes")
        return [line for line in lines if line]


class LineQueue:
    """Lines between one reader and one consumer; the error that ended the reading comes after the last line."""

    def __init__(self, limit: int, urgent: bytes = b"") -> None:
        """`limit`: bytes that may wait before `room` lets the reader wait; `urgent`: how lines begin that do not
        gather, empty = all lines.
        """
        self._limit = limit
        self._begins = urgent
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        self._ended: Exception | None = None
        self._filled = asyncio.Event()
        self._urgent = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def __bool__(self) -> bool:
        """Whether a line waits."""
        return bool(self._lines)

    @property
    def urgent(self) -> bool:
        """Whether an urgent line waits, or the reading has ended."""
        return self._urgent.is_set()

    def put(self, lines: Iterable[bytes]) -> None:
        """Add lines."""
        for line in lines:
            self._lines.append(line)
            self._waiting += len(line)
            if line.startswith(self._begins):
                self._urgent.set()
        if self._lines:
            self._filled.set()
        if self._waiting > self._limit:
            self._room.clear()

    def take(self) -> bytes:
        """The oldest line; there must be one."""
        line = self._lines.popleft()
        self._waiting -= len(line)
        if self._waiting <= self._limit:
            self._room.set()
        if not self._lines and self._ended is None:
            self._filled.clear()
            self._urgent.clear()
        return line

    def end(self, why: Exception) -> None:
        """No more lines will come."""
        self._ended = why
        self._filled.set()
        self._urgent.set()

    async def room(self) -> None:
        """Wait until less than the limit waits."""
        await self._room.wait()

    async def gather(self, seconds: float) -> None:
        """Let lines gather for some time, but no longer than until an urgent one waits, or the reading has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._urgent.wait()

    async def filled_within(self, pause: Callable[[float], Awaitable[None]], seconds: float) -> bool:
        """Wait for a line, as long as a pause of so many seconds takes; whether one waits."""
        waits = [asyncio.ensure_future(pause(seconds)), asyncio.ensure_future(self._filled.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        return bool(self._lines)

    async def filled(self) -> None:
        """Wait for a line. Raises what ended the reading once all lines are taken."""
        await self._filled.wait()
        self.check()

    def check(self) -> None:
        """Raise what ended the reading, once all lines are taken."""
        if not self._lines and self._ended is not None:
            raise self._ended
