"""The first state of a rerun, in the order in which it is lived: in a temporary file, for a cluster's is large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wharfinger.registry import keys
from wharfinger.registry.store import Event, KeyValue
from wharfinger.replaying.scratch import scratch_database, writing

_TABLE = "CREATE TABLE state (rank, key, value, created, changed, lease)"
_RANKS = {keys.PRIORITY_CLASSES: 0, keys.NODES: 2, keys.PODS: 3}
_OTHERS = 1
"""The rank of what stands not among these."""


class FirstState:
    """Keys and values. Close it."""

    def __init__(self) -> None:
        self._database = scratch_database(_TABLE)

    def add(self, items: Iterable[KeyValue]) -> None:
        """A part of it. Raises `UsageError` where no file can be written."""
        with writing():
            self._database.executemany(
                "INSERT INTO state VALUES (?, ?, ?, ?, ?, ?)", ((_rank(kv.key), *kv) for kv in items)
            )

    def events(self) -> Iterator[Event]:
        """Classes first, because pods are resolved by them; then nodes, in the order in which they came; then pods."""
        query = "SELECT key, value, created, changed, lease FROM state ORDER BY rank, created, rowid"
        with writing():
            for row in self._database.execute(query):
                yield Event(KeyValue._make(row))

    def close(self) -> None:
        """Give the room back."""
        self._database.close()


def _rank(key: str) -> int:
    parsed = keys.parse(key)
    return _RANKS.get(parsed.prefix, _OTHERS) if parsed is not None else _OTHERS
