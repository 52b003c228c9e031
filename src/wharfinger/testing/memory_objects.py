"""Objects of an API server in memory, through time: one revision line over all kinds, as in its etcd.

Objects are kept as JSON, so every reader has its own copy. `memory_server` decides what is written; nothing here
waits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from wharfinger.apiserver.client import ApiResource, Object

Json = dict[str, Any]
ObjectKey = tuple[str, str]
"""Namespace (empty for kinds without) and name."""


class MemoryWrite(NamedTuple):
    """One write, as watches learn of it."""

    revision: int
    resource: ApiResource
    before: bytes | None
    """None = the object was created."""
    after: bytes | None
    """None = it was deleted."""


class Backup(NamedTuple):
    """Everything that was there at one moment."""

    revision: int
    objects: Mapping[ApiResource, Mapping[ObjectKey, bytes]]


class MemoryObjects:
    """The newest state of each object, and the writes that are still kept."""

    def __init__(self) -> None:
        self.revision = 1
        """The newest one."""
        self.forgotten = 0
        """Writes up to this revision are no longer kept."""
        self._objects: dict[ApiResource, dict[ObjectKey, bytes]] = {}
        self._log: list[MemoryWrite] = []
        self._uids = 0

    def new_uid(self) -> str:
        """Another uid each time; always the same ones in the same order."""
        self._uids += 1
        return f"00000000-0000-4000-8000-{self._uids:012x}"

    def read(self, resource: ApiResource, namespace: str, name: str) -> Json | None:
        """A copy of an object; None if there is none."""
        data = self._objects.get(resource, {}).get((namespace, name))
        return None if data is None else loaded(data)

    def all(self, resource: ApiResource, namespace: str = "") -> list[bytes]:
        """All objects of a kind, in the order of their keys."""
        kept = self._objects.get(resource, {})
        return [kept[key] for key in sorted(kept) if not namespace or key[0] == namespace]

    def write(self, resource: ApiResource, obj: Json) -> Json:
        """Store an object at a new revision, and give it as it is stored."""
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        data = orjson.dumps(obj)
        key = key_of(obj)
        kept = self._objects.setdefault(resource, {})
        self._log.append(MemoryWrite(self.revision, resource, kept.get(key), data))
        kept[key] = data
        return loaded(data)

    def remove(self, resource: ApiResource, namespace: str, name: str) -> Json:
        """Delete an object that is there; its last state, at the revision of the deletion."""
        before = self._objects[resource].pop((namespace, name))
        self.revision += 1
        self._log.append(MemoryWrite(self.revision, resource, before, None))
        return loaded(before, self.revision)

    def since(self, revision: int, resource: ApiResource) -> Iterator[MemoryWrite]:
        """Writes of a kind after a revision, oldest first."""
        first = bisect_right(self._log, revision, key=lambda written: written.revision)
        for index in range(first, len(self._log)):
            if self._log[index].resource == resource:
                yield self._log[index]

    def forget_before(self, revision: int) -> None:
        """Keep no writes before a revision."""
        self.forgotten = max(self.forgotten, min(revision, self.revision + 1) - 1)
        self._log = [written for written in self._log if written.revision > self.forgotten]

    def backup(self) -> Backup:
        """All that is there now."""
        return Backup(self.revision, {resource: dict(kept) for resource, kept in self._objects.items()})

    def restore(self, backup: Backup) -> None:
        """Go back to a backup: what came later never was. Uids are not used again."""
        self.revision = self.forgotten = backup.revision
        self._objects = {resource: dict(kept) for resource, kept in backup.objects.items()}
        self._log = []


def loaded(data: bytes, revision: int = 0) -> Json:
    """An object from its JSON; with a revision, at that one."""
    obj: Json = orjson.loads(data)
    if revision:
        obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def key_of(obj: Object) -> ObjectKey:
    """Where an object belongs."""
    return str(obj["metadata"].get("namespace") or ""), str(obj["metadata"]["name"])
