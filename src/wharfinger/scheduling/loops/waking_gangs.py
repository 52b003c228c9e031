"""Decides in memory whether a waiting gang fits now as a whole, and which member is signalled."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from wharfinger.errors import PluginError
from wharfinger.framework.extenders.consulting import not_for_gangs
from wharfinger.framework.gangs import gangs
from wharfinger.framework.gangs.gangs import NO_DOMAIN, GangPlacement, seated
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.gang import GANG_SCHEDULING, Gang, Wanted, in_order
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.pool import Pool
from wharfinger.scheduling.state.queue.entry import Entry, Part
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fits:
    """A gang that fits now, or for which room can be made, or of which only its next attempt can tell: also one whose
    reason to wait is another by now.
    """

    nodes: Mapping[PodKey, str]
    """Where its members go; empty when that is not known."""
    snapshot: Snapshot
    """With them there."""


class WakingGangs:
    """Decides waiting gangs for one worker's waker."""

    def __init__(self, queue: SchedulingQueue, pool: Pool, metrics: Metrics) -> None:
        self._queue = queue
        self._cache = pool.cache
        self._profiles = pool.profiles
        self._metrics = metrics

    def waiting(self, gang: Gang) -> list[Entry]:
        """Its waiting members; first those whose record names the gang's chain, because that chain is signalled."""
        members = self._queue.gangs.members(gang.key, Part.WAITING)
        return sorted(members, key=lambda entry: entry.refusal is None or not entry.refusal.parked)

    def fits(self, gang: Gang, snapshot: Snapshot) -> Fits | None:
        """Where the gang goes on this snapshot; None when it does not fit, or is being placed already."""
        wanted = self._wanted(gang)
        assumed = {one.identity for one in self._cache.assumed()}
        if not wanted.members or any(pod.identity in assumed for pod in wanted.members):
            return None
        profile = self._profiles[wanted.members[0].scheduler_name]
        if not_for_gangs(wanted.members, profile) is not None:  # no change in the cluster helps
            self._metrics.wake_decisions.labels("no").inc()
            return None
        try:
            placement = gangs.place(profile, wanted, snapshot)
        except PluginError as error:
            log.warning("waking_undecided gang=%s error=%r", gang.key, str(error))
            return Fits({}, snapshot)
        worth_it = bool(placement.nominations) or self._lacked_a_domain(gang, wanted, placement)
        self._metrics.wake_decisions.labels("yes" if placement.placed or worth_it else "no").inc()
        if worth_it:
            return Fits({}, snapshot)
        if not placement.placed:
            for entry in self.waiting(gang):
                self._queue.waiting.candidates.refused_again(entry.key, placement.rejectors)
            return None
        for one in placement.seats:
            snapshot = seated(snapshot, one.pod, one.node)
        return Fits({one.pod.key: one.node for one in placement.seats}, snapshot)

    def _lacked_a_domain(self, gang: Gang, wanted: Wanted, placement: GangPlacement) -> bool:
        """Whether the gang was refused as no node had its topology key, and plugins refuse it now that one has.

        Then it is tried again although it does not fit: its reason is false by now, and an event by which room comes,
        such as the end of a pod, concerns only those whom these plugins have refused.
        """
        if placement.placed or not gang.topology_keys or wanted.bound:
            return False
        before = next((entry.refusal for entry in self.waiting(gang)), None)
        return before is not None and NO_DOMAIN in before.message and placement.rejectors != (GANG_SCHEDULING,)

    def _wanted(self, gang: Gang) -> Wanted:
        pods = list(self._cache.gangs.of(gang.key))
        bound = tuple(pod for pod in pods if pod.bound and not pod.finished)
        pending = in_order(pod for pod in pods if self._startable(pod))
        return Wanted(pending, gang.required(len(bound)), bound, gang.topology_keys)

    def _startable(self, pod: Pod) -> bool:
        """Whether the pod is one of ours that nothing holds back."""
        entry = self._queue.get(pod.key)
        return entry is not None and entry.part is not Part.GATED
