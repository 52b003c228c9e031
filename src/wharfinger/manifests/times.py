"""Times of day as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime


def rfc3339(time: datetime) -> str:
    """A time in UTC, to the second: `2026-03-01T12:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
