"""How many requests a second are sent to an API server: the token bucket behind `qps` and `burst`.

The limits are those of client-go. `transport.py` has one bucket for events and one for all other requests, as
kube-scheduler has a client for each. Watches and leases take no token.

Requests that wait share the rate by their cost, as in weighted fair queuing: four binds go for one request of another
kind, whatever came first. So a pod's bind does not wait for the statuses of a hundred refused ones, and those do not
wait for the last bind of a flood.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable
from itertools import count

BIND, OTHER = 1, 4
"""What a request costs while others wait, too."""


class TokenBucket:
    """`burst` tokens at first, and `qps` more each second, up to `burst`. A negative qps does not limit."""

    def __init__(
        self,
        qps: float,
        burst: int,
        clock: Callable[[], float],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`clock` is monotonic, in seconds; `pause` waits for so many."""
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._clock = clock
        self._pause = pause
        self._tokens = self._burst
        self._at = clock()
        self._waiting: list[tuple[int, int, int]] = []
        """When the turn of each comes, on a clock that goes on by what each costs; the order of arrival; the cost."""
        self._arrived = count()
        self._served = 0
        """The turn that came last."""

    async def turn(self, patience: float, cost: int = OTHER) -> bool:
        """Wait for a token, and take it. False, without one, if that takes longer than `patience` seconds."""
        if self._qps < 0:
            return True
        # Behind those of its kind that wait: one that was given up has used nothing.
        last = max((turn for turn, _, one in self._waiting if one == cost), default=0)
        mine = (max(self._served, last) + cost, next(self._arrived), cost)
        insort(self._waiting, mine)
        until = self._clock() + patience
        try:
            while (wait := self._seconds_for(mine)) > 0:
                if self._clock() + wait > until:
                    return False
                await self._pause(wait)
            self._tokens -= 1.0
            self._served = max(self._served, mine[0])
            return True
        finally:
            self._waiting.remove(mine)

    def _seconds_for(self, turn: tuple[int, int, int]) -> float:
        """Until there are tokens for this one and all before it."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        missing = 1.0 + bisect_left(self._waiting, turn) - self._tokens
        if missing <= 1e-9:  # seconds and tokens are rounded
            return 0.0
        return missing / self._qps if self._qps > 0 else float("inf")
