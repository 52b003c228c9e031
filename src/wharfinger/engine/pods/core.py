"""What deciding and committing share on one worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from wharfinger.cache.cache import Cache
from wharfinger.engine.pods.committer import Committer
from wharfinger.engine.pods.eligibility import Eligibility
from wharfinger.engine.pods.locks import Locks
from wharfinger.engine.pods.tally import Tally
from wharfinger.engine.pods.verification import Verification
from wharfinger.engine.transactions import Limits
from wharfinger.framework.profile import Profile
from wharfinger.registry.store import Store
from wharfinger.settings import BindSettings
from wharfinger.telemetry import Metrics


@dataclass(frozen=True, slots=True)
class Core:
    """The parts that every activity of one worker uses."""

    cache: Cache
    profiles: Mapping[str, Profile]
    """By scheduler name."""
    store: Store
    committer: Committer
    settings: BindSettings
    limits: Limits
    """Of etcd's transactions."""
    cluster: str
    eligibility: Eligibility
    verification: Verification
    metrics: Metrics
    tally: Tally
    locks: Locks
    """Of this worker's binds."""
    utc_now: Callable[[], datetime]
    clock: Callable[[], float]
    """Seconds, for durations."""
