"""Counts and durations over the last minutes, in rings of fixed size: what the charts show, whatever is going on.

Time is cut into slots of some seconds. Each ring keeps so many slots and forgets the oldest; nothing grows with the
number of events.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

SLOT_SECONDS = 5.0
SLOTS = 180
"""A quarter of an hour."""
_FIRST = 0.001
"""Seconds: durations up to that are in the first bucket."""
_FACTOR = 1.2
_BUCKETS = 84
"""Up to 0.001 * 1.2 ** 83 s, an hour."""
_BOUNDS: list[float] = (_FIRST * _FACTOR ** np.arange(_BUCKETS)).tolist()


class _Ring:
    """A number, or several, for each of the last slots."""

    __slots__ = ("_began", "_newest", "_numbers", "_slots", "_width")

    def __init__(self, began: float, *, slots: int = SLOTS, width: float = SLOT_SECONDS) -> None:
        """`began`: since when there is something to know, monotonic seconds; `width`: seconds of a slot."""
        self._slots = slots
        self._width = width
        self._numbers: Any = [0] * slots
        self._began = self._newest = int(began / width)

    def _advance(self, now: float, fill: int) -> int:
        """The newest slot at `now`; those that begin by then have the number `fill`."""
        slot = int(now / self._width)
        if slot > self._newest:
            for passed in range(max(self._newest + 1, slot - self._slots + 1), slot + 1):
                self._numbers[passed % self._slots] = fill
            self._newest = slot
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


class DurationRing(_Ring):
    """How long something took, as quantiles by slot; a quantile is exact to 20 %."""

    __slots__ = ()

    def __init__(self, *, slots: int = SLOTS, width: float = SLOT_SECONDS) -> None:
        super().__init__(-width, slots=slots, width=width)
        self._numbers = np.zeros((slots, _BUCKETS), dtype=np.int32)

    def add(self, now: float, seconds: float) -> None:
        """It took so long, and ended at `now`."""
        bucket = bisect_left(_BOUNDS, seconds, hi=_BUCKETS - 1)
        self._numbers[self._advance(now, 0) % self._slots, bucket] += 1

    def quantiles(self, now: float, wanted: Sequence[float], over: int = 60) -> list[float | None]:
        """Over the last `over` slots, seconds; None where nothing happened."""
        newest = self._advance(now, 0)
        rows = np.arange(newest - over + 1, newest + 1) % self._slots
        return [quantile for [quantile] in _quantiles(self._numbers[rows].sum(axis=0, keepdims=True), wanted)]

    def series(self, now: float, wanted: Sequence[float]) -> list[list[float | None]]:
        """Each of the quantiles by slot, the oldest first."""
        newest = self._advance(now, 0)
        return _quantiles(self._numbers[np.arange(newest + 1, newest + 1 + self._slots) % self._slots], wanted)


def _quantiles(
    counts: np.ndarray[tuple[int, ...], np.dtype[np.signedinteger[Any]]], wanted: Sequence[float]
) -> list[list[float | None]]:
    """Each of the quantiles, of each row; all rows at once, for a chart has 180 and each namespace its own."""
    up_to = counts.cumsum(axis=1)
    totals = up_to[:, -1]
    found: list[list[float | None]] = []
    for quantile in wanted:
        buckets = (up_to >= np.maximum(1.0, quantile * totals)[:, None]).argmax(axis=1).tolist()
        found.append(
            [_BOUNDS[bucket] if total else None for bucket, total in zip(buckets, totals.tolist(), strict=True)]
        )
    return found
