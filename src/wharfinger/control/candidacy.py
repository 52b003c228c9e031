"""Which waiting pods are worth a decision, and why: events and hints on one side, candidates on the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wharfinger.control.changes import Changes
from wharfinger.control.event_log import EventLog
from wharfinger.framework.profile import Profile
from wharfinger.model.events import ClusterEvent, Resource, node_event, pod_events
from wharfinger.model.pod import Pod
from wharfinger.queue.entry import Entry
from wharfinger.queue.scheduling_queue import SchedulingQueue


@dataclass(frozen=True, slots=True)
class Reason:
    """What made a pod a candidate; goes into the signal and so into the explanation."""

    event: str
    object: str = ""
    plugin: str = ""


def events_of(changes: Changes) -> Iterator[ClusterEvent]:
    """What one revision's changes mean to scheduling."""
    for node in changes.nodes:
        event = node_event(node.old, node.new, changes.revision, changes.surroundings)
        if event is not None:
            yield event
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

    def everybody(self, cause: str) -> None:
        """Every waiting pod is worth a decision."""
        reason = Reason(cause)
        for entry in self._queue.waiting:
            self._found.setdefault(entry, reason)

    def arrived(self, entry: Entry) -> None:
        """A pod came to wait: look at what happened since the snapshot that refused it."""
        if self._queue.waiting.get(entry.key) is not entry or entry.refusal is None:
            return
        if entry.refusal.revision < self._log.floor:
            self._found.setdefault(entry, Reason("TakeOver"))
            return
        for event in self._log.after_revision(entry.refusal.revision):
            plugin = self._helped_by(event, entry)
            if plugin is not None:
                self._found.setdefault(entry, _reason(event, plugin))
                return

    def event(self, event: ClusterEvent) -> None:
        """Ask the hints which waiting pods an event may help; once a class of equal pods."""
        if event.resource is Resource.UNSCHEDULED_POD:
            self._own_update(event)
            return
        index = self._queue.waiting.candidates
        for rejectors in index.rejectors():
            if any(profile.concerns(event, rejectors) for profile in self._profiles.values()):
                for equals in index.refused_by(rejectors):
                    self._ask_for(equals, event)

    def take(self) -> list[tuple[Entry, Reason]]:
        """The candidates, by priority, then arrival; none are left."""
        found, self._found = self._found, {}
        return sorted(found.items(), key=lambda item: (-item[0].pod.priority, item[0].since))

    def _ask_for(self, equals: list[Entry], event: ClusterEvent) -> None:
        plugin = self._helped_by(event, equals[0])
        if plugin is None:
            return
        reason = _reason(event, plugin)
        for entry in equals:
            if entry.refusal is not None and entry.refusal.revision < event.revision:
                self._found.setdefault(entry, reason)

    def _own_update(self, event: ClusterEvent) -> None:
        if not isinstance(event.new, Pod):
            return
        entry = self._queue.waiting.get(event.new.key)
        if entry is not None:
            plugin = self._helped_by(event, entry)
            if plugin is not None:
                self._found.setdefault(entry, _reason(event, plugin))

    def _helped_by(self, event: ClusterEvent, entry: Entry) -> str | None:
        rejectors = entry.refusal.rejectors if entry.refusal is not None else ()
        return self._profiles[entry.pod.scheduler_name].may_help(event, entry.pod, rejectors)


def _reason(event: ClusterEvent, plugin: str) -> Reason:
    return Reason(event.label, event.object_name, plugin)
