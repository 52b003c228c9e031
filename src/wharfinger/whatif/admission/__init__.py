"""What admission in a Kubernetes API server does to new pods and claims: defaults, and reasons why one is not made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotMade:
    """An API server would refuse the object."""

    reason: str
    """Near the API server's words, without a full stop."""
