"""The queued members of each gang that is placed as one: they are started together, and woken by one signal."""

from __future__ import annotations

from wharfinger.model.gang import Gang, GangKey
from wharfinger.model.pod import PodKey
from wharfinger.queue.entry import Entry, Part


class QueuedGangs:
    """Entries by gang, whichever part of the queue they are in."""

    def __init__(self) -> None:
        self._members: dict[GangKey, dict[PodKey, Entry]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def assign(self, entry: Entry, gang: Gang | None) -> bool:
        """The pod is placed as one of this gang from now on, or by itself; whether that is something new."""
        if entry.gang == gang:
            return False
        self.discard(entry)
        entry.gang = gang
        if gang is not None:
            entry.together = False
            self._members.setdefault(gang.key, {})[entry.key] = entry
        return True

    def discard(self, entry: Entry) -> None:
        """The entry is of no gang any more."""
        if entry.gang is None:
            return
        members = self._members[entry.gang.key]
        del members[entry.key]
        if not members:
            del self._members[entry.gang.key]
        entry.gang = None

    def members(self, gang: GangKey, part: Part) -> list[Entry]:
        """The gang's entries in that part, sorted by name."""
        found = [entry for entry in self._members.get(gang, {}).values() if entry.part is part]
        return sorted(found, key=lambda entry: entry.key)

    def keys(self, gang: GangKey) -> list[PodKey]:
        """All queued members of the gang, in whichever part, sorted by name."""
        return sorted(self._members.get(gang, ()))

    def leads(self, entry: Entry) -> bool:
        """Whether the entry stands for its gang among those in the same part: exactly one of them does."""
        return entry.gang is None or self.members(entry.gang.key, entry.part)[0] is entry
