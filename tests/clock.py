"""A clock for code that is given one: time passes only when the test moves it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds; `clock.now` may be set, too."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
