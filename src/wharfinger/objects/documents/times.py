"""Times of day as Kubernetes writes them, and ages as kubectl shows them."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(time: datetime) -> str:
    """A time in UTC, to the second: `2026-03-01T12:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_now() -> str:
    """The present time, by this machine's clock."""
    return rfc3339(datetime.now(UTC))


def seconds_since(stamp: str, now: datetime) -> float | None:
    """Seconds from an RFC 3339 time to `now`, never negative; None for what is no such time."""
    try:
        then = datetime.fromisoformat(stamp)
        return max(0.0, (now - then).total_seconds())
    except (ValueError, TypeError, OverflowError):  # TypeError: a time without zone
        return None


def duration(seconds: float) -> str:
    """Seconds in at most two units, as kubectl shows ages."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole}s"
    if whole < 600:
        return f"{whole // 60}m{whole % 60}s" if whole % 60 else f"{whole // 60}m"
    if whole < 3 * 3600:
        return f"{whole // 60}m"
    if whole < 48 * 3600:
        return f"{whole // 3600}h"
    return f"{whole // 86400}d"
