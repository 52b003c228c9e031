"""What the activities of one worker use where a Kubernetes API is the store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wharfinger.engine.upstream.evicting import UpstreamEvictions
from wharfinger.engine.upstream.promising import Promises
from wharfinger.engine.upstream.telling import Teller


class TornPolicy(StrEnum):
    """What happens to the bound members of a gang of which others went after their dry run."""

    KEEP = "Keep"
    """They stay; the gang's next attempt prefers their domain."""
    EVICT = "Evict"
    """They are deleted, so that the gang is placed anew as a whole."""


@dataclass(frozen=True, slots=True)
class UpstreamWriters:
    """Made once for a worker."""

    promises: Promises
    teller: Teller
    evictions: UpstreamEvictions
    torn_gangs: TornPolicy = TornPolicy.KEEP
