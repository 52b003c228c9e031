"""What all parts of a process share. It is made once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from wharfinger.etcd.store import Store
from wharfinger.objects.model.boot_time import since_boot
from wharfinger.telemetry import Metrics


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """What all parts of one process share: its connection to etcd, its metrics, time and randomness."""

    store: Store
    metrics: Metrics = field(default_factory=Metrics)
    clock: Callable[[], float] = time.monotonic
    """Seconds, for waits and for durations."""
    lease_clock: Callable[[], float] = since_boot
    """Seconds, for what others may have taken meanwhile: they go on while the machine is suspended."""
    utc_now: Callable[[], datetime] = partial(datetime.now, UTC)
    """The time of day, for records and conditions."""
    rng: random.Random = field(default_factory=random.Random)
    """Spreads retries; no secret comes from it."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits so many seconds between two tries."""
