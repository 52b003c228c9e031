"""Which waiting pods are worth a decision, and why: cluster events and queueing hints select the candidates."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

from wharfinger.framework.profile import Profile
from wharfinger.objects.model.events import (
    ClusterEvent,
    Resource,
    node_event,
    pod_events,
    reclassification,
    storage_event,
)
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.queue.entry import Entry, Reason
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.scheduling.state.queue.waiting import Equals, Rejectors

CAPACITY = 16_384
"""Events of some seconds while thousands of pods a second are bound; beyond it, every waiting pod is decided."""


class EventLog:
    """A bounded log of recent cluster events in revision order.

    A pod is refused on a snapshot of revision r, and its record arrives by the watch later. The events between the two
    concern the pod as well, so they are looked up here. `floor` is the revision up to which events are missing; a pod
    that was refused before it is decided once instead.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._events: deque[ClusterEvent] = deque()
        self._appended = 0
        self.floor = 0
        """Every event after this revision is in the log."""

    def append(self, event: ClusterEvent) -> None:
        """Keep an event; the oldest one may fall out."""
        self._events.append(event)
        self._appended += 1
        if len(self._events) > self._capacity:
            self.floor = max(self.floor, self._events.popleft().revision)

    def begin(self, revision: int) -> None:
        """What happened up to `revision` was never seen event by event (it was found by a list)."""
        self.floor = max(self.floor, revision)
        while self._events and self._events[0].revision <= revision:
            self._events.popleft()

    @property
    def position(self) -> int:
        """How many events were ever appended."""
        return self._appended

    def after_position(self, position: int) -> Iterator[ClusterEvent]:
        """The kept events appended since `position`, oldest first."""
        wanted = min(self._appended - position, len(self._events))
        return iter([self._events[index] for index in range(-wanted, 0)])

    def missed(self, position: int) -> bool:
        """Whether events appended since `position` have fallen out already."""
        return self._appended - position > len(self._events)

    def after_revision(self, revision: int) -> list[ClusterEvent]:
        """The kept events newer than `revision`, oldest first."""
        found: list[ClusterEvent] = []
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            found.append(event)
        found.reverse()
        return found


WORTH_ASKING = 64
"""Hints, of one class about events in a row; a decision costs about as much."""


def events_of(changes: Changes) -> Iterator[ClusterEvent]:
    """What one revision's changes mean to scheduling."""
    for node in changes.nodes:
        event = node_event(node.old, node.new, changes.revision, changes.surroundings)
        if event is not None:
            yield event
    for thing in changes.storage:
        event = storage_event(thing.old, thing.new, changes.revision, changes.surroundings)
        if event is not None:
            yield event
    if changes.reclassified:
        yield reclassification(changes.revision, changes.surroundings)
    for pod in changes.released:  # also where it is bound now: from then on it can be preempted
        yield from pod_events(pod.old, None, changes.revision, changes.surroundings)
    for pod in changes.pods:
        yield from pod_events(pod.old, pod.new, changes.revision, changes.surroundings)


class Candidacy:
    """The candidates gathered so far; the first reason counts."""

    def __init__(self, queue: SchedulingQueue, profiles: Mapping[str, Profile], log: EventLog) -> None:
        self._queue = queue
        self._profiles = profiles
        self._log = log
        self._found: dict[Entry, Reason] = {}
        self._deferred: dict[Entry, Reason] = {}

    def add(self, entry: Entry, reason: Reason) -> None:
        """The pod is worth a decision."""
        self._found.setdefault(entry, reason)

    def defer(self, entry: Entry, reason: Reason) -> None:
        """Decide the pod again later (see `release_deferred`)."""
        self._deferred[entry] = reason

    @property
    def deferred(self) -> int:
        """How many pods were deferred."""
        return len(self._deferred)

    def release_deferred(self) -> None:
        """What was deferred is worth a decision now."""
        for entry, reason in self._deferred.items():
            self._found.setdefault(entry, reason)
        self._deferred.clear()

    def all_waiting(self, cause: str) -> None:
        """Every waiting pod is worth a decision."""
        reason = Reason(cause)
        for entry in self._queue.waiting:
            self._found.setdefault(entry, reason)

    def arrived(self, entries: Iterable[Entry]) -> Iterator[None]:
        """Pods came to wait: look at what happened since the snapshots that refused them.

        Yields after each class, so that something else may run.
        """
        arrived: dict[Equals, list[Entry]] = {}
        waiting = self._queue.waiting
        oldest: int | None = None
        for entry in entries:
            if waiting.get(entry.key) is not entry or entry.refusal is None:
                continue
            if entry.refusal.revision < self._log.floor:
                self.add(entry, Reason("TakeOver"))
            else:
                arrived.setdefault(waiting.candidates.equals_of(entry.key), []).append(entry)
                oldest = entry.refusal.revision if oldest is None else min(oldest, entry.refusal.revision)
        if oldest is not None:
            came = {entry for members in arrived.values() for entry in members}
            yield from self._ask(arrived.items(), self._log.after_revision(oldest), came)

    def events(self, events: Sequence[ClusterEvent]) -> Iterator[None]:
        """Ask the hints which waiting pods these events, oldest first, may help. Yields after each class."""
        index = self._queue.waiting.candidates
        concerned = [
            (equals, equals.members.values())
            for rejectors in index.rejectors()
            if any(self._concerns(event, rejectors) for event in events)
            for equals in index.refused_by(rejectors)
        ]
        yield from self._ask(concerned, events, None)

    def _ask(
        self,
        classes: Iterable[tuple[Equals, Collection[Entry]]],
        events: Sequence[ClusterEvent],
        among: Container[Entry] | None,
    ) -> Iterator[None]:
        """Ask for pods of each class; `among`: whose own updates count, None = those of all pods."""
        others: list[ClusterEvent] = []
        for event in reversed(events):
            if event.resource is Resource.UNSCHEDULED_POD:
                self._own_update(event, among)
            else:
                others.append(event)
        concerning: dict[Rejectors, list[ClusterEvent]] = {}
        for equals, members in classes:
            if equals.rejectors not in concerning:
                concerning[equals.rejectors] = [event for event in others if self._concerns(event, equals.rejectors)]
            self._ask_for(members, equals.rejectors, concerning[equals.rejectors])
            yield

    def _ask_for(self, members: Collection[Entry], rejectors: Rejectors, newest_first: Sequence[ClusterEvent]) -> None:
        """Equal pods: those that know nothing of the newest event that helps are candidates.

        After many that do not help it is cheaper to decide than to go on asking. That a pod's own room was given back
        does not help that pod: whatever refused it there would do so again, and again.
        """
        if not members or not newest_first:
            return
        one = next(iter(members))
        oldest = min(entry.refusal.revision for entry in members if entry.refusal is not None)
        for number, event in enumerate(newest_first):
            if event.revision <= oldest:
                return
            plugin = self._helped_by(event, one, rejectors)
            if plugin is not None or number >= WORTH_ASKING:
                reason = _reason(event, plugin or "")
                own: list[Entry] = []
                for entry in members:
                    if _frees_its_own_room(event, entry):
                        own.append(entry)
                    elif entry.refusal is not None and entry.refusal.revision < event.revision:
                        self.add(entry, reason)
                self._ask_for(own, rejectors, newest_first[number + 1 :])
                return

    def _concerns(self, event: ClusterEvent, rejectors: Rejectors) -> bool:
        return any(profile.concerns(event, rejectors) for profile in self._profiles.values())

    def take(self) -> list[tuple[Entry, Reason]]:
        """The candidates, by priority, then arrival, then creation; none are left."""
        found, self._found = self._found, {}
        return sorted(found.items(), key=_turn)

    def _own_update(self, event: ClusterEvent, among: Container[Entry] | None = None) -> None:
        if not isinstance(event.new, Pod):
            return
        entry = self._queue.waiting.get(event.new.key)
        if entry is None or (among is not None and entry not in among):
            return
        if entry.refusal is not None and entry.refusal.revision < event.revision:
            rejectors = self._queue.waiting.candidates.equals_of(entry.key).rejectors
            plugin = self._helped_by(event, entry, rejectors)
            if plugin is not None:
                self._found.setdefault(entry, _reason(event, plugin))

    def _helped_by(self, event: ClusterEvent, entry: Entry, rejectors: Rejectors) -> str | None:
        return self._profiles[entry.pod.scheduler_name].may_help(event, entry.pod, rejectors)


def _turn(candidate: tuple[Entry, Reason]) -> tuple[int, float, int, PodKey]:
    # Pods may arrive at one moment. How they came to be candidates differs from round to round.
    entry, _ = candidate
    return -entry.pod.priority, entry.since, entry.pod.create_revision, entry.key


def _frees_its_own_room(event: ClusterEvent, entry: Entry) -> bool:
    if event.resource is not Resource.ASSIGNED_POD or not isinstance(event.old, Pod):
        return False
    return event.old.bound and event.old.identity == entry.pod.identity


def _reason(event: ClusterEvent, plugin: str) -> Reason:
    return Reason(event.label, event.object_name, plugin)
