"""What admission answers for an object that it refuses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotMade:
    """An API server would refuse the object."""

    reason: str
    """Near the API server's words, without a full stop."""
