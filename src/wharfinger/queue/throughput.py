"""How many single attempts are completed a second, measured while at least one is in flight.

Plain pods and pods with rules across nodes are measured apart, because their decisions differ much in cost. While both
kinds are in flight, they share the time by their numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.model.pod import PodKey

ENOUGH = 10
"""Attempts completed, at least, before there is a measurement."""
MEMORY = 200
"""Attempts over which the measurement is averaged: each one makes those before it count 1/200 less."""
HELD = 10.0
"""Seconds after which an attempt in flight no longer counts: a Permit plugin holds it, or it is lost."""


class Throughput:
    """Fed by each attempt's start and end. Lives on one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[PodKey, tuple[float, bool]] = {}
        """When each attempt began, the oldest first, and whether its pod has rules."""
        self._in_flight = {False: 0, True: 0}
        self._kinds = {False: _Kind(), True: _Kind()}
        self._paused = False
        self._at = clock()

    def a_second(self, *, ruled: bool) -> float | None:
        """Attempts of this kind completed a second; None until there is a measurement."""
        kind = self._kinds[ruled]
        return kind.completed / kind.seconds if kind.count >= ENOUGH and kind.seconds > 0 else None

    def began(self, key: PodKey, *, ruled: bool) -> None:
        """An attempt is in flight from now on."""
        self._advance()
        self._forget(key)
        self._open[key] = self._at, ruled
        self._in_flight[ruled] += 1

    def ended(self, key: PodKey, *, completed: bool) -> None:
        """An attempt is in flight no more. Those that could not be started are not `completed`."""
        self._advance()
        ruled = self._forget(key)
        if ruled is not None and completed and not self._paused:
            self._kinds[ruled].complete()

    def pause(self, paused: bool) -> None:
        """Measure nothing while cohorts are open: they take the processor from single attempts."""
        if paused != self._paused:
            self._advance()
            self._paused = paused
            for kind in self._kinds.values():
                kind.pending = 0.0  # of attempts that will end meanwhile

    def _forget(self, key: PodKey) -> bool | None:
        """Take the attempt out; whether its pod has rules, None when it was not counted."""
        found = self._open.pop(key, None)
        if found is None:
            return None
        self._in_flight[found[1]] -= 1
        return found[1]

    def _advance(self) -> None:
        """Share out the time since the last event, without attempts that are held."""
        now = self._clock()
        while self._open:
            key, (began, _) = next(iter(self._open.items()))
            if began + HELD > now:
                break
            self._share_out(began + HELD)
            self._forget(key)
        self._share_out(now)

    def _share_out(self, until: float) -> None:
        seconds, self._at = until - self._at, until
        if self._open and not self._paused:
            for ruled, number in self._in_flight.items():
                self._kinds[ruled].pending += seconds * number / len(self._open)


class _Kind:
    """Sums over the completed attempts of one kind, the older ones counting less."""

    def __init__(self) -> None:
        self.completed = 0.0
        self.seconds = 0.0
        self.pending = 0.0
        """Seconds since the last one was completed."""
        self.count = 0

    def complete(self) -> None:
        """One is completed: the seconds since the last one were its."""
        kept = 1 - 1 / MEMORY
        self.completed = self.completed * kept + 1
        self.seconds = self.seconds * kept + self.pending
        self.pending = 0.0
        self.count += 1
