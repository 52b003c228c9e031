"""A pod is evicted only for a pod of higher priority that is promised the room.

evicted    a victim without a pending pod of higher priority that is nominated to its node
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.faults.ledger import PodChange
from wharfinger.objects.model.pod import Pod, PodIdentity


@dataclass(slots=True)
class Evictions:
    """Remembers who was promised room, and until when."""

    _promised: dict[str, dict[PodIdentity, tuple[int, float]]] = field(default_factory=dict)
    """Node -> pod -> its priority, and when the promise ended."""

    def take(self, change: PodChange, now: float) -> None:
        """What a revision means to promises; before its victims are looked at."""
        for pod, until in ((change.before, now), (change.after, math.inf)):
            if pod is not None and pod.nominated_node_name and pod.pending:
                self._promised.setdefault(pod.nominated_node_name, {})[pod.identity] = pod.priority, until

    def unfounded(self, change: PodChange, since: float) -> Pod | None:
        """The victim, if no pod needs its room; a promise that ended since then still counts."""
        victim = change.after
        if victim is None or not change.is_eviction:
            return None
        promised = self._promised.get(victim.node_name, {}).values()
        if any(priority > victim.priority and until >= since for priority, until in promised):
            return None
        return victim
