"""Pods that a PreEnqueue plugin holds back: neither started nor woken until it lets them go."""

from __future__ import annotations

from collections.abc import Iterator

from wharfinger.model.pod import PodKey
from wharfinger.queue.entry import Entry


class Gated:
    """A pod leaves by its own update only (its gates are removed), which the facade looks at."""

    def __init__(self) -> None:
        self._entries: dict[PodKey, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def add(self, entry: Entry) -> None:
        """Hold the pod back."""
        self._entries[entry.key] = entry

    def discard(self, key: PodKey) -> None:
        """Take the pod out, if it is in."""
        self._entries.pop(key, None)
