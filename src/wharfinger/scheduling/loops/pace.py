"""How many attempts of this worker may be in flight, by how quickly Temporal takes starts.

A bound that suits one worker does not suit twelve that share a Temporal. Their attempts queue there, every response
arrives after its caller has timed out, and the work is repeated; fleets, which need the same Temporal, wait behind
them. The latency of starts shows this early: the bound shrinks when starts are late. Pods then wait in the queue, where
the most urgent goes first, and where enough of them make a cohort.
"""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.pressure import ConcurrencyLimiter

PROMPT = 0.5
"""Seconds within which Temporal takes a start when it has room for more; usual are 5 to 300 ms."""
TRICKLE = 1.0
"""Seconds after which one more is started although the bound is reached: only a start shows that Temporal is quick
again."""
LONGEST_TRICKLE = 8.0
"""The same, after starts that were late again and again: it doubles with each."""


class Pace:
    """The bound, adapted to the latency of starts. Lives on one event loop."""

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
        """Record that a start is being sent."""
        self._asked_at = self._clock()

    def accepted(self, began: float, in_flight: int) -> None:
        """Record a start, sent at `began`, that Temporal accepted; `in_flight` counts it."""
        now = self._clock()
        self._trickle = TRICKLE if now - began <= PROMPT else self._longer()
        self._window.answered(began, now, used=in_flight)

    def failed(self, began: float) -> None:
        """Record a start, sent at `began`, that Temporal did not answer or did not accept."""
        self._trickle = self._longer()
        self._window.failed(began, self._clock())

    def _longer(self) -> float:
        return min(self._trickle * 2, LONGEST_TRICKLE)
