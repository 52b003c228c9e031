"""The recent events of the cluster, kept so that none is lost between a refusal and its record.

A pod is refused on a snapshot of revision r; its record comes by the watch later. Events in between
concern it as much as those after, so they are looked up here. When the log does not reach back to r,
that is known too (`floor`), and the pod is decided once instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from wharfinger.model.events import ClusterEvent

CAPACITY = 16_384
"""Events of some seconds while thousands of pods a second are bound; beyond it, every waiting pod is decided."""


class EventLog:
    """A bounded log in the order of revisions."""

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
