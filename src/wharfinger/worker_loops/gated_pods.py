"""Pods that a PreEnqueue plugin holds back, and the cluster events after which it is asked again.

A change of the pod itself always has its gates asked again (`pod_events`), which is all that SchedulingGates needs. The
queueing hints of any other plugin say which further events may open its gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wharfinger.framework.profile import Profile
from wharfinger.informer.changes import Changes
from wharfinger.model.events import ClusterEvent
from wharfinger.model.pod import PodKey
from wharfinger.plugins.names import SCHEDULING_GATES
from wharfinger.queue.scheduling_queue import SchedulingQueue
from wharfinger.worker_loops.candidacy import events_of


class GatedPods:
    """Finds the gated pods of one worker that an event may help."""

    def __init__(self, queue: SchedulingQueue, profiles: Mapping[str, Profile]) -> None:
        self._queue = queue
        self._profiles = profiles

    def may_open(self, changes: Changes) -> list[PodKey]:
        """The pods whose gates are to be asked again because of these changes, sorted by name."""
        if not self._queue.gated:
            return []
        gates = [(scheduler, name) for scheduler, profile in self._profiles.items() for name in _own_gates(profile)]
        if not gates:
            return []
        events = () if changes.listed else tuple(events_of(changes))
        worth: dict[tuple[str, str], list[ClusterEvent]] = {}
        for scheduler, name in gates:
            kinds = [event for event in events if self._profiles[scheduler].concerns(event, (name,))]
            if kinds or changes.listed:
                worth[scheduler, name] = kinds
        return sorted(self._helped(worth, all_of_them=changes.listed)) if worth else []

    def _helped(self, worth: Mapping[tuple[str, str], list[ClusterEvent]], *, all_of_them: bool) -> Iterator[PodKey]:
        """`all_of_them`: events may have been missed."""
        for entry in self._queue.gated.values():
            events = worth.get((entry.pod.scheduler_name, entry.gate))
            if events is None:
                continue
            profile = self._profiles[entry.pod.scheduler_name]
            if all_of_them or any(profile.may_help(event, entry.pod, (entry.gate,)) is not None for event in events):
                yield entry.key


def _own_gates(profile: Profile) -> list[str]:
    """The plugins whose gates other events than a pod's own may open."""
    return [name for name in profile.at.get("preEnqueue", ()) if name != SCHEDULING_GATES]
