"""How many requests a second are sent to an API server: the token bucket behind `qps` and `burst`.

The limits are those of client-go. A request takes a token when it arrives, and then waits until the bucket would have
contained that token. So requests are sent in the order in which they came. `transport.py` has one bucket for events and
one for all other requests, as kube-scheduler has a client for each. Watches and leases take no token.
"""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """`burst` tokens at first, and `qps` more each second, up to `burst`. A negative qps does not limit."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._clock = clock
        self._tokens = self._burst
        self._at = clock()

    def take(self, patience: float) -> float | None:
        """Take a token, and return the seconds to wait for it. None, without taking one, if that exceeds `patience`."""
        if self._qps < 0:
            return 0.0
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        wait = self._seconds_for(1.0 - self._tokens)
        if wait > patience:
            return None
        self._tokens -= 1.0
        return wait

    def give_back(self) -> None:
        """Return a token whose request was given up while it waited."""
        self._tokens = min(self._burst, self._tokens + 1.0)

    def _seconds_for(self, missing: float) -> float:
        if missing <= 0:
            return 0.0
        return missing / self._qps if self._qps > 0 else float("inf")
