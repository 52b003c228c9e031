"""Exponential back-off with jitter."""

from __future__ import annotations

import random
from collections.abc import Iterator


def delays(initial: float, maximum: float, rng: random.Random) -> Iterator[float]:
    """Endless delays in seconds: doubling from `initial` to `maximum`, each times 0.5 to 1."""
    delay = initial
    while True:
        yield delay * (0.5 + rng.random() / 2)
        delay = min(delay * 2, maximum)
