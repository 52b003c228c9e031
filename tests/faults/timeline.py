"""When faults really struck, and hence what a worker may not have known at a moment."""

from __future__ import annotations

from dataclasses import dataclass, field

SLACK = 3.0
"""Seconds by which a worker is behind at most while nothing strikes, and after it did: two cores do all of this."""


@dataclass(slots=True)
class Timeline:
    """From when to when each fault lasted, in seconds since the epoch."""

    struck: list[tuple[float, float]] = field(default_factory=list)

    def known_since(self, moment: float) -> float:
        """Of what happened before, every worker that binds at that moment is sure to know."""
        since = moment - SLACK
        for begin, end in sorted(self.struck, key=lambda each: each[1], reverse=True):
            if end + SLACK > since and begin <= moment:
                since = min(since, begin - SLACK)
        return since
