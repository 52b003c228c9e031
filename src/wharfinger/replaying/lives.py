"""All pods of a rerun: those that are there in memory, and those that ended in a temporary file, in their order.

A span may have any number of pods, and what became of one that ended is only told at the end.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import fields

from wharfinger.model.pod import PodKey
from wharfinger.replaying.lived_pods import LivedPod
from wharfinger.replaying.scratch import scratch_database, writing

_FIELDS = tuple(field.name for field in fields(LivedPod) if field.name not in ("key", "digest"))
"""What is told of a pod that ended, beside its name."""
_FLAGS = ("ours", "evicted", "evicted_then", "failed")
_TABLE = f"CREATE TABLE ended (number INTEGER PRIMARY KEY, namespace, name, {', '.join(_FIELDS)})"
_ADDED = f"INSERT INTO ended VALUES ({', '.join('?' * (3 + len(_FIELDS)))})"  # noqa: S608 - ours


class Lives:
    """Lives of pods, iterated in the order in which they came; its length counts them. Close it."""

    def __init__(self) -> None:
        self._there: dict[PodKey, tuple[int, LivedPod]] = {}
        self._ended: sqlite3.Connection | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[LivedPod]:
        """One that ended is another object each time, which nobody keeps."""
        for _, pod in heapq.merge(self._read(), self._there.values(), key=lambda one: one[0]):
            yield pod

    @property
    def there(self) -> Iterator[LivedPod]:
        """Those that are there."""
        return (pod for _, pod in self._there.values())

    def get(self, key: PodKey) -> LivedPod | None:
        """The pod of that name that is there."""
        found = self._there.get(key)
        return found[1] if found is not None else None

    def came(self, pod: LivedPod) -> None:
        """The pod is there; no other of its name is."""
        self._there[pod.key] = self._count, pod
        self._count += 1

    def ended(self, pod: LivedPod) -> None:
        """The pod is there no more: nothing of it changes. Raises `UsageError` where no file can be written."""
        number, _ = self._there.pop(pod.key)
        if self._ended is None:
            self._ended = scratch_database(_TABLE)
        with writing():
            self._ended.execute(_ADDED, (number, *pod.key, *(_kept(getattr(pod, name)) for name in _FIELDS)))

    def close(self) -> None:
        """Give the room of the file back."""
        if self._ended is not None:
            self._ended.close()
            self._ended = None

    def _read(self) -> Iterator[tuple[int, LivedPod]]:
        if self._ended is not None:
            for number, namespace, name, *values in self._ended.execute("SELECT * FROM ended ORDER BY number"):
                yield number, _pod(PodKey(namespace, name), dict(zip(_FIELDS, values, strict=True)))


def _kept(value: object) -> object:
    """JSON can have halves of characters in a text, and a file cannot."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _pod(key: PodKey, values: Mapping[str, object]) -> LivedPod:
    flags = {name: bool(values[name]) for name in _FLAGS}
    return LivedPod(key, **{**values, **flags})  # type: ignore[arg-type]  # as they were written
