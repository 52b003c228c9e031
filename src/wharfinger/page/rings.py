"""Counts and durations over the last minutes, in rings of fixed size: what the charts show, whatever is going on.

Time is cut into slots of some seconds. Each ring keeps so many slots and forgets the oldest; nothing grows with the
number of events.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SLOT_SECONDS = 5.0
SLOTS = 180
"""A quarter of an hour."""
_FIRST = 0.001
"""Seconds: durations up to that are in the first bucket."""
_FACTOR = 1.2
_BUCKETS = 84
"""Up to 0.001 * 1.2 ** 83 s, an hour."""
_BOUNDS = _FIRST * _FACTOR ** np.arange(_BUCKETS)


class _Ring:
    """A number for each of the last slots."""

    __slots__ = ("_began", "_newest", "_numbers", "_slots", "_width")

    def __init__(self, began: float, *, slots: int = SLOTS, width: float = SLOT_SECONDS) -> None:
        """`began`: since when there is something to know, monotonic seconds; `width`: seconds of a slot."""
        self._slots = slots
        self._width = width
        self._numbers = [0] * slots
        self._began = self._newest = int(began / width)

    def _advance(self, now: float, fill: int) -> int:
        """The newest slot at `now`; those that begin by then have the number `fill`."""
        slot = int(now / self._width)
        for passed in range(max(self._newest + 1, slot - self._slots + 1), slot + 1):
            self._numbers[passed % self._slots] = fill
        self._newest = max(self._newest, slot)
        return self._newest

    def _series(self) -> list[int | None]:
        """The numbers, the oldest first; None = before it began."""
        return [
            self._numbers[slot % self._slots] if slot >= self._began else None
            for slot in range(self._newest + 1 - self._slots, self._newest + 1)
        ]


class CountRing(_Ring):
    """How often something happened, by slot."""

    __slots__ = ()

    def add(self, now: float, count: int = 1) -> None:
        """It happened so many times at `now`, monotonic seconds."""
        self._numbers[self._advance(now, 0) % self._slots] += count

    def series(self, now: float) -> list[int | None]:
        """The counts of all slots, the oldest first; the last one is not over yet. None = before it was counted."""
        self._advance(now, 0)
        return self._series()

    def rate(self, now: float, over: int = 1) -> float | None:
        """Times a second, over the last `over` slots that are complete; None before there is one."""
        known = [count for count in self.series(now)[-1 - over : -1] if count is not None]
        return sum(known) / (len(known) * self._width) if known else None


class LevelRing(_Ring):
    """How much there was of something at the end of each slot."""

    __slots__ = ()

    def note(self, now: float, level: int) -> None:
        """There is so much at `now`; slots in which nothing was noted have the level before."""
        newest = self._advance(now, self._numbers[self._newest % self._slots])
        if int(now / self._width) == newest:  # else it is about a slot that is over
            self._numbers[newest % self._slots] = level

    @property
    def faded(self) -> bool:
        """Whether there is none of it any more, and has not been for the whole time that is kept."""
        return not any(self._numbers)

    def series(self) -> list[int | None]:
        """The levels, the oldest first; None = before."""
        return self._series()


class DurationRing:
    """How long something took, as quantiles by slot; a quantile is exact to 20 %."""

    __slots__ = ("_counts", "_newest", "_slots", "_width")

    def __init__(self, *, slots: int = SLOTS, width: float = SLOT_SECONDS) -> None:
        self._slots = slots
        self._width = width
        self._counts = np.zeros((slots, _BUCKETS), dtype=np.int64)
        self._newest = -1

    def add(self, now: float, seconds: float) -> None:
        """It took so long, and ended at `now`."""
        bucket = min(int(np.searchsorted(_BOUNDS, seconds)), _BUCKETS - 1)
        self._counts[self._turn(now) % self._slots, bucket] += 1

    def quantiles(self, now: float, wanted: Sequence[float], over: int = 60) -> list[float | None]:
        """Over the last `over` slots, seconds; None where nothing happened."""
        newest = self._turn(now)
        rows = [slot % self._slots for slot in range(newest - over + 1, newest + 1)]
        return _quantiles(self._counts[rows].sum(axis=0), wanted)

    def series(self, now: float, wanted: float) -> list[float | None]:
        """One quantile by slot, the oldest first."""
        newest = self._turn(now)
        rows = [slot % self._slots for slot in range(newest + 1, newest + 1 + self._slots)]
        return [_quantiles(self._counts[row], (wanted,))[0] for row in rows]

    def _turn(self, now: float) -> int:
        slot = int(now / self._width)
        if slot > self._newest:
            for passed in range(max(self._newest + 1, slot - self._slots + 1), slot + 1):
                self._counts[passed % self._slots] = 0
            self._newest = slot
        return self._newest


def _quantiles(counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]], wanted: Sequence[float]) -> list[float | None]:
    total = int(counts.sum())
    if not total:
        return [None] * len(wanted)
    up_to = np.cumsum(counts)
    return [float(_BOUNDS[int(np.searchsorted(up_to, max(1.0, quantile * total)))]) for quantile in wanted]
