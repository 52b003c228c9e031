"""The simulated cluster in which a span is lived again: it decides by the record's profiles.

`rerun` says what happens in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wharfinger.framework.profile import Profile
from wharfinger.model.pod import PodKey
from wharfinger.simulation.cluster import Cluster
from wharfinger.simulation.waiting import WaitingPods
from wharfinger.simulator import Simulator


class RerunSimulator(Simulator):
    """A simulator that decides by profiles that were made already."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        super().__init__()
        self._profiles.clear()
        self._profiles.update(profiles)
        self._cluster = Cluster(recurring=True)  # as workers read pods: what many have alike is there once
        self._waiting = WaitingPods(self._profiles, self._cluster.pods)

    def start(self, pod: PodKey, node: str, started: str) -> list[PodKey]:
        """Bind the pod, which starts then. `started`: RFC 3339; empty = later than all before it."""
        subject = self._cluster.pending(pod)
        return self._after(self._cluster.bind(replace(subject, start_time=started) if started else subject, node))
