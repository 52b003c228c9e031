"""The parts that a process is wired from. They are made once, and its activities and loops share them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from wharfinger.cache.cache import Cache
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.model.boot_time import since_boot
from wharfinger.model.ownership import Ownership
from wharfinger.registry.store import Store
from wharfinger.telemetry import Metrics


def utc_now() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """What all parts of one process share: its connection to etcd, its metrics, time and randomness."""

    store: Store
    metrics: Metrics = field(default_factory=Metrics)
    clock: Callable[[], float] = time.monotonic
    """Seconds, for waits and for durations."""
    lease_clock: Callable[[], float] = since_boot
    """Seconds, for what others may have taken meanwhile: they go on while the machine is suspended."""
    utc_now: Callable[[], datetime] = utc_now
    """The time of day, for records and conditions."""
    rng: random.Random = field(default_factory=random.Random)
    """Spreads retries; no secret comes from it."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits so many seconds between two tries."""


@dataclass(frozen=True, slots=True)
class Pool:
    """What one worker decides on: its pool's pods, the state that it has seen, and its profiles."""

    cache: Cache
    profiles: Mapping[str, Profile]
    """By scheduler name."""
    ownership: Ownership
    preferred_nodes: PreferredNodes = field(default_factory=PreferredNodes)
    """The loops set which workers share the nodes; decisions read which are this worker's own."""


@dataclass(frozen=True, slots=True)
class Identity:
    """How one worker is named in what it writes."""

    cluster: str
    name: str
    """The worker's own; kept with its decisions."""
    fleet_revision: str = ""
    """Of the template that the worker was made from; empty when it was started by hand."""
    incarnation: str = ""
    """This life of the worker: `<digest of its software>-<chance>`; empty where none is kept."""
