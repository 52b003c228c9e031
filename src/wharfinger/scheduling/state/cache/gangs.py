"""Which pods name which gang: an index over the pods of the cache, for gangs are looked up as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wharfinger.objects.model.gang import GangKey, gang_key
from wharfinger.objects.model.pod import Pod, PodKey


class GangMembers:
    """Pods by gang, in the order in which they were seen first; those without a group cost nothing."""

    def __init__(self, pods: Mapping[PodKey, Pod]) -> None:
        """`pods`: the cache's (a live view)."""
        self._pods = pods
        self._members: dict[GangKey, dict[PodKey, None]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[GangKey]:
        return iter(self._members)

    def of(self, key: GangKey) -> Iterator[Pod]:
        """Every pod that names the gang, as it is now: bound, pending, finished or leaving."""
        for member in self._members.get(key, ()):
            yield self._pods[member]

    def moved(self, old: Pod | None, new: Pod | None) -> None:
        """A pod is another one now, came, or went."""
        before = gang_key(old) if old is not None else None
        after = gang_key(new) if new is not None else None
        if before == after:
            return
        if before is not None and old is not None:
            members = self._members[before]
            del members[old.key]
            if not members:
                del self._members[before]
        if after is not None and new is not None:
            self._members.setdefault(after, {})[new.key] = None
