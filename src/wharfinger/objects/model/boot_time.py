"""A clock that goes on while the machine is suspended."""

from __future__ import annotations

import time


def since_boot() -> float:
    """Seconds since the machine was started, those in suspension included; where no such clock is, monotonic seconds.

    Leases are kept by others, whose clocks go on. Linux stops the usual monotonic clock in a suspension, so after it a
    lease that has ended would look fresh.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
