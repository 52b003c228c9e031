"""Which pods are this worker's, told to the queue as facts come in.

In: changes from the informer, and a new share-out of the shards. Out: the queue holds exactly the
pods that are pending, of our pool (scheduler name and tenant) and of our shard; what ended is handed
to the `Closer`, which ends their open chains.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping

from wharfinger.framework.plugins.names import SCHEDULING_GATES
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.events import ClusterEvent
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.loops.candidacy import events_of
from wharfinger.scheduling.loops.closer import Closer
from wharfinger.scheduling.loops.queueing import Gangs
from wharfinger.scheduling.loops.shards import Shards
from wharfinger.scheduling.state.informer.changes import Changes, PodChange
from wharfinger.scheduling.state.pool import Pool
from wharfinger.scheduling.state.queue.entry import Entry, Part
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue

UNBOUND_HOLD = 2.0
"""Seconds before a bound pod that lost its node is started: its run may still be ending, and a start would join it."""


class PodEventHandler:
    """Derives the queue from the cache, the records and the shards; a `Subscriber`."""

    follows = None

    def __init__(
        self,
        process: ProcessParts,
        pool: Pool,
        queue: SchedulingQueue,
        *,
        gangs: Gangs,
        shards: Shards,
        ending: Closer,
        kick: Callable[[], None],
    ) -> None:
        """`kick` is called whenever there may be something to start."""
        self._queue = queue
        self._cache = pool.cache
        self._records = pool.cache.refusals
        self._ownership = pool.ownership
        self._shards = shards
        self._ending = ending
        self._sli_duration = functools.cache(process.metrics.sli_duration.labels)
        self._scheduling_attempts = process.metrics.pod_scheduling_attempts
        self._clock = process.clock
        self._kick = kick
        self._gangs = gangs
        self._gated = GatedPods(queue, pool.profiles)
        self._pool: dict[PodKey, None] = {}
        """Pending pods of our pool, whichever of its workers owns them; in order of arrival."""
        self.foreign: set[PodKey] = set()
        """Pending pods, of any pool and shard, that name none of this worker's profiles."""

    def apply(self, changes: Changes) -> None:
        """Take in one revision's changes."""
        idle = len(self._queue) == 0
        looked_at: set[PodKey] = set()
        regrouped = self._gangs.changed(changes)
        unbound = {change.key for change in changes.pods if _unbound(change)}
        for change in changes.pods:
            if change.key not in looked_at:
                looked_at.add(change.key)
                fresh = change.old is None and not changes.listed
                hold = UNBOUND_HOLD if change.key in unbound else 0.0
                self._consider(change.key, "seen" if fresh else "take-over", hold)
        for record in changes.records:
            if record.key not in looked_at:
                looked_at.add(record.key)
                self._consider(record.key, "take-over")
        self._reconsider([key for key in changes.promises if key not in looked_at])
        reclassified = [change.key for change in changes.reclassified if change.new is not None and change.new.pending]
        self._reconsider([key for key in dict.fromkeys((*reclassified, *regrouped)) if key not in looked_at])
        self._open_gates(changes)
        if changes.tenants:
            self._reconsider(self._gangs.reowned())
            self._reconsider(self._labelled())
        to_start = self._queue.active or self._queue.waiting.urgent
        if to_start or (idle and len(self._queue)):  # else it looks for what is due by itself
            self._kick()

    def resharded(self) -> None:
        """The share-out changed: take over and give up pods, and end what belongs to pods that are gone."""
        self._reconsider(list(self._pool))
        for key, refusal in list(self._records.items()):
            pod = self._cache.pods.get(key)
            if (pod is None or pod.bound or pod.finished) and self._shards.owns_key(key):
                self._ending.close(key, refusal, remove_record=True)
        self._kick()

    def answered(self, pods: Collection[PodKey]) -> None:
        """The Kubernetes API has answered the binds of these pods, or this worker has given up for now.

        No copy is to come that shows the answer.
        """
        self._reconsider(pods)
        self._kick()

    def reconfigured(self) -> None:
        """The gates have changed: every pod that they hold back, or held back, is queued anew."""
        self._gangs.forget()
        self._reconsider(list(self._pool))
        self._kick()

    def _open_gates(self, changes: Changes) -> None:
        """Ask the gates again that an event may have opened; a gang may be complete by that."""
        opened = self._gated.may_open(changes)
        self._reconsider(opened)
        if any(self._cache.pods[key].group for key in opened):
            self._reconsider(self._gangs.reowned())

    def _reconsider(self, keys: Collection[PodKey]) -> None:
        for key in keys:
            self._consider(key, "take-over")

    def _labelled(self) -> list[PodKey]:
        label = self._ownership.tenant_label
        return [key for key, pod in self._cache.pods.items() if pod.pending and label in pod.labels]

    def _consider(self, key: PodKey, cause: str, hold: float = 0.0) -> None:
        """`hold`: seconds that a pod which is new to the queue waits at least."""
        pod = self._cache.pods.get(key)
        pending = pod if pod is not None and pod.pending else None
        if pending is not None and pending.scheduler_name not in self._ownership.scheduler_names:
            self.foreign.add(key)
        else:
            self.foreign.discard(key)
        if pending is not None and self._ownership.owns(pending, self._cache.tenants):
            self._pool[key] = None
            if self._shards.mine(pending):
                self._queue_pod(pending, cause, hold)
            else:
                self._queue.remove(key)
            return
        self._pool.pop(key, None)
        if pod is not None and key in self._cache.unanswered:
            self._queue.promised(key)
            return
        entry = self._queue.remove(key)
        if entry is not None:
            self._ended(entry, pod)
        elif pod is None:
            self._orphaned(key)

    def _queue_pod(self, pod: Pod, cause: str, hold: float) -> None:
        known = self._queue.get(pod.key)
        record = self._records.get(pod.key)
        if known is not None and known.pod.create_revision != pod.create_revision:
            self._ended(known, None)  # another life of the name
        elif known is None and record is not None and record.create_revision not in (0, pod.create_revision):
            self._ending.close(pod.key, record, remove_record=True)  # no worker was serving when that life ended
        not_before = self._shards.not_before(pod) if known is None else 0.0
        if hold:
            not_before = max(not_before, self._clock() + hold)
        self._queue.put(pod, record, cause=cause, not_before=not_before)

    def _ended(self, entry: Entry, now: Pod | None) -> None:
        """A pod of ours ended: bound, deleted, finished, or not ours any more."""
        if now is None:
            self._ending.gone(entry.key)
        if now is not None and now.bound:
            attempts = (entry.refusal.attempt if entry.refusal is not None else 0) + 1
            label = str(attempts) if attempts < 15 else "15+"
            self._sli_duration(label).observe(self._clock() - entry.since)
            self._scheduling_attempts.observe(attempts)
            by_cohort = entry.cohort and entry.part is not Part.WAITING
            if by_cohort and (entry.chained or entry.own_chain) and entry.key not in self._records:
                self._ending.leave(entry.pod, entry.refusal if entry.chained else None)
        record = self._records.get(entry.key)  # a bind of ours deleted it in the same transaction
        if record is not None:
            remove = now is None or now.bound or now.finished
            self._ending.close(entry.key, record, remove_record=remove)

    def _orphaned(self, key: PodKey) -> None:
        """The pod is gone, and records of it may be left that no other component removes."""
        if self._shards.owns_key(key):
            self._ending.gone(key)
        record = self._records.get(key)
        if record is not None and self._shards.owns_key(key):
            self._ending.close(key, record, remove_record=True)


def _unbound(change: PodChange) -> bool:
    """Whether another writer took the pod's node away. Kubernetes does not permit it; rk8s' writers do not compare."""
    old, new = change.old, change.new
    return old is not None and old.bound and new is not None and new.pending and old.identity == new.identity


class GatedPods:
    """Finds the pods that a PreEnqueue plugin holds back, and that an event may help.

    A change of the pod itself always has its gates asked again, which is all that SchedulingGates needs. The queueing
    hints of any other plugin say which further events may open its gate.
    """

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
