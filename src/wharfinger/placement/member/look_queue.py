"""When the placements of one member are looked at again.

::

    the work changed           at once
    an object there changed    after 0.1 s, and not before the placement's brake allows it
    nothing changed            after 5 s, doubling up to 15 min; up to 1 min while something is not as it shall be
    the hub does not answer    after 1 s, doubling up to 1 min

The brake is for a controller that puts its own value back each time: every look writes, and every write leads to the
next look. The gap between two looks doubles while they go on writing.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

SOONEST, LATEST = 5.0, 900.0
"""Seconds until a work is looked at again: at first, doubling up to the second while nothing changes. What is as it
shall be when the agent starts is looked at again after a random part of the second."""
UNSETTLED = 60.0
"""Seconds until that at most, as long as something is not as it shall be."""
SETTLE = 0.1
"""Seconds for further changes of what is there; also the shortest gap between two looks that write."""
LONGEST_GAP = 60.0
"""Seconds of the longest one."""
QUIET = 60.0
"""Seconds without a write after which the gap is the shortest again."""
PUT_BACK = 1.0
"""Seconds until a look that the hub's etcd did not answer is tried again, at first."""


@dataclass(slots=True)
class _Brake:
    """Of a placement whose looks write."""

    counter: int
    """Of the work: another one is no repetition."""
    gap: float
    """Seconds between two looks."""
    wrote: float
    """Clock seconds of the last look that wrote."""
    until: float
    """Clock seconds before which a change on the member leads to no look."""


class LookQueue:
    """The times of the next looks, by placement."""

    def __init__(self, clock: Callable[[], float], rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self.due: set[str] = set()
        """To be looked at now."""
        self._later: list[tuple[float, str]] = []
        self.at: dict[str, float] = {}
        """Placement -> clock seconds of its next look; older entries of `_later` count for nothing."""
        self.waits: dict[str, float] = {}
        """Placement -> seconds that it waits while nothing changes."""
        self._brakes: dict[str, _Brake] = {}

    def come(self) -> None:
        """Move what is to be looked at by now to `due`."""
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            at, placement = heapq.heappop(self._later)
            if self.at.get(placement) == at:
                self.due.add(placement)

    def pause(self) -> float:
        """Seconds until `come` may find something."""
        return max(0.0, self._later[0][0] - self._clock()) if self._later else SOONEST

    def at_once(self, placement: str) -> None:
        """Its work changed."""
        self.waits.pop(placement, None)
        self.due.add(placement)

    def after_change(self, placement: str) -> None:
        """Something of it changed on the member."""
        self.waits.pop(placement, None)
        brake = self._brakes.get(placement)
        at = max(self._clock() + SETTLE, brake.until if brake is not None else 0.0)
        if self.at.get(placement, math.inf) > at:
            self._schedule(placement, at)

    def again(self, placement: str, *, changed: bool, longest: float, rests: bool = False) -> None:
        """It was looked at. `changed`: whether its result did; `rests`: whether nothing is to be waited for."""
        wait = SOONEST if changed else min(longest, 2 * self.waits.get(placement, SOONEST / 2))
        if rests and not changed and placement not in self.at:
            wait = LATEST * max(0.1, self._rng.random())
        self._wait(placement, wait)

    def put_back(self, placement: str) -> float:
        """The hub's etcd did not answer; answers the seconds until the next try."""
        wait = min(UNSETTLED, 2 * self.waits.get(placement, PUT_BACK / 2))
        self._wait(placement, wait)
        return wait

    def forget(self, placement: str) -> None:
        """Nothing of it is on the member."""
        for known in (self.at, self.waits, self._brakes):
            known.pop(placement, None)

    def looked(self, placement: str, counter: int, *, wrote: bool) -> None:
        """Set the brake. `counter`: the work's."""
        now, brake = self._clock(), self._brakes.get(placement)
        if wrote:
            gap = SETTLE
            if brake is not None and brake.counter == counter and now - brake.wrote < QUIET + 2 * brake.gap:
                gap = min(LONGEST_GAP, 2 * brake.gap)
            self._brakes[placement] = _Brake(counter, gap, wrote=now, until=now + gap)
        elif brake is not None:
            if now - brake.wrote >= max(QUIET, brake.gap):
                del self._brakes[placement]
            else:
                brake.until = now + brake.gap

    def _wait(self, placement: str, wait: float) -> None:
        self.waits[placement] = wait
        brake = self._brakes.get(placement)
        at = self._clock() + wait * (0.9 + 0.2 * self._rng.random())
        self._schedule(placement, max(at, brake.until) if brake is not None else at)

    def _schedule(self, placement: str, at: float) -> None:
        self.at[placement] = at
        heapq.heappush(self._later, (at, placement))
