"""Virtual time: what happens next, and nothing in between.

`Timeline.after` returns a handle that `cancel` makes silent. Equal moments keep the order in which they were asked for,
so a seed tells the whole story again.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Handle = list[Any]
"""[when, number, function or None, arguments]"""


class Timeline:
    """A heap of what is to come."""

    __slots__ = ("_heap", "_number", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[Handle] = []
        self._number = 0

    def after(self, delay: float, act: Callable[..., object], *args: object) -> Handle:
        """Do something `delay` seconds from now."""
        self._number += 1
        handle: Handle = [self.now + delay, self._number, act, args]
        heappush(self._heap, handle)
        return handle

    @staticmethod
    def cancel(handle: Handle | None) -> None:
        """Let it not happen; nothing if it has."""
        if handle is not None:
            handle[2] = None

    def run(self, until: float, *, events: int = 1_000_000) -> bool:
        """Live up to a moment; False when more than `events` things happened before: something turns in circles."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, act, args = heappop(heap)
            if act is None:
                continue
            self.now = when
            act(*args)
            events -= 1
            if events < 0:
                return False
        self.now = max(self.now, until)
        return True
