"""How many attempts of this worker may be in flight, by how quickly Temporal takes starts.

A bound that is right for one worker is not for twelve that share a Temporal: what all of them have in flight waits in
there, each answer takes longer than the patience of who asked, and what was done for it is done again; fleets, which
need the same Temporal, wait behind it. Starts tell early: while they are quick the bound stands, and when they are
late fewer attempts are in flight. Pods wait in the queue then, where the most urgent goes first, and where enough of
them make a cohort.
"""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.pressure import ConcurrencyLimiter

PROMPT = 0.5
"""Seconds within which Temporal takes a start when it has room for more; usual are 5 to 300 ms."""
TRICKLE = 1.0
"""Seconds after which one more is started all the same: attempts that are held tell nothing, and without starts nobody
learns that Temporal is quick again."""
LONGEST_TRICKLE = 8.0
"""The same, after starts that were late again and again: it doubles with each."""


class Pace:
    """The bound, and what it learns from starts. Lives on one event loop."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        """`most`: attempts in flight while Temporal is quick."""
        self._window = ConcurrencyLimiter(most, least=1, slow=PROMPT)
        self._clock = clock
        self._asked_at = float("-inf")
        self._trickle = TRICKLE

    @property
    def most(self) -> int:
        """How many may be in flight now, beyond the trickle."""
        return self._window.size

    def allows(self, in_flight: int) -> bool:
        """Whether one more may be started beside so many."""
        return in_flight < self.most or self._clock() - self._asked_at >= self._trickle

    def asked(self) -> None:
        """One is being started."""
        self._asked_at = self._clock()

    def accepted(self, began: float, in_flight: int) -> None:
        """Temporal took a start that was sent then; so many attempts are in flight, it included."""
        now = self._clock()
        self._trickle = TRICKLE if now - began <= PROMPT else self._longer()
        self._window.answered(began, now, used=in_flight)

    def failed(self, began: float) -> None:
        """Temporal did not answer a start that was sent then, or could not take it."""
        self._trickle = self._longer()
        self._window.failed(began, self._clock())

    def _longer(self) -> float:
        return min(self._trickle * 2, LONGEST_TRICKLE)
